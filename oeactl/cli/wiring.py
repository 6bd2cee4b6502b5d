"""From a host's entry to everything a flow may ask of it: the one place where edges are chosen.

Owns: which edge stands behind which port, and that connections are closed. Refuses: to do anything with them.
"""

from __future__ import annotations

import getpass
import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from oeactl.core.host import Holder
from oeactl.core.inventory import Host, ServerSpec, at_home, needs_home
from oeactl.core.launch import flag
from oeactl.edges.agent_link import AgentLink
from oeactl.edges.clock import SystemClock
from oeactl.edges.files import AgentFiles
from oeactl.edges.local import is_alive
from oeactl.errors import UsageError
from oeactl.flows.site import Site, survey_request
from oeactl.ports import Driver, Engine, Follower, Progress, Remote, Server, Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable

    from oeactl.cli.common import Call
    from oeactl.edges.beside import ModalFiles
    from oeactl.edges.caches import AgentCaches


@dataclass(frozen=True, kw_only=True)
class Wired:
    """An open site, what makes its driver, and what lies beneath. api_key: the server's, if it has one."""

    site: Site
    driver: Callable[[], Driver]
    remote: Remote
    agent: AgentLink
    api_key: str | None = None


@contextmanager
def wired(call: Call, host: Host, *, yes: bool = False, progress: Progress | None = None) -> Iterator[Wired]:
    """Everything on one host, for the length of a command. progress: if not the call's own."""
    if not host.members:
        with _machine(call, host, yes, progress) as here:
            yield here
        return
    with ExitStack() as opened:
        yield _as_one(
            host, [opened.enter_context(_machine(call, one, yes, progress)) for one in host.members]
        )


def _as_one(host: Host, machines: list[Wired]) -> Wired:
    """Several machines as one host: the first one's, but with the files and the server of all."""
    from oeactl.flows.nodes import NodeFiles, NodesFiles
    from oeactl.flows.nodes_server import Head, NodesServer, Tail

    head, *others = (one.site for one in machines)
    members = tuple(one.site.host for one in machines)
    whole = msgspec.structs.replace(members[0], name=host.name, members=members)
    server: Server | None = None
    if head.server is not None:
        tails = [Tail(host=one.host, server=cast("Follower", one.server)) for one in others]
        server = NodesServer(Head(host=head.host, server=head.server), tails)
    files = NodesFiles(whole, [NodeFiles(host=one.host, files=one.files) for one in (head, *others)])
    return replace(machines[0], site=replace(head, host=whole, files=files, server=server))


@contextmanager
def _machine(call: Call, host: Host, yes: bool, progress: Progress | None) -> Iterator[Wired]:
    """Everything on one machine."""
    remote = _remote(host, lambda path: call.key_passphrase(path))
    try:
        if needs_home(host):
            host = at_home(host, _home(remote))
        agent, inner = _agents(remote, host, call.sudo_password)
        files = _files(host, agent, inner)
        key = _api_key(host)
        site = Site(
            host=host,
            files=files,
            server=_server(host, agent, inner, files, key),
            engine=_engine(host, agent, key),
            clock=SystemClock(),
            progress=progress or call.progress,
            prompt=call.prompt(yes),
            holder=Holder(user=getpass.getuser(), host=platform.node(), pid=os.getpid()),
            alive=is_alive,
            caches=_caches(host, agent),
            telemetry=_telemetry(host, agent, key),
        )
        yield Wired(
            site=site,
            driver=lambda: _driver(host, inner, key),
            remote=remote,
            agent=agent,
            api_key=key,
        )
    finally:
        remote.close()


def _agents(remote: Remote, host: Host, password: Callable[[str], str | None]) -> tuple[AgentLink, AgentLink]:
    """One on the host, one where its engine's files are: the same, unless they are in a container."""
    root: dict[str, Any] = {"become": host.become, "password": password}
    if not _contained(host):
        agent = AgentLink(remote, python=host.engine.python, keep=True, **root)
        return agent, agent
    from oeactl.edges.containers import container_name, place_of

    assert host.server is not None
    outer = AgentLink(remote, keep=True, **root)
    container = partial(container_name, outer, place_of(host.server))
    return outer, AgentLink(remote, python=host.engine.python, container=container, **root)


def files_inside(
    here: Wired, server: ServerSpec, python: str, password: Callable[[str], str | None]
) -> AgentFiles:
    """The engine's files in the container that an entry would mean, to look at."""
    from oeactl.edges.containers import container_name, place_of

    container = partial(container_name, here.agent, place_of(server))
    become = here.site.host.become
    link = AgentLink(here.remote, python=python, container=container, become=become, password=password)
    return AgentFiles(link)


def _contained(host: Host) -> bool:
    """Whether the engine's files are in a container."""
    return host.server is not None and host.server.manager in ("docker", "compose")


def _caches(host: Host, agent: AgentLink) -> AgentCaches | None:
    """Where the server's environment is known, ours or that of the owner's commands, on one host."""
    from oeactl.edges.caches import AgentCaches

    known = host.server is not None and host.server.manager in ("process", "commands") and not host.nodes
    return AgentCaches(agent) if known else None


