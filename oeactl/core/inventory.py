"""Which hosts there are, how each is reached, what it serves; and which one is meant.

Owns: the schema of a host and the choice of one. Refuses: reading hosts.yaml (``hosts_file`` does).
"""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from oeactl.core.document import Seconds, nearest
from oeactl.core.host import PatchMode, Value
from oeactl.errors import UsageError

LOCAL = "@local"
Positive = Annotated[int, msgspec.Meta(ge=1)]


class EngineSpec(Value, frozen=True, kw_only=True):
    """python: absolute path of the interpreter that runs the server, on the host; None: its ``python3``.

    root: the folder that holds the package, only where that interpreter would find another copy.
    """

    kind: Literal["sglang"] = "sglang"
    python: str | None = None
    root: str | None = None


class ServerSpec(Value, frozen=True, kw_only=True):
    """How the server is begun and asked. argv comes after the interpreter; url is as seen on the host.

    start, stop, status: argv of the ``commands`` manager (status is optional; exit code 0 means running).
    unit: of the ``systemd`` manager; argv and env are then what the unit itself says, for whoever asks.
    container: of the ``docker`` manager, by name; run: the words of ``docker run`` that make it where it is
    not there. compose (files), project, service: of the ``compose`` manager. With both argv is what the
    container runs, for whoever asks, and env the variables of docker's own process. patch_mode: how files in
    the container are changed, None for in place.
    dist_init_addr: where the nodes of one server meet (host:port of the first); its address by default.
    gpus: None when not stated. api_key_env: the name of a variable on this machine. canary: completions that
    must come, beside the first, before the server counts as ready.
    """

    manager: Literal["process", "commands", "systemd", "docker", "compose"] = "process"
    url: str = "http://127.0.0.1:30000"
    gpus: Annotated[int, msgspec.Meta(ge=0)] | None = None
    cwd: str | None = None
    env: dict[str, str] = msgspec.field(default_factory=dict)
    argv: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    unit: str | None = None
    container: str | None = None
    run: tuple[str, ...] = ()
    compose: tuple[str, ...] = ()
    project: str | None = None
    service: str | None = None
    patch_mode: PatchMode | None = None
    log: str = ""
    dist_init_addr: str | None = None
    api_key_env: str | None = None
    canary: Annotated[int, msgspec.Meta(ge=0)] = 0
    ready_timeout_s: Seconds = msgspec.field(default=1800.0, name="ready_timeout")
    stop_timeout_s: Seconds = msgspec.field(default=120.0, name="stop_timeout")

    @property
    def port(self) -> int:
        """The port of the url."""
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)


class Reach(Value, frozen=True, kw_only=True):
    """How a machine is reached, as whom, where its record lies. None: as OpenSSH resolves it (``ssh -G``)."""

    address: str | None = None
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    user: str | None = None
    identity_file: str | None = None
    proxy_jump: str | None = None
    ssh_config: str | None = None
    become: Literal["sudo"] | None = None
    state_dir: str | None = None


class NodeEntry(Reach, frozen=True, kw_only=True):
    """One machine of a server over several: what is its own; the rest is the host's. The first one answers.

    name: for messages, where it is not the address.
    """

    name: str | None = None
    engine: EngineSpec | None = None
    server: ServerSpec | None = None


class BenchSpec(Value, frozen=True, kw_only=True):
    """What ``bench`` measures unless told otherwise. Lengths in tokens."""

    concurrency: tuple[Positive, ...] = (1, 4, 8, 16, 32, 64, 128)
    input_len: Positive = 512
    output_len: Positive = 256
    seed: Annotated[int, msgspec.Meta(ge=0)] = 42


class Entry(Reach, frozen=True, kw_only=True):
    """The keys of one host in hosts.yaml."""

    engine: EngineSpec = EngineSpec()
    server: ServerSpec | None = None
    nodes: tuple[NodeEntry, ...] = ()
    bench: BenchSpec = BenchSpec()


class Host(Entry, frozen=True, kw_only=True):
    """One host, defaults merged in. address is None for ``@local`` alone. server None: file work only.

    members: each machine of a server over several, whole, in the order of their ranks; the other keys are
    then the first one's. A member's name is HOST/NODE.
    """

    name: str
    members: tuple[Host, ...] = ()

    @property
    def node(self) -> str:
        """What a member is called among its own."""
        return self.name.rpartition("/")[2]

    @property
    def is_local(self) -> bool:
        return self.name == LOCAL


