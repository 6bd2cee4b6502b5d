"""The text of hosts.yaml into an Inventory.

Owns: the merge of ``defaults`` into every host, expansion of ``~`` and ``${VAR}``, and every check that one
file allows, each complaint with its line. Refuses: files, the environment (text and variables come in).

``~`` in a path of this machine (identity_file, ssh_config, all of ``@local``) is this user's home. In a
path on another host it stays, until ``inventory.at_home`` is told that host's home.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import msgspec

from oeactl.core.document import Node, build, member, merged, nearest, parse, unknown_key, where
from oeactl.core.host import Value
from oeactl.core.inventory import LOCAL, Entry, Host, Inventory, ServerSpec
from oeactl.core.node_entries import member_nodes, ranked
from oeactl.errors import UsageError


class HostsDocument(Value, frozen=True, kw_only=True):
    """hosts.yaml: the machines, and which one is meant when none is named. ``defaults`` go under all."""

    default_host: str | None = None
    defaults: Entry | None = None
    groups: dict[str, tuple[str, ...]] | None = None
    hosts: dict[str, Entry | None] | None = None


_TOP = HostsDocument.__struct_fields__
_HERE = ("identity_file", "ssh_config")
_THERE = ("state_dir", "engine.python", "engine.root", "server.cwd", "server.log")
_NETWORK = ("address", "port", "user", "identity_file", "proxy_jump", "ssh_config")
_MANAGED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # manager -> keys it needs, keys it may have
    "process": (("argv", "log"), ()),
    "commands": (("start", "stop"), ("status", "log")),
    "systemd": (("unit", "log"), ("argv",)),
    "docker": (("container",), ("run", "argv", "patch_mode")),
    "compose": (("compose", "service"), ("project", "argv", "patch_mode")),
}
_OF_MANAGERS = tuple(dict.fromkeys(key for keys in _MANAGED.values() for some in keys for key in some))
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]*")
_UNIT = re.compile(r"[A-Za-z0-9_@.:\\-]+\.service")
_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_WHOLE_WORD = re.compile(r"(?:--?[A-Za-z0-9_-]+=)?\$\{[A-Za-z_][A-Za-z0-9_]*\}")  # of argv: a secret's value
_INTERPRETER = re.compile(r"(python|pypy)[0-9.]*")


def read_inventory(
    text: str | bytes, source: str, *, folder: Path, home: str, variables: Mapping[str, str]
) -> Inventory:
    """Read hosts.yaml. folder: what relative paths of this machine are relative to. home, variables: its own.

    Raises UsageError with ``source:line`` for anything wrong.
    """
    top = parse(text, source)
    if not isinstance(top.value, dict):
        raise UsageError("the document must be a mapping", where=top.where, hint=f"keys: {', '.join(_TOP)}")
    for key, node in top.value.items():
        if key not in _TOP:
            raise unknown_key(key, _TOP, node.where)
    reading = _Reading(
        defaults=_defaults(top), expand=_Expansion(folder=folder, home=home, variables=variables)
    )
    hosts = {name: reading.host(name, node) for name, node in _members(top, "hosts").items()}
    return Inventory(
        source=source,
        default_host=_default_host(top, hosts),
        groups=_groups(top, hosts),
        hosts=hosts,
        local=hosts.get(LOCAL) or reading.host(LOCAL, Node(value={}, where=top.where)),
    )


def _members(top: Node, key: str) -> dict[str, Node]:
    node = member(top, key)
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise UsageError(f"'{key}' must be a mapping", where=node.where)
    return node.value


def _defaults(top: Node) -> Node:
    node = Node(value=_members(top, "defaults"), where=where(top, "defaults"))
    for key in ("address", "nodes"):
        if key in node.value:
            raise UsageError(f"'{key}' belongs to one host", where=where(node, key))
    build(node, Entry, "defaults")
    return node


def _default_host(top: Node, hosts: Mapping[str, Host]) -> str | None:
    node = member(top, "default_host")
    if node is None or node.value is None:
        return None
    name = build(node, str, "default_host")
    if name != LOCAL and name not in hosts:
        meant = nearest(name, hosts)
        raise UsageError(
            f"default_host '{name}' is not under hosts",
            where=node.where,
            hint=f"did you mean '{meant}'?" if meant else f"hosts: {', '.join(hosts) or 'none'}",
        )
    return name


def _groups(top: Node, hosts: Mapping[str, Host]) -> dict[str, tuple[str, ...]]:
    groups = {}
    for name, node in _members(top, "groups").items():
        if name in hosts:
            raise UsageError(f"'{name}' is a host and a group", where=node.where)
        names = build(node, tuple[str, ...], f"groups.{name}")
        for position, host in enumerate(names):
            if host not in hosts and host != LOCAL:
                raise UsageError(
                    f"group '{name}' names an unknown host '{host}'",
                    where=node.value[position].where,
                    hint=f"hosts: {', '.join(hosts)}",
                )
        groups[name] = names
    return groups


class _Reading(Value, frozen=True, kw_only=True):
    """What every host of one file shares."""

    defaults: Node
    expand: _Expansion

    def host(self, name: str, node: Node) -> Host:
        at = f"hosts.{name}"
        local = name == LOCAL
        if not local and not _NAME.fullmatch(name):
            raise UsageError(
                f"'{name}' cannot be a host's name",
                where=node.where,
                hint="letters, digits and . : _ - only; '@local' is reserved for this machine",
            )
        if node.value is None:
            node = Node(value={}, where=node.where)
        if not isinstance(node.value, dict):
            raise UsageError(f"'{at}' must be a mapping", where=node.where)
        for key in (*_NETWORK, "nodes") if local else ():
            if key in node.value:
                raise UsageError(
                    f"'{key}' says nothing of {LOCAL}: it is this machine", where=where(node, key)
                )
        node = self._with_defaults(node, local)
        machines = member_nodes(node, at)
        if not machines:
            return self._one(name, node, at)
        listed = ranked(
            [self._one(f"{name}/{short}", entry, f"{at}.nodes ({short})") for short, entry in machines],
            node,
            at,
        )
        return msgspec.structs.replace(listed[0], name=name, members=listed)

    def _one(self, name: str, node: Node, at: str) -> Host:
        """One machine, by all that is said of it."""
        local = name == LOCAL
        node = self.expand(node, local)
        entry = build(node, Entry, at)
        _check(entry, node, at)
        if entry.server is not None and entry.server.dist_init_addr is not None and "/" not in name:
            raise UsageError(
                f"'{at}.server.dist_init_addr' is of a server over several nodes",
                where=where(node, "server", "dist_init_addr"),
                hint=f"list its machines in {at}.nodes",
            )
        keys = {name: getattr(entry, name) for name in Entry.__struct_fields__}
        return Host(**{**keys, "name": name, "address": None if local else entry.address or name})

    def _with_defaults(self, node: Node, local: bool) -> Node:
        """Defaults under the host's own keys; those of the server only where the host has one."""
        server = member(node, "server")
        left_out = (*(_NETWORK if local else ()), *(("server",) if not server or not server.value else ()))
        base = {key: value for key, value in self.defaults.value.items() if key not in left_out}
        return merged(Node(value=base, where=self.defaults.where), node)


