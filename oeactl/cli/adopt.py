"""``oeactl adopt``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oeactl.cli.common import Call, HostOption, YesOption, command

if TYPE_CHECKING:
    from oeactl.cli.wiring import Wired
    from oeactl.core.adoption import Adopted
    from oeactl.core.inventory import Host
    from oeactl.ports import Files

PortOption = Annotated[
    int | None, typer.Option("--port", min=1, max=65535, help="The port that it listens on.")
]
PidOption = Annotated[int | None, typer.Option("--pid", min=1, help="One of its processes.")]
ScriptOption = Annotated[
    str | None, typer.Option("--script", metavar="PATH", help="A script on the host; read, never run.")
]
ContainerOption = Annotated[
    str | None, typer.Option("--container", metavar="NAME", help="A docker container, by name or id.")
]
ComposeOption = Annotated[
    str | None, typer.Option("--compose", metavar="FILE", help="A compose file on the host.")
]
ServiceOption = Annotated[
    str | None, typer.Option("--service", metavar="NAME", help="The service, where --compose has several.")
]
EnvOption = Annotated[
    list[str], typer.Option("--env", metavar="NAME", help="Take this variable over too; may be repeated.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the entry; write nothing.")]
ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Put it in the place of keys that say something else.")
]


@command(
    "oeactl adopt --host 10.1.230.174 --port 30000",
    "oeactl adopt --host lab --script /root/launch.sh --dry-run",
    "oeactl adopt --host lab --container glm5",
    "oeactl adopt --host lab --compose /srv/glm/compose.yaml",
)
def adopt(
    call: Call,
    host: HostOption = None,
    port: PortOption = None,
    pid: PidOption = None,
    script: ScriptOption = None,
    container: ContainerOption = None,
    compose: ComposeOption = None,
    service: ServiceOption = None,
    env: EnvOption = [],  # noqa: B006 - typer's way to say none
    dry_run: DryRunOption = False,
    replace: ReplaceOption = False,
    yes: YesOption = False,
) -> None:
    """Write the hosts.yaml entry of a server that runs already, or of a container.

    Finds the process behind a port (that of the entry's url, else 30000), its command line, folder,
    environment, interpreter, engine, model, GPUs, log, and who may start it again; or reads the script that
    begins it; or docker's record of a container: image, mounts, ports, GPUs, variables. Shows the entry and
    asks before it is written; every other line of hosts.yaml stays. Nothing is started or stopped, and no
    secret is copied. A name that is not in hosts.yaml becomes a new host.
    """
    from oeactl.cli.wiring import wired
    from oeactl.edges.machine import AgentMachine
    from oeactl.errors import UsageError
    from oeactl.flows.adopt import Wanted
    from oeactl.flows.adopt import adopt as run
    from oeactl.render.adopt import adopted_document, adopted_view

    choices = (port, pid, script, container, compose)
    if sum(choice is not None for choice in choices) > 1:
        what = "--port, --pid, --script, --container and --compose name a server each"
        raise UsageError(what, hint="leave all but one")
    if service is not None and compose is None:
        raise UsageError("--service says which service of --compose", hint="--compose FILE")
    chosen, is_new = _host(call, host)
    if all(choice is None for choice in choices):
        port = chosen.server.port if chosen.server else 30000
    with wired(call, _bare(chosen), yes=yes) as here:
        wanted = Wanted(
            port=port, pid=pid, script=script, container=container, compose=compose, service=service,
            keep=tuple(env),
        )  # fmt: skip
        adopted = run(chosen, AgentMachine(here.agent), partial(_files, call, here), wanted, call.progress)
    entry = _known(chosen, adopted.entry) if not is_new else adopted.entry
    call.show(adopted_view(chosen.name, entry, adopted))
    written = (
        None
        if dry_run
        else _write(call, chosen.name, entry, replace=replace, yes=yes, secrets=adopted.secrets)
    )
    call.emit(
        adopted_document(chosen.name, entry, adopted, written),
        lambda: f"\nwritten to {written}" if written else "\nnothing was written",
    )


def _files(call: Call, here: Wired, adopted: Adopted) -> Files:
    """The files of the engine that an entry would start: the host's own, or those in its container."""
    from oeactl.cli.wiring import files_inside
    from oeactl.core.inventory import ServerSpec

    told = adopted.entry["server"]
    if told.get("manager") not in ("docker", "compose"):
        return here.site.files
    keys = {name: told[name] for name in ("manager", "container", "project", "service") if name in told}
    server = ServerSpec(**keys, compose=tuple(told.get("compose", ())))
    return files_inside(here, server, adopted.entry["engine"]["python"], call.sudo_password)


def _host(call: Call, wanted: str | None) -> tuple[Host, bool]:
    """The host of hosts.yaml, or a new one by that name."""
    from oeactl.core.inventory import LOCAL, Host
    from oeactl.errors import UsageError

    try:
        return call.host(wanted), False
    except UsageError:
        if wanted is None or wanted == LOCAL or not _may_be_new(call, wanted):
            raise
    return Host(name=wanted, address=wanted), True


def _may_be_new(call: Call, wanted: str) -> bool:
    from oeactl.core.hosts_file import is_name

    root = call.root
    inventory = call.project.inventory if root is not None else None
    return is_name(wanted) and (inventory is None or wanted not in (*inventory.hosts, *inventory.groups))


def _bare(host: Host) -> Host:
    """Reached as it is, its server not yet: what is wrong with its old entry is not in the way."""
    import msgspec

    return msgspec.structs.replace(host, server=None)


def _known(host: Host, entry: dict[str, Any]) -> dict[str, Any]:
    """Without what the host's entry, or a default, says already."""
    same = host.engine.python == entry["engine"]["python"]
    return {name: value for name, value in entry.items() if not (name == "engine" and same)}


def _write(
    call: Call, name: str, entry: dict[str, Any], *, replace: bool, yes: bool, secrets: tuple[str, ...]
) -> str:
    from oeactl.edges.config import write_entry
    from oeactl.errors import Interrupted

    root = call.root or Path.cwd()
    change = write_entry(root, name, entry, replace=replace, secrets=secrets)
    if not call.prompt(yes).confirm(f"Write it to {change.shown}?"):
        raise Interrupted("not confirmed, so nothing was written", where=change.shown)
    change.save()
    return change.shown