class Inventory(Value, frozen=True, kw_only=True):
    """A whole hosts.yaml. source: what messages call it. local: ``@local``, listed or not."""

    source: str
    default_host: str | None = None
    groups: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    hosts: dict[str, Host] = msgspec.field(default_factory=dict)
    local: Host


def empty_inventory(source: str) -> Inventory:
    """What there is without a hosts.yaml: this machine, for file work."""
    return Inventory(source=source, local=Host(name=LOCAL))


def pick_host(inventory: Inventory, wanted: str | None, preferred: str | None) -> Host:
    """Choose a host. wanted: ``--host``, a name or an address. preferred: the variable OEACTL_HOST.

    Then default_host, then the only entry. Raises UsageError with the names there are.
    """
    name = wanted or preferred or inventory.default_host
    if not name:
        if len(inventory.hosts) == 1:
            return next(iter(inventory.hosts.values()))
        raise UsageError(
            "no host is named, and there is no default_host",
            where=inventory.source,
            hint=f"--host NAME; {_known(inventory)}",
        )
    if name == LOCAL:
        return inventory.local
    if name in inventory.hosts:
        return inventory.hosts[name]
    same = [host.name for host in inventory.hosts.values() if host.address == name]
    if len(same) == 1:
        return inventory.hosts[same[0]]
    if same:
        raise UsageError(
            f"several hosts have the address '{name}'", where=inventory.source, hint=f"--host {same[0]}"
        )
    if name in inventory.groups or "," in name:
        names = inventory.groups.get(name) or tuple(filter(None, name.split(",")))
        kind = "a group" if name in inventory.groups else "several hosts"
        raise UsageError(
            f"'{name}' is {kind}, and this command works on one",
            where=inventory.source,
            hint=f"--host {names[0]}" if names else None,
        )
    meant = nearest(name, inventory.hosts)
    origin = "" if wanted else " (from OEACTL_HOST)" if preferred else " (default_host)"
    raise UsageError(
        f"unknown host '{name}'{origin}",
        where=inventory.source,
        hint=f"did you mean '{meant}'? {_known(inventory)}" if meant else _known(inventory),
    )


class Picked(Value, frozen=True, kw_only=True):
    """The hosts that are meant, each once, in the order of the words. several: by a list or a group."""

    hosts: tuple[Host, ...]
    several: bool = False


def pick_hosts(inventory: Inventory, wanted: str | None, preferred: str | None) -> Picked:
    """As ``pick_host``, where the words may also be a group, or a list with commas of hosts and groups.

    Raises UsageError.
    """
    words = wanted or preferred or ""
    if "," not in words and words not in inventory.groups:
        return Picked(hosts=(pick_host(inventory, wanted, preferred),))
    found: dict[str, Host] = {}
    for word in words.split(","):
        for name in inventory.groups.get(word.strip(), (word.strip(),)):
            if not name:
                raise UsageError(f"there is an empty name in '{words}'", hint="--host A,B")
            host = pick_host(inventory, name, None)
            found[host.name] = host
    if not found:
        raise UsageError(f"group '{words}' has no hosts", where=inventory.source)
    return Picked(hosts=tuple(found.values()), several=True)


def needs_home(host: Host) -> bool:
    """Whether a path on the host begins with ``~``, so that its home must be asked before use."""
    return at_home(host, "/") != host


def at_home(host: Host, home: str) -> Host:
    """The host with ``~`` in its paths and environment values replaced by ``home``, its user's there."""

    def there(text: str | None) -> str | None:
        return _homed(text, home) if text else text

    server = host.server
    if server is not None:
        server = msgspec.structs.replace(
            server,
            cwd=there(server.cwd),
            log=_homed(server.log, home),
            env={name: _homed(value, home) for name, value in server.env.items()},
            compose=tuple(_homed(file, home) for file in server.compose),
        )
    engine = msgspec.structs.replace(
        host.engine, python=there(host.engine.python), root=there(host.engine.root)
    )
    return msgspec.structs.replace(host, engine=engine, server=server, state_dir=there(host.state_dir))


def _known(inventory: Inventory) -> str:
    return f"hosts: {', '.join(dict.fromkeys((*inventory.hosts, LOCAL)))}"


def _homed(text: str, home: str) -> str:
    return home.rstrip("/") + text[1:] if text.startswith("~/") else text
