"""What OpenSSH would do with a name: asked of ``ssh -G``, one hop at a time.

Owns: that question, the expansion of what it leaves unexpanded, and the chain of hops. Refuses: to parse
ssh_config itself (Include and Match are OpenSSH's to understand), and to connect.
"""

from __future__ import annotations

import getpass
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from oeactl.core.host import Value
from oeactl.errors import Unreachable, UsageError

RESOLVE_S = 20.0
MOST_HOPS = 8
DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
DEFAULT_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


class Target(Value, frozen=True, kw_only=True):
    """What was written down about one hop; None leaves it to OpenSSH's configuration."""

    address: str
    port: int | None = None
    user: str | None = None
    identity_file: str | None = None
    proxy_jump: str | None = None
    ssh_config: str | None = None


class Route(Value, frozen=True, kw_only=True):
    """One hop, resolved. identities: key files that exist. agent_socket: None when no agent is to be asked.

    host_key_alias: the name to look up in known_hosts instead of the host's. known_hosts: files, the
    user's first. proxy_jump and proxy_command: at most one of them.
    """

    hostname: str
    port: int
    user: str
    identities: tuple[str, ...]
    identities_only: bool
    agent_socket: str | None
    proxy_jump: str | None
    proxy_command: str | None
    host_key_alias: str | None
    known_hosts: tuple[str, ...]

    @property
    def at(self) -> str:
        """host:port, for messages."""
        return f"[{self.hostname}]:{self.port}" if ":" in self.hostname else f"{self.hostname}:{self.port}"


def chain(target: Target, environment: Mapping[str, str]) -> tuple[Route, ...]:
    """The hops to ``target``, it last. Raises UsageError for a configuration that cannot be followed."""
    return _chain(target, environment, MOST_HOPS)


def _chain(target: Target, environment: Mapping[str, str], left: int) -> tuple[Route, ...]:
    if left == 0:
        raise UsageError(
            f"more than {MOST_HOPS} jumps lead to {target.address}", hint="look for a loop: ssh -G"
        )
    route = resolve(target, environment)
    if route.proxy_jump is None:
        return (route,)
    *before, last = route.proxy_jump.split(",")
    hop = parse_hop(last)
    jump = Target(
        address=hop.address,
        port=hop.port,
        user=hop.user,
        proxy_jump=",".join(before) or None,
        ssh_config=target.ssh_config,
    )
    return (*_chain(jump, environment, left - 1), route)


_HOP = re.compile(r"(?:ssh://)?(?:(?P<user>.+)@)?(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:]+))(?::(?P<port>\d+))?/?")


def parse_hop(text: str) -> Target:
    """``user@host:port`` as in ProxyJump; IPv6 in brackets, or bare without a port."""
    text = text.strip()
    found = _HOP.fullmatch(text)
    if found is None:
        user, at, address = text.rpartition("@")
        if address.count(":") < 2:
            raise UsageError(f"not a jump host: {text!r}", hint="write user@host:port")
        return Target(address=address, user=user if at else None)
    port = int(found["port"]) if found["port"] else None
    return Target(address=found["v6"] or found["host"], port=port, user=found["user"])


def resolve(target: Target, environment: Mapping[str, str]) -> Route:
    """Ask OpenSSH about one hop; without an ``ssh`` here, take what was written and the usual defaults."""
    settings = _ask_openssh(target)
    if settings is None:
        return _plain(target, environment)
    user = settings["user"][0]
    hostname = settings["hostname"][0]
    port = int(settings["port"][0])
    alias = _given(settings, "hostkeyalias")
    tokens = {
        "%": "%",
        "h": hostname,
        "n": target.address,
        "p": str(port),
        "r": user,
        "u": getpass.getuser(),
        "d": str(Path("~").expanduser()),
        "k": alias or target.address,
        "i": str(os.getuid()),
    }
    files = [_expand(word, tokens) for word in settings.get("identityfile", ())]
    known = [*_words(settings, "userknownhostsfile"), *_words(settings, "globalknownhostsfile")]
    return Route(
        hostname=hostname,
        port=port,
        user=user,
        identities=_existing(files, target),
        identities_only=_given(settings, "identitiesonly") == "yes",
        agent_socket=_agent_socket(settings.get("identityagent", [None])[0], tokens, environment),
        proxy_jump=_given(settings, "proxyjump"),
        proxy_command=_proxy_command(settings, tokens),
        host_key_alias=alias,
        known_hosts=tuple(_expand(word, tokens) for word in known),
    )


