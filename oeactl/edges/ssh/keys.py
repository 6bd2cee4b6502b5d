"""Which keys are offered to a server, in which order, and what it means when none is taken.

Owns: loading keys and the order of attempts. Refuses: passwords, hardware keys outside an agent, and to hide
why a key was not used.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from oeactl.core.host import Value
from oeactl.edges.ssh.config import Route
from oeactl.errors import Unreachable

Key = TypeVar("Key")

PASSPHRASE = "OEACTL_KEY_PASSPHRASE"


class Attempt(Value, frozen=True, kw_only=True):
    """A key by its name for people, and what became of it."""

    key: str
    outcome: str


def public_blob(path: str) -> bytes | None:
    """The public half beside a private key file, None where there is none to read."""
    try:
        return base64.b64decode(Path(path + ".pub").read_text().split()[1], validate=True)
    except (OSError, IndexError, UnicodeDecodeError, binascii.Error):
        return None


def in_order(route: Route, agent_keys: Sequence[Key], blob: Callable[[Key], bytes]) -> Iterator[Key | str]:
    """Agent keys that the route names, then its key files (as paths), then what else the agent holds.

    Servers hang up after a handful of wrong keys, so the likely ones come first.
    """
    named = {found: path for path in route.identities if (found := public_blob(path))}
    held = [key for key in agent_keys if blob(key) in named]
    yield from held
    covered = {named[blob(key)] for key in held}
    yield from (path for path in route.identities if path not in covered)
    if not route.identities_only:
        yield from (key for key in agent_keys if key not in held)


def refusal(
    route: Route, attempts: Sequence[Attempt], allowed: Sequence[str], *, hung_up: bool
) -> Unreachable:
    """What to say when the server took no key."""
    login = f"{route.user}@{route.at}"
    details = tuple(f"{attempt.key}: {attempt.outcome}" for attempt in attempts)
    if not attempts:
        return Unreachable(
            f"there is no key to show to {login}",
            hint="set identity_file in hosts.yaml, or load one into ssh-agent (ssh-add)",
        )
    if hung_up:
        return Unreachable(
            f"{login} hung up after {len(attempts)} keys (too many attempts)",
            hint="set identity_file in hosts.yaml, and IdentitiesOnly yes in ssh_config",
            details=details,
        )
    if all("passphrase" in attempt.outcome for attempt in attempts):
        return Unreachable(
            f"no key for {login} could be opened",
            hint=f"load it into ssh-agent (ssh-add), or set {PASSPHRASE}",
            details=details,
        )
    if allowed and "publickey" not in allowed:
        details = (*details, f"the server takes only: {', '.join(allowed)}")
    return Unreachable(
        f"{login} took none of our keys",
        hint="check user and identity_file in hosts.yaml, or add the public key there: ssh-copy-id",
        details=details,
    )
