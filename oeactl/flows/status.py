"""status: what is on disk, what is loaded, what is taken; is the server well; do they agree.

Three levels, never mixed up. Disk is judged from the journal and the bytes there; live from the proof files
of the workers of this very start. Reads only: no request is sent to a server beyond one health probe.
"""

from __future__ import annotations

from oeactl.core.host import FileState, Journal, ServerState, Survey
from oeactl.core.outcomes import FileStatus, Status, Trouble
from oeactl.core.proof import Verdict
from oeactl.flows.lifecycle import is_running
from oeactl.flows.prove import read_proof, stray_proofs
from oeactl.flows.site import Site, look


def status(site: Site, *, modules: tuple[str, ...] = ()) -> Status:
    """Survey the host and its server. modules: files to show even when nothing is applied."""
    site.progress.step(f"looking at {site.host.name}")
    survey = look(site, modules, data=False)
    server = site.server.state() if site.server is not None else None
    layers = survey.journal.layers
    verdicts = read_proof(site, layers) if server is not None and is_running(server) and layers else ()
    files = tuple(_file_status(file, survey.journal) for file in survey.files)
    troubles = [*_disk_troubles(files, survey), *_live_troubles(site, survey, server, verdicts)]
    return Status(
        host=site.host.name,
        survey=survey,
        files=files,
        server=server,
        verdicts=verdicts,
        troubles=tuple(troubles),
        notes=tuple(verdict.summary for verdict in verdicts if verdict.overall == "compiled"),
    )


def _file_status(file: FileState, journal: Journal) -> FileStatus:
    record = next((record for record in journal.files if record.path == file.path), None)
    if file.missing:
        state = "missing"
    elif record is None:
        known = file.record_sha256
        state = "pristine" if known in (None, file.sha256) else "modified, not by oeactl"
    elif file.sha256 == record.pristine_sha256:
        state = "pristine"
    else:
        state = "patched" if file.sha256 == record.expected_sha256 else "foreign edit"
    return FileStatus(path=file.path, module=file.module, state=state, sha256=file.sha256)


def _disk_troubles(files: tuple[FileStatus, ...], survey: Survey) -> list[Trouble]:
    troubles = []
    if survey.journal.pending is not None:
        troubles.append(
            Trouble(
                what=f"a {survey.journal.pending.kind} of {survey.journal.pending.started_at} did not end",
                remedy="the next patch or revert finishes or undoes it first: run oeactl revert",
            )
        )
    recorded = {record.path: record for record in survey.journal.files}
    for file in files:
        record = recorded.get(file.path)
        if record is None:
            continue
        if file.state in ("foreign edit", "missing"):
            troubles.append(
                Trouble(
                    what=f"{file.path} is neither the original nor what oeactl wrote",
                    remedy="oeactl revert shows the difference; revert --force keeps a copy and restores",
                )
            )
        elif file.state == "pristine" and record.expected_sha256 != record.pristine_sha256:
            troubles.append(
                Trouble(
                    what=f"{file.path} is the original again, though the journal says patched",
                    remedy="oeactl revert closes the record; then oeactl patch",
                )
            )
    return troubles


def _live_troubles(
    site: Site, survey: Survey, server: ServerState | None, verdicts: tuple[Verdict, ...]
) -> list[Trouble]:
    if server is None:
        return []
    layers = survey.journal.layers
    if not is_running(server):
        if not layers:
            return []
        names = ", ".join(layer.recipe for layer in layers)
        return [
            Trouble(what=f"{names} is on disk and no server runs", remedy="oeactl start, or oeactl revert")
        ]
    troubles = []
    if server.healthy is False:
        troubles.append(
            Trouble(what=f"the server is not well: {server.health}", remedy="oeactl logs; oeactl restart")
        )
    troubles += [
        Trouble(what=verdict.summary, remedy=verdict.remedy or "oeactl restart")
        for verdict in verdicts
        if not verdict.proven and verdict.overall != "compiled"
    ]
    if not layers and stray_proofs(site):
        troubles.append(
            Trouble(
                what="the files are the originals, and the running server still runs patched code",
                remedy="oeactl restart",
            )
        )
    return troubles