def _ask_openssh(target: Target) -> dict[str, list[str]] | None:
    """Keyword -> its values, in order; None where there is no OpenSSH client."""
    command = ["ssh", "-G"]
    if target.ssh_config is not None:
        if not Path(target.ssh_config).is_file():
            raise UsageError(
                "there is no such ssh configuration", where=target.ssh_config, hint="correct ssh_config"
            )
        command += ["-F", target.ssh_config]
    options: Sequence[tuple[str, str | int | None]] = (
        ("Port", target.port),
        ("User", target.user),
        ("IdentityFile", target.identity_file),
        ("ProxyJump", target.proxy_jump),
    )
    for name, value in options:
        if value is not None:
            command += ["-o", f"{name}={_quoted(str(value), name)}"]
    command += ["--", target.address]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=RESOLVE_S, check=False
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired:
        raise Unreachable(
            f"ssh -G {target.address} gave no answer within {RESOLVE_S:g} s",
            hint="a Match exec may hang there",
        ) from None
    if done.returncode != 0:
        lines = tuple(done.stderr.decode("utf-8", "replace").splitlines())
        raise UsageError(f"OpenSSH cannot resolve {target.address!r}", hint="try: ssh -G", details=lines)
    settings: dict[str, list[str]] = {}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(" ")
        settings.setdefault(name.lower(), []).append(value)
    return settings


def _quoted(value: str, name: str) -> str:
    if '"' in value or "\n" in value:
        raise UsageError(f"not a value for {name}: {value!r}")
    return f'"{value}"' if " " in value else value


def _given(settings: Mapping[str, Sequence[str]], name: str) -> str | None:
    value = settings.get(name, ("none",))[0]
    return None if value == "none" else value


def _words(settings: Mapping[str, Sequence[str]], name: str) -> list[str]:
    return [word for value in settings.get(name, ()) for word in value.split() if word != "none"]


def _expand(text: str, tokens: Mapping[str, str]) -> str:
    text = re.sub(r"%(.)", lambda found: tokens.get(found[1], found[0]), text)
    return str(Path(text).expanduser())


def _existing(files: Sequence[str], target: Target) -> tuple[str, ...]:
    """Key files that are there: OpenSSH also lists default ones that are not."""
    if target.identity_file is not None and not Path(target.identity_file).expanduser().is_file():
        raise UsageError(
            "there is no such key file", where=target.identity_file, hint="correct identity_file"
        )
    return tuple(file for file in files if Path(file).is_file() or Path(file + ".pub").is_file())


def _agent_socket(
    configured: str | None, tokens: Mapping[str, str], environment: Mapping[str, str]
) -> str | None:
    if configured is None or configured == "SSH_AUTH_SOCK":
        return environment.get("SSH_AUTH_SOCK") or None
    if configured == "none":
        return None
    if configured.startswith("$"):
        return environment.get(configured.strip("${}")) or None
    return _expand(configured, tokens)


def _proxy_command(settings: Mapping[str, Sequence[str]], tokens: Mapping[str, str]) -> str | None:
    command = _given(settings, "proxycommand")
    if command is None:
        return None
    return re.sub(r"%(.)", lambda found: tokens.get(found[1], found[0]), command)


def _plain(target: Target, environment: Mapping[str, str]) -> Route:
    files = [target.identity_file] if target.identity_file else list(DEFAULT_KEYS)
    known = (*DEFAULT_KNOWN_HOSTS, *GLOBAL_KNOWN_HOSTS)
    return Route(
        hostname=target.address,
        port=target.port or 22,
        user=target.user or getpass.getuser(),
        identities=_existing([str(Path(file).expanduser()) for file in files], target),
        identities_only=False,
        agent_socket=environment.get("SSH_AUTH_SOCK") or None,
        proxy_jump=None if target.proxy_jump in (None, "none") else target.proxy_jump,
        proxy_command=None,
        host_key_alias=None,
        known_hosts=tuple(str(Path(file).expanduser()) for file in known),
    )
