"""doctor: every precondition of the other commands, a row each, and what mends it.

The story: reach the host; ask its interpreter; survey engine, files and record; ask the server; look at
GPUs, room and clock. A row that is bad ends what rests on it ("unknown"), and nothing else. Changes nothing;
the one request that a server gets is a health probe.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from oeactl.core.host import FileState, Journal, MachineFacts, ServerState, Survey
from oeactl.core.inventory import Host
from oeactl.core.launch import launch_of
from oeactl.core.outcomes import Check, Diagnosis
from oeactl.errors import OeactlError, Unreachable, UntrustedHost, UsageError
from oeactl.flows.lifecycle import is_running
from oeactl.flows.site import Site, look
from oeactl.ports import Machine

SKEW_S = 30.0
LEAST_BYTES = 1 << 30
ON_HOST = (
    *("interpreter", "engine", "files", "record", "server", "manager", "launch", "GPUs", "disk", "lock"),
    "clock",
)


@dataclass(frozen=True, kw_only=True)
class Patient:
    """A host that was reached. connected: how, in words."""

    site: Site
    machine: Machine
    connected: str


Approach = Callable[[], AbstractContextManager[Patient]]


def doctor(host: Host, modules: tuple[str, ...], approach: Approach) -> Diagnosis:
    """Examine ``host``. modules: files that would be changed. approach: connects, or raises Unreachable."""
    try:
        with approach() as patient:
            checks = (*_reached(host, patient), *_on_host(patient, modules))
    except Unreachable as error:
        checks = (*_unreached(error), *_unknown(ON_HOST))
    except UsageError as error:
        checks = (_bad("configuration", error), *_unknown(("reachable", *ON_HOST)))
    return Diagnosis(host=host.name, checks=tuple(checks))


def doctor_of_nodes(host: Host, modules: tuple[str, ...], approach: Callable[[Host], Approach]) -> Diagnosis:
    """Examine each machine of a server over several; rows carry the node's name. approach: of one machine."""
    checks = [
        msgspec.structs.replace(check, name=f"{one.node}: {check.name}")
        for one in host.members
        for check in doctor(one, modules, approach(one)).checks
    ]
    return Diagnosis(host=host.name, checks=tuple(checks))


def _reached(host: Host, patient: Patient) -> Iterator[Check]:
    yield Check(name="reachable", state="ok", what=patient.connected)
    if not host.is_local:
        yield Check(name="host key", state="ok", what="known here")


def _unreached(error: Unreachable) -> Iterator[Check]:
    if isinstance(error, UntrustedHost):
        yield Check(name="reachable", state="ok", what="it answers")
        yield _bad("host key", error)
    else:
        yield _bad("reachable", error)
        yield Check(name="host key", state="unknown", what="it was not asked")


def _unknown(names: tuple[str, ...]) -> Iterator[Check]:
    for name in names:
        yield Check(name=name, state="unknown", what="not looked at: see above")


def _bad(name: str, error: OeactlError) -> Check:
    shown = error.details if isinstance(error, UntrustedHost) else ()
    what = "; ".join((error.what, *shown))
    return Check(name=name, state="bad", what=what, fix=error.hint, code=error.exit_code)


def _on_host(patient: Patient, modules: tuple[str, ...]) -> Iterator[Check]:
    site = patient.site
    site.progress.step(f"examining {site.host.name}")
    asked_at = site.clock.now()
    try:
        machine = _machine(patient, ())
    except OeactlError as error:
        yield _bad("interpreter", error)
        yield from _unknown(ON_HOST[1:])
        return
    offset_s = machine.time - (asked_at + site.clock.now()) / 2
    yield Check(name="interpreter", state="ok", what=f"Python {machine.python}, {machine.executable}")
    try:
        survey = look(site, modules, data=False)
    except OeactlError as error:
        survey = None
        yield _bad("engine", error)
        yield from _unknown(("files", "record"))
    if survey is not None:
        yield from _engine(survey)
        yield from _files(survey)
        yield _record(survey.journal)
        machine = _machine(patient, _folders(site, survey))
    state = yield from _server(site, survey)
    yield from _manager(site, machine)
    yield from _launch(site, survey)
    yield from _gpus(site, survey, machine, state)
    yield from _disk(machine) if survey else _unknown(("disk",))
    yield _lock(survey.journal) if survey else next(_unknown(("lock",)))
    yield _clock(offset_s)


