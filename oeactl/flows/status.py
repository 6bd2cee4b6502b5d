"""status: what is on disk, what is loaded, what is taken; is the server well; do they agree.

Three levels, never mixed up. Disk is judged from the journal and the bytes there; live from the proof files
of the workers of this very start. Reads only: no request is sent to a server beyond one health probe.
"""

from __future__ import annotations

from oeactl.core.host import ServerState, Survey
from oeactl.core.nodes import uneven
from oeactl.core.outcomes import FileStatus, Status, Trouble
from oeactl.core.proof import Verdict
from oeactl.core.standing import Standing, all_stand, in_the_way
from oeactl.flows.lifecycle import describe, is_running
from oeactl.flows.prove import strays, verdicts_of
from oeactl.flows.site import Site, look

_WORDS = {
    "applied": "patched",
    "restored": "original",
    "foreign": "foreign edit",
}


def status(site: Site, *, modules: tuple[str, ...] = ()) -> Status:
    """Survey the host and its server. modules: files to look at even when nothing is applied."""
    site.progress.step(f"looking at {site.host.name}")
    survey = look(site, modules)
    server = site.server.state() if site.server is not None else None
    proofs = site.server.proofs() if site.server is not None and server and is_running(server) else ()
    layers = survey.journal.layers
    verdicts = verdicts_of(layers, server, proofs) if server is not None and is_running(server) else ()
    standings = _standings(survey)
    troubles = [*_pending(site, survey), *_nodes(site, survey), *_disk(site, standings, survey)]
    troubles += _unmounted(site, survey)
    if server is not None:
        troubles += _live(site, survey, server, verdicts)
        troubles += [
            Trouble(
                what=f"{recipe} is not on disk, and the running server still runs it",
                remedy=_command(site, "restart"),
            )
            for recipe in strays(layers, server, proofs)
        ]
    return Status(
        host=site.host.name,
        survey=survey,
        files=tuple(_file_status(standing) for standing in standings),
        server=server,
        verdicts=verdicts,
        troubles=tuple(troubles),
        notes=_notes(survey, verdicts, troubles),
    )


def _command(site: Site, verb: str) -> str:
    return f"oeactl {verb} --host {site.host.name}"


def _standings(survey: Survey) -> tuple[Standing, ...]:
    """Every file that is there, or that the journal answers for."""
    recorded = {record.path for record in survey.journal.files}
    return tuple(
        standing
        for standing in all_stand(survey).values()
        if standing.state != "missing" or standing.path in recorded
    )


def _file_status(standing: Standing) -> FileStatus:
    file = standing.file
    state = _WORDS.get(standing.state, standing.state)
    if standing.state == "pristine" and file and file.record_sha256 not in (None, file.sha256):
        state = "modified, not by oeactl"
    return FileStatus(
        path=standing.path, module=standing.module, state=state, sha256=file.sha256 if file else ""
    )


def _pending(site: Site, survey: Survey) -> list[Trouble]:
    pending = survey.journal.pending
    if survey.journal.gone:
        names = ", ".join(survey.journal.gone)
        what = f"{names}: gone with the container, which was made anew; its files are the image's"
        again = _command(site, "patch")
        return [Trouble(what=what, remedy=f"{again}; or {_command(site, 'revert')} closes the record")]
    if pending is None or pending.kind == "clear":  # nothing is applied, only a folder is left over
        return []
    return [
        Trouble(
            what=f"a {pending.kind} of {pending.started_at} was cut short",
            remedy=f"{_command(site, 'revert')}: like every patch and revert, it puts that in order first",
        )
    ]


def _nodes(site: Site, survey: Survey) -> list[Trouble]:
    """Where one server is on several machines, they must be there and alike."""
    away = [
        Trouble(
            what=f"{node} cannot be reached: {why}",
            remedy=f"mend the way there; {_command(site, 'stop')} ends what runs on the others",
        )
        for node, why in survey.away.items()
    ]
    difference = uneven(survey)
    if difference is None:
        return away
    remedy = f"oeactl patch brings all to one state, {_command(site, 'revert')} all back"
    if difference.startswith("the nodes run"):
        remedy = "install the same release on every node"
    return [*away, Trouble(what=difference, remedy=remedy)]


