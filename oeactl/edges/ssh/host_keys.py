"""known_hosts, read as OpenSSH reads it: is this the machine we think it is?

Owns: matching lines (patterns, hashed names, ports, revoked keys) and what to say when none fits. Refuses:
to add a key, and to let an unknown or changed one pass.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import shlex
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from oeactl.core.host import Value
from oeactl.edges.ssh.config import Route
from oeactl.errors import Unreachable, UntrustedHost


class Known(Value, frozen=True, kw_only=True):
    """One line that speaks of this host. marker: "", "@revoked" or "@cert-authority"."""

    marker: str
    kind: str
    key: bytes
    file: str
    line: int


class HostKeys:
    """What the files of a route say about its host."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._name = lookup_name(route)
        lines = tuple(_lines(route.known_hosts))
        self._known = _about(self._name, lines)
        plain = () if route.host_key_alias or route.port == 22 else _about(route.hostname, lines)
        # OpenSSH also takes the host's key without a port; a different one there means nothing.
        self._elsewhere = tuple(known for known in plain if not known.marker)

    def kinds(self) -> frozenset[str]:
        """Key types that could be recognised: to be asked for first, or a known host would look changed."""
        return frozenset(known.kind for known in (*self._known, *self._elsewhere) if not known.marker)

    def check(self, kind: str, key: bytes) -> None:
        """Accept exactly the known key. Raises Unreachable for an unknown, changed or revoked one."""
        same = [known for known in (*self._known, *self._elsewhere) if known.key == key]
        if any(known.marker == "@revoked" for known in same):
            raise self._refusal(f"the host key of {self._route.at} is revoked", kind, key, None)
        if any(not known.marker for known in same):
            return
        other = [known for known in self._known if not known.marker]
        if other:
            raise self._changed(kind, key, other[0])
        if any(known.marker == "@cert-authority" for known in self._known):
            raise self._refusal(
                f"the host key of {self._route.at} is vouched for by a @cert-authority only, "
                "which this client cannot check",
                kind,
                key,
                self._command_to_add(kind),
            )
        raise self._refusal(
            f"the host key of {self._route.at} is not known here", kind, key, self._command_to_add(kind)
        )

    def _changed(self, kind: str, key: bytes, known: Known) -> Unreachable:
        forget = f"ssh-keygen -f {shlex.quote(known.file)} -R {shlex.quote(self._name)}"
        return self._refusal(
            f"the host key of {self._route.at} has CHANGED: another machine, or installed anew",
            kind,
            key,
            f"only if you know why: {forget} && {self._command(kind)}",
            f"known so far ({known.file}:{known.line}): {fingerprint(known.key)}",
        )

    def _refusal(self, what: str, kind: str, key: bytes, hint: str | None, *details: str) -> Unreachable:
        shown = f"it shows the {kind} key {fingerprint(key)}"
        return UntrustedHost(what, hint=hint, details=(shown, *details))

    def _command_to_add(self, kind: str) -> str:
        compare = "compare it with the host's own (ssh-keygen -lf there, on /etc/ssh/*.pub)"
        return f"{compare}, then: {self._command(kind)}"

    def _command(self, kind: str) -> str:
        """The command that adds the key that is shown now."""
        route = self._route
        file = shlex.quote(route.known_hosts[0] if route.known_hosts else "~/.ssh/known_hosts")
        if route.proxy_jump or route.proxy_command or route.host_key_alias:
            return f"connect once with ssh and confirm it; it goes to {file}"
        port = "" if route.port == 22 else f" -p {route.port}"
        short = kind.removeprefix("ssh-").split("-")[0]
        return f"ssh-keyscan -t {short}{port} {shlex.quote(route.hostname)} >> {file}"


def fingerprint(key: bytes) -> str:
    """As ssh-keygen -l shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).rstrip(b"=").decode()


def lookup_name(route: Route) -> str:
    if route.host_key_alias:
        return route.host_key_alias
    host = route.hostname.lower()
    return host if route.port == 22 else f"[{host}]:{route.port}"


def _lines(files: Sequence[str]) -> Iterator[tuple[str, int, list[str]]]:
    for file in files:
        try:
            text = Path(file).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            fields = line.split()
            if fields and not fields[0].startswith("#"):
                yield file, number, fields


def _about(name: str, lines: Sequence[tuple[str, int, list[str]]]) -> tuple[Known, ...]:
    found = []
    for file, number, fields in lines:
        marker = fields[0] if fields[0].startswith("@") else ""
        rest = fields[1:] if marker else fields
        if len(rest) < 3 or not _matches(name, rest[0]):
            continue
        try:
            key = base64.b64decode(rest[2], validate=True)
        except binascii.Error:
            continue
        found.append(Known(marker=marker, kind=rest[1], key=key, file=file, line=number))
    return tuple(found)


def _matches(name: str, patterns: str) -> bool:
    """One field of names: hashed, or a list with wildcards, where a negated match decides."""
    if patterns.startswith("|1|"):
        return _matches_hash(name, patterns)
    hit = False
    for pattern in patterns.split(","):
        negated, plain = pattern.startswith("!"), pattern.lstrip("!").lower()
        if fnmatchcase(name.lower(), plain.replace("[", "[[]")):
            if negated:
                return False
            hit = True
    return hit


def _matches_hash(name: str, hashed: str) -> bool:
    try:
        _, _, salt, digest = hashed.split("|")
        expected = base64.b64decode(digest)
        made = hmac.digest(base64.b64decode(salt), name.encode(), "sha1")
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(made, expected)