def _machine(patient: Patient, folders: tuple[str, ...]) -> MachineFacts:
    server = patient.site.host.server
    needed = [command[0] for command in (server.start, server.stop) if command] if server else []
    if server and server.manager == "systemd":
        needed.append("systemctl")
    if server and server.manager in ("docker", "compose"):
        needed.append("docker")
    programs = ("nvidia-smi", *needed)
    return patient.machine.look(folders=folders, programs=programs, env=server.env if server else {})


def _folders(site: Site, survey: Survey) -> tuple[str, ...]:
    """Where a patch and a server write."""
    server = site.host.server
    log = server.log.rpartition("/")[0] or "/" if server and server.log else None
    return (survey.host.state_dir, survey.engine.root, *([log] if log else []))


def _engine(survey: Survey) -> Iterator[Check]:
    engine = survey.engine
    commit = f", commit {engine.git_commit[:12]}" if engine.git_commit else ""
    dirty = " with local changes" if engine.git_dirty_sha256 else ""
    yield Check(
        name="engine",
        state="ok",
        what=f"{engine.package} {engine.version or '(no version)'}{commit}{dirty} in {engine.root}",
    )
    if survey.model is not None and survey.model.config is None:
        yield Check(
            name="model",
            state="note",
            what=f"its config.json was not read: {survey.model.problem or survey.model.path}",
            fix="bounds of parameters that depend on the model are not checked",
        )


def _files(survey: Survey) -> Iterator[Check]:
    for file in survey.files:
        yield _file(file, survey.journal)
    if not survey.files:
        yield Check(name="files", state="ok", what="nothing is applied, and no recipe was named")


def _file(file: FileState, journal: Journal) -> Check:
    record = next((one for one in journal.files if one.path == file.path), None)
    known = {record.pristine_sha256, record.expected_sha256} if record else {file.record_sha256}
    if file.missing:
        return Check(
            name="files", state="bad", what=f"{file.module} is not there", fix="another engine.root?", code=3
        )
    if record and file.sha256 not in known:
        fix = "oeactl revert shows the difference"
        return Check(name="files", state="bad", what=f"{file.path}: a foreign edit", fix=fix, code=3)
    if not file.writable:
        fix = "connect as its owner, or set become: sudo"
        return Check(name="files", state="bad", what=f"{file.path}: {file.problem}", fix=fix, code=3)
    if record and file.sha256 == record.expected_sha256 != record.pristine_sha256:
        return Check(name="files", state="ok", what=f"{file.path}: patched by oeactl")
    if record is None and file.record_sha256 not in (None, file.sha256):
        fix = "a recipe applies where all its places are found; the rest stays"
        return Check(name="files", state="note", what=f"{file.path}: edited, not by oeactl", fix=fix)
    return Check(name="files", state="ok", what=f"{file.path}: pristine")


def _record(journal: Journal) -> Check:
    if journal.pending is not None:
        what = f"a {journal.pending.kind} of {journal.pending.started_at} was cut short"
        return Check(name="record", state="bad", what=what, fix="oeactl revert ends it first", code=7)
    applied = ", ".join(layer.recipe for layer in journal.layers)
    return Check(name="record", state="ok", what=f"{applied} applied" if applied else "nothing is applied")


def _server(site: Site, survey: Survey | None) -> Generator[Check, None, ServerState | None]:
    """One row; returns the state where there is one."""
    if site.server is None:
        yield Check(
            name="server",
            state="note",
            what="hosts.yaml describes none: file work only",
            fix=f"add hosts.{site.host.name}.server",
        )
        return None
    if survey is None:
        yield from _unknown(("server",))
        return None
    try:
        state = site.server.state()
    except OeactlError as error:
        yield _bad("server", error)
        return None
    yield _served(state)
    return state