def _files(host: Host, agent: AgentLink, inner: AgentLink) -> AgentFiles | ModalFiles:
    if not _contained(host):
        return AgentFiles(agent)
    from oeactl.edges.beside import ModalFiles
    from oeactl.edges.containers import place_of

    assert host.server is not None
    return ModalFiles(
        inner,
        agent,
        container=place_of(host.server),
        place=_outside(host, host.server),
        mode=host.server.patch_mode or "inplace",
        python=host.engine.python or "python3",
    )


def _outside(host: Host, server: ServerSpec) -> dict[str, Any]:
    """Where a docker host keeps what it knows of a container."""
    name = server.container or server.service
    state_dir = f"{host.state_dir}/docker-{name}" if host.state_dir else None
    root = f"/docker/{name}" if server.container else f"/compose{server.compose[0]}/{name}"
    return {"root": root, "state_dir": state_dir}


def _remote(host: Host, passphrase: Callable[[str], str | None]) -> Remote:
    if host.is_local:
        from oeactl.edges.local import open_local

        return open_local(host.name)
    from oeactl.edges.ssh import open_ssh

    return open_ssh(
        name=host.name,
        address=host.address or host.name,
        port=host.port,
        user=host.user,
        identity_file=host.identity_file,
        proxy_jump=host.proxy_jump,
        ssh_config=host.ssh_config,
        passphrase=passphrase,
    )


def _home(remote: Remote) -> str:
    done = remote.run(("sh", "-c", 'printf "\\n%s" "$HOME"'), timeout_s=30.0)
    home = done.stdout.rpartition(b"\n")[2].decode("utf-8", "replace")
    if not home.startswith("/"):
        raise UsageError(
            "its home folder is not known, so ~ in its paths means nothing",
            where=remote.name,
            hint="write whole paths in hosts.yaml",
        )
    return home


def _api_key(host: Host) -> str | None:
    name = host.server.api_key_env if host.server else None
    if name is None:
        return None
    if not os.environ.get(name):
        raise UsageError(
            f"the variable {name}, which holds the server's API key, is not set",
            where=f"hosts.yaml: {host.name}.server.api_key_env",
            hint=f"export {name}=…",
        )
    return os.environ[name]


def _server(
    host: Host, agent: AgentLink, inner: AgentLink, files: AgentFiles | ModalFiles, key: str | None
) -> Server | None:
    spec = host.server
    if spec is None:
        return None
    from oeactl.edges.servers.commands import CommandsServer
    from oeactl.edges.servers.process import FollowerServer, ProcessServer

    def root() -> str:
        return files.root(survey_request(host, (), data=False))

    common: dict[str, Any] = {
        "url": spec.url,
        "kind": host.engine.kind,
        "ready_timeout_s": spec.ready_timeout_s,
        "stop_timeout_s": spec.stop_timeout_s,
        "api_key": key,
        "canary": spec.canary,
    }
    if _contained(host):
        return _docker_server(host, spec, agent, inner, root, common)
    place = {**common, "root": root, "state_dir": host.state_dir, "log": spec.log}
    if spec.manager == "process":
        follows = flag(spec.argv, "--node-rank") not in (None, "0")
        return (FollowerServer if follows else ProcessServer)(agent, **place)
    if spec.manager == "systemd":
        from oeactl.edges.servers.systemd import SystemdServer

        assert spec.unit is not None
        return SystemdServer(agent, unit=spec.unit, argv=spec.argv, **place)
    return CommandsServer(
        agent, start=spec.start, stop=spec.stop, status=spec.status, cwd=spec.cwd, env=spec.env, **place
    )


def _docker_server(
    host: Host,
    spec: ServerSpec,
    agent: AgentLink,
    inner: AgentLink,
    root: Callable[[], str],
    common: dict[str, Any],
) -> Server:
    from oeactl.edges.containers import place_of
    from oeactl.edges.servers.docker import DockerServer

    outside = _outside(host, spec)
    return DockerServer(
        agent,
        container=place_of(spec),
        inner=inner,
        inside=lambda: {"root": root(), "state_dir": host.state_dir},
        root=lambda: outside["root"],
        state_dir=outside["state_dir"],
        **common,
    )


def _engine(host: Host, agent: AgentLink, key: str | None) -> Engine | None:
    if host.server is None:
        return None
    from oeactl.edges.engines.sglang import SglangEngine

    return SglangEngine(agent, url=host.server.url, api_key=key)


def _telemetry(host: Host, agent: AgentLink, key: str | None) -> Telemetry | None:
    if host.server is None:
        return None
    from oeactl.edges.telemetry import AgentTelemetry

    return AgentTelemetry(agent, url=host.server.url, api_key=key)


def _driver(host: Host, agent: AgentLink, key: str | None) -> Driver:
    from oeactl.edges.drivers.sglang import SglangClient

    spec = host.server or ServerSpec()
    return SglangClient(
        agent, python=host.engine.python or "python3", env=spec.env, cwd=spec.cwd, api_key=key
    )