def _check(entry: Entry, node: Node, at: str) -> None:
    for key in ("address", "user"):
        value = getattr(entry, key)
        if value is not None and not _NAME.fullmatch(value):
            raise UsageError(f"'{at}.{key}' cannot be '{value}'", where=where(node, key))
    for dotted in _THERE:
        path = member(node, *dotted.split("."))
        if dotted == "engine.python" and _named_inside(entry):
            continue
        if path is not None and path.value and not path.value.startswith(("/", "~/")):
            raise UsageError(
                f"'{at}.{dotted}' must be an absolute path on the host, not '{path.value}'", where=path.where
            )
    if len(set(entry.bench.concurrency)) != len(entry.bench.concurrency) or not entry.bench.concurrency:
        raise UsageError(
            f"'{at}.bench.concurrency' must be a list of levels, each once",
            where=where(node, "bench", "concurrency"),
        )
    if entry.server is not None:
        for key, what, hint in _faults(entry, entry.server):
            raise UsageError(f"'{at}.server{what}", where=where(node, "server", key), hint=hint)


def _named_inside(entry: Entry) -> bool:
    """Whether the interpreter is a mere name, which the container's own PATH finds."""
    contained = entry.server is not None and entry.server.manager in ("docker", "compose")
    return contained and bool(re.fullmatch(r"[\w.-]+", entry.engine.python or ""))