def _served(state: ServerState) -> Check:
    process = state.recorded or state.listener
    if process is None:
        return Check(name="server", state="note", what="not running", fix="oeactl start")
    whose = "started by oeactl" if state.recorded else "not started by oeactl"
    what = f"pid {process.pid}, {whose}, {state.health or 'health not asked'}"
    if state.healthy is False:
        return Check(name="server", state="bad", what=what, fix="oeactl logs; oeactl restart", code=4)
    if state.recorded is None:
        fix = "it is stopped only after a yes, and started again as hosts.yaml says"
        return Check(name="server", state="note", what=what, fix=fix)
    return Check(name="server", state="ok", what=what)


def _manager(site: Site, machine: MachineFacts) -> Iterator[Check]:
    server = site.host.server
    if server is None:
        return
    missing = [name for name, found in machine.programs.items() if not found and name != "nvidia-smi"]
    if missing:
        what = f"{server.manager}: {missing[0]} is not on the host"
        fix = "correct hosts.yaml, or write its absolute path"
        yield Check(name="manager", state="bad", what=what, fix=fix, code=2)
    else:
        yield Check(name="manager", state="ok", what=server.manager)


def _launch(site: Site, survey: Survey | None) -> Iterator[Check]:
    """Whether the server could begin as hosts.yaml has it; one that runs may have begun otherwise."""
    if site.server is None:
        return
    if survey is None:
        yield from _unknown(("launch",))
        return
    try:
        site.server.check(launch_of(site.host, survey.journal.layers))
    except OeactlError as error:
        for what in (error.what, *error.details):
            yield Check(name="launch", state="bad", what=what, fix=error.hint, code=error.exit_code)
    else:
        yield Check(name="launch", state="ok", what="it could begin as hosts.yaml has it")


def _gpus(
    site: Site, survey: Survey | None, machine: MachineFacts, state: ServerState | None
) -> Iterator[Check]:
    rows = survey.host.gpus if survey else ()
    wanted = site.host.server.gpus if site.host.server else None
    if wanted and survey and len(rows) < wanted:
        fix = "nvidia-smi on the host tells why" if rows else "is nvidia-smi there, and does it work?"
        yield Check(name="GPUs", state="bad", what=f"{len(rows)} of {wanted} are seen", fix=fix, code=2)
    elif machine.programs.get("nvidia-smi") is None:
        yield Check(name="GPUs", state="ok" if not wanted else "note", what="no nvidia-smi here")
    else:
        names = sorted({row.get("name", "?") for row in rows})
        yield Check(name="GPUs", state="ok", what=f"{len(rows)} x {', '.join(names)}" if rows else "none")
    if machine.gpu_holders and not (state and is_running(state)):
        held = ", ".join(f"{one.what} ({one.mib} MiB)" for one in machine.gpu_holders[:4])
        yield Check(
            name="GPUs",
            state="bad",
            what=f"memory is held, and no server of ours runs: {held}",
            fix="oeactl ends no process that it did not start: end it the way it was begun",
            code=3,
        )


def _disk(machine: MachineFacts) -> Iterator[Check]:
    for folder in machine.folders:
        what = f"{folder.path}: {folder.free_bytes / 1e9:.1f} GB free"
        if not folder.writable:
            fix = "connect as its owner, set become: sudo, or choose another folder"
            yield Check(name="disk", state="bad", what=f"{folder.path}: not writable", fix=fix, code=3)
        elif folder.free_bytes < LEAST_BYTES:
            yield Check(name="disk", state="note", what=what, fix="free some space there")
        else:
            yield Check(name="disk", state="ok", what=what)


def _lock(journal: Journal) -> Check:
    lease = journal.lease
    if lease is None:
        return Check(name="lock", state="ok", what="nobody is at work here")
    since, until = (datetime.fromtimestamp(t, UTC).strftime("%H:%M UTC") for t in (lease.since, lease.until))
    who = f"{lease.holder.user}@{lease.holder.host}"
    what = f"{lease.what} by {who} since {since}, at most until {until}"
    return Check(name="lock", state="bad", what=what, fix="wait until it ends, or ask them", code=5)


def _clock(offset_s: float) -> Check:
    if abs(offset_s) > SKEW_S:
        what = f"{abs(offset_s):.0f} s {'ahead of' if offset_s > 0 else 'behind'} this machine's"
        fix = "let NTP set both: times in records and results disagree"
        return Check(name="clock", state="note", what=what, fix=fix)
    return Check(name="clock", state="ok", what="agrees with this machine's, within seconds")