def _unmounted(site: Site, survey: Survey) -> list[Trouble]:
    """A container that was made with other files than the journal says: its next start changes that."""
    if survey.mounted or survey.journal.pending is not None:
        return []
    names = ", ".join(layer.recipe for layer in survey.journal.layers)
    what = f"{names} is kept beside the container ({survey.patch_mode}), which was made without it"
    if not names:
        what = "the container still has files of a recipe that was taken off"
    return [Trouble(what=what, remedy=_command(site, "restart"))]


def _disk(site: Site, standings: tuple[Standing, ...], survey: Survey) -> list[Trouble]:
    troubles = []
    recorded = {record.path for record in survey.journal.files}
    revert = _command(site, "revert")
    for standing in standings:
        where, state = standing.path, standing.state
        if state == "foreign":
            what = f"{where}: someone else changed this file after oeactl did"
            remedy = f"{revert} shows the difference; with --force it keeps a copy and restores the original"
        elif state == "restored":
            what = f"{where} is the original again, and the journal says patched"
            remedy = f"{revert} closes the record; then oeactl patch"
        elif state == "upgraded":
            what = f"{where}: the engine was upgraded, and the recipe went with the old file"
            remedy = f"{revert} closes the record; then oeactl patch"
        elif state == "missing":
            what = f"{where} is gone, and the journal says patched"
            remedy = f"{revert} closes the record"
        elif state == "damaged" or (state == "unreadable" and where in recorded):
            reason = in_the_way(standing)
            what, remedy = f"{where}: {reason.what}", reason.hint or revert
        else:
            continue
        troubles.append(Trouble(what=what, remedy=remedy))
    return troubles


def _live(site: Site, survey: Survey, server: ServerState, verdicts: tuple[Verdict, ...]) -> list[Trouble]:
    logs, restart = _command(site, "logs"), _command(site, "restart")
    if not is_running(server) and server.lost:
        return [_ended(site, server)]
    if not is_running(server):
        names = ", ".join(layer.recipe for layer in survey.journal.layers)
        remedy = f"{_command(site, 'start')}, or {_command(site, 'revert')}"
        return [Trouble(what=f"{names} is on disk and no server runs", remedy=remedy)] if names else []
    if server.lost:
        first = server.lost[0]
        what = f"{first.role or 'the leader'} of the server ({first.called}) ended, and the rest goes on"
        if not first.pid:
            what = f"no part of the server is to be seen on {first.node}, and the rest goes on"
        return [Trouble(what=what, remedy=f"{logs}; {restart}")]
    if server.recorded is None and server.listener is None:
        what = f"{describe(server)} is still there, and nobody listens"
        return [Trouble(what=what, remedy=_command(site, "stop"))]
    if server.recorded is not None and server.listener is None:
        what = f"the server (pid {server.recorded.pid}) does not listen yet"
        return [Trouble(what=what, remedy=f"{logs} -f shows what it is at; if it hangs, {restart}")]
    troubles = []
    if server.recorded is not None and server.listener is not None and server.foreign:
        troubles.append(
            Trouble(
                what=f"another server holds the port of the one that oeactl started: pid "
                f"{server.listener.pid}, {server.listener.title}",
                remedy="end it the way it was started",
            )
        )
    if server.healthy is False:
        troubles.append(Trouble(what=f"the server is not well: {server.health}", remedy=f"{logs}; {restart}"))
    troubles += [
        Trouble(what=verdict.summary, remedy=verdict.remedy or restart)
        for verdict in verdicts
        if verdict.failed
    ]
    return troubles


def _notes(survey: Survey, verdicts: tuple[Verdict, ...], troubles: list[Trouble]) -> tuple[str, ...]:
    notes = [f"{verdict.summary}; {verdict.remedy}" for verdict in verdicts if verdict.overall == "compiled"]
    lease = survey.journal.lease
    if troubles and lease is not None:
        who = f"{lease.holder.user}@{lease.holder.host}"
        notes.append(f"{who} is at work here ({lease.what}): this may be on its way")
    return tuple(notes)


def _ended(site: Site, server: ServerState) -> Trouble:
    who = server.lost[0].called
    why = f": {server.last_error}" if server.last_error else ""
    return Trouble(
        what=f"the server that oeactl started ({who}) ended, and oeactl did not stop it{why}",
        remedy=f"{_command(site, 'logs')}; {_command(site, 'start')}",
    )