def _faults(entry: Entry, server: ServerSpec) -> list[tuple[str, str, str | None]]:
    """What types cannot say of a server, as (key, message after ``hosts.NAME.server``, remedy)."""
    faults: list[tuple[str, str, str | None]] = []

    def fault(key: str, what: str, hint: str | None = None) -> None:
        faults.append((key, what, hint))

    if not _is_url(server.url):
        fault("url", f".url' must be like http://127.0.0.1:30000, not '{server.url}'")
    for name in server.env:
        if not _VARIABLE.fullmatch(name):
            fault("env", f".env' has a name that no variable can have: '{name}'")
    if server.api_key_env is not None and not _VARIABLE.fullmatch(server.api_key_env):
        fault("api_key_env", ".api_key_env' must be the name of a variable of this machine, never a key")
    if server.unit is not None and not _UNIT.fullmatch(server.unit):
        fault("unit", f".unit' must be the name of a service, like glm5.service, not '{server.unit}'")
    if server.container is not None and not _CONTAINER.fullmatch(server.container):
        fault("container", f".container' cannot be '{server.container}'")
    for key in ("project", "service"):
        name = getattr(server, key)
        if name is not None and not _CONTAINER.fullmatch(name):
            fault(key, f".{key}' cannot be '{name}'")
    for file in server.compose:
        if not file.startswith(("/", "~/")):
            fault("compose", f".compose' must be absolute paths on the host, not '{file}'")
    needed, own = _MANAGED[server.manager]
    for key in needed:
        if not getattr(server, key):
            fault(key, f"' lacks '{key}', which manager '{server.manager}' needs")
    for key in _OF_MANAGERS:
        if getattr(server, key) and key not in (*needed, *own):
            fault(key, f".{key}' is not of manager '{server.manager}'")
    if server.manager == "process" and server.argv and not faults:
        if _INTERPRETER.fullmatch(PurePosixPath(server.argv[0]).name):
            fault("argv", ".argv' begins with the interpreter", "begin with -m; engine.python runs it")
        if entry.engine.python is None:
            fault("argv", "' has no interpreter", "add engine.python, its absolute path on the host")
        stated = _stated_port(server.argv)
        if stated is not None and stated != str(server.port):
            fault("url", f".url' says port {server.port}, and argv --port {stated}")
    return faults


def is_name(text: str) -> bool:
    """Whether a host can have this name."""
    return bool(_NAME.fullmatch(text))


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port is not None
    except ValueError:
        return False


def _stated_port(argv: tuple[str, ...]) -> str | None:
    for word, following in zip(argv, (*argv[1:], None), strict=True):
        if word == "--port":
            return following
        if word.startswith("--port="):
            return word.removeprefix("--port=")
    return None


class _Expansion(Value, frozen=True, kw_only=True):
    """Replace ``~/`` and ``${VAR}`` in the paths and environment values of one host's entry."""

    folder: Path
    home: str
    variables: Mapping[str, str]

    def __call__(self, node: Node, local: bool) -> Node:
        there = self._home if local else self._variables
        env = member(node, "server", "env")
        names = env.value if env is not None and isinstance(env.value, dict) else ()
        for path in _HERE:
            node = _replaced(node, (path,), self._here)
        for path in _THERE:
            node = _replaced(node, tuple(path.split(".")), there)
        for name in names:
            node = _replaced(node, ("server", "env", name), there)
        return self._words(self._words(node, "argv"), "run")

    def _words(self, node: Node, key: str) -> Node:
        """Words of ``server.argv`` that are one variable, or a flag with one: how a key gets there."""
        argv = member(node, "server", key)
        if argv is None or not isinstance(argv.value, list):
            return node
        words = [
            Node(value=self._variables(word.value, word.where), where=word.where)
            if isinstance(word.value, str) and _WHOLE_WORD.fullmatch(word.value)
            else word
            for word in argv.value
        ]
        server = member(node, "server")
        assert server is not None
        inner = Node(value={**server.value, key: Node(value=words, where=argv.where)}, where=server.where)
        return Node(value={**node.value, "server": inner}, where=node.where)

    def _variables(self, text: str, place: str) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name not in self.variables:
                raise UsageError(f"the variable '{name}' is not set", where=place, hint=f"export {name}=...")
            return self.variables[name]

        return _REFERENCE.sub(value, text)

    def _home(self, text: str, place: str) -> str:
        text = self._variables(text, place)
        return self.home.rstrip("/") + text[1:] if text.startswith("~/") else text

    def _here(self, text: str, place: str) -> str:
        return str(self.folder / self._home(text, place))


def _replaced(node: Node, path: tuple[str, ...], expand: Callable[[str, str], str]) -> Node:
    """The node with the text under ``path`` expanded, or as it is where there is none."""
    if not path:
        text = node.value
        return Node(value=expand(text, node.where), where=node.where) if isinstance(text, str) else node
    child = member(node, path[0])
    if child is None:
        return node
    members: dict[str, Any] = {**node.value, path[0]: _replaced(child, path[1:], expand)}
    return Node(value=members, where=node.where)
