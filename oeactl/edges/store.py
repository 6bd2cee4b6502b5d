"""The results folder: one directory a run, written once, read with suspicion.

    results/runs/2026/20261129T031500Z-oea-1f3a9c2e/
        plan.json                     before the first level
        changes/B.json                what an arm changes on the host, with its recipes
        trials/001-A.part/begun.json  who, where and what, before the first level
        trials/001-A.part/01-c64.json each level the moment it ended
        trials/001-A.json             the whole trial at its end; the .part folder then goes
        analysis.json                 derived
        report.html, report.md        derived too, of a comparison: the same for people
        raw/<sha256>.json.gz          per-request rows, git-ignored, named in the level
        attachments/<sha256>.json     what another tool measured of the same build

Owns: that layout. No file is ever rewritten: each is written beside, synced, and given its name by a link
that fails when the name is taken (what is derived, the analysis and the reports, is replaced). A run killed
at any moment keeps its finished levels in the .part folder, and is read back from there as *unfinished*.
Refuses: what is not whole JSON of a schema it knows; that is named and skipped.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from oeactl.core import results as records
from oeactl.core.change import Change
from oeactl.core.run import Analysis, Attachment, Listing, Plan, PointRecord, RawFile, Run, Skipped, Trial
from oeactl.errors import OeactlError, UsageError

Beside = TypeVar("Beside", Attachment, Change)

_PART = ".part"
_BEGUN = "begun.json"


class ResultsFolder:
    """Store over a project's ``results/`` folder. Raises UsageError where it cannot be written."""

    def __init__(self, root: Path) -> None:
        self._runs = root / "runs"

    def begin(self, plan: Plan, changes: Sequence[Change] = ()) -> str:
        """Make the run's folder; write its changes and its plan. Raises UsageError when the run exists."""
        folder = self._folder(plan.run_id)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
            (folder / "trials").mkdir()
        except FileExistsError as taken:
            raise UsageError(f"run {plan.run_id} exists already", where=str(folder)) from taken
        except OSError as problem:
            raise unwritable(folder, problem) from problem
        for change in changes:
            write_new(folder / "changes" / f"{change.arm}.json", records.dump(change), parents=True)
        write_new(folder / "plan.json", records.dump(plan))
        return str(folder)

    def begin_trial(self, trial: Trial) -> None:
        """Keep what is known before the first level, so that a killed run still says what it measured."""
        part = self._part(trial)
        try:
            part.mkdir()
        except OSError as problem:
            raise unwritable(part, problem) from problem
        write_new(part / _BEGUN, records.dump(trial))

    def save_raw(self, run_id: str, data: bytes) -> RawFile:
        """Keep per-request rows (JSON bytes) compressed under the hash of what they hold."""
        digest = hashlib.sha256(data).hexdigest()
        path = self._folder(run_id) / "raw" / f"{digest}.json.gz"
        if not path.exists():
            write_new(path, gzip.compress(data, mtime=0), parents=True)
        return RawFile(sha256=digest, bytes=len(data))

    def load_raw(self, run: Run, digest: str) -> bytes:
        """Read raw rows back. Raises UsageError where they are not here, or not what the hash says."""
        path = Path(run.path) / "raw" / f"{digest}.json.gz"
        try:
            data = gzip.decompress(path.read_bytes())
        except (OSError, EOFError, zlib.error) as problem:
            raise UsageError(
                "the raw rows of this run are not here",
                where=str(path),
                hint="raw/ is not kept in git: use the machine that measured",
            ) from problem
        if hashlib.sha256(data).hexdigest() != digest:
            raise UsageError("these raw rows are not what the run recorded", where=str(path))
        return data

    def save_point(self, trial: Trial, point: PointRecord) -> None:
        """Keep one level, now."""
        name = f"{point.index:02d}-c{point.point.concurrency}.json"
        write_new(self._part(trial) / name, records.dump(point))

    def save_trial(self, trial: Trial) -> str:
        """Write the whole trial, then drop the pieces it was collected from."""
        path = self._folder(trial.run_id) / "trials" / f"{trial.name}.json"
        write_new(path, records.dump(trial))
        shutil.rmtree(self._part(trial), ignore_errors=True)
        return str(path)

    def save_analysis(self, analysis: Analysis) -> None:
        """Write what was derived; it may be made again."""
        path = self._folder(analysis.run_id) / "analysis.json"
        _write_beside(path, records.dump(analysis)).replace(path)

    def save_reports(self, run: Run, texts: Mapping[str, str]) -> None:
        """Write what tells the run to people, file name -> text; it may be made again."""
        for name, text in texts.items():
            path = Path(run.path) / name
            _write_beside(path, text.encode()).replace(path)

    def attach(self, run: Run, attachment: Attachment, original: bytes) -> str:
        """Keep another tool's figures beside the run, its file under raw/. Raises UsageError when there."""
        path = Path(run.path) / "attachments" / f"{attachment.original.sha256[:16]}.json"
        if path.exists():
            raise UsageError("this file is attached already", where=str(path), hint="oeactl results show")
        raw = Path(run.path) / "raw" / f"{attachment.original.sha256}.json.gz"
        if not raw.exists():
            write_new(raw, gzip.compress(original, mtime=0), parents=True)
        write_new(path, records.dump(attachment), parents=True)
        return str(path)

    def list(self) -> Listing:
        """Read every run there is, oldest first; what is not a run of ours is named, not raised."""
        runs, skipped = [], []
        seen: dict[str, Path] = {}
        for folder in self._folders():
            run = _read_run(folder)
            if isinstance(run, Skipped):
                skipped.append(run)
            elif folder.name in seen:
                skipped.append(Skipped(path=str(folder), why=f"the same run is in {seen[folder.name]}"))
            else:
                seen[folder.name] = folder
                runs.append(run)
        return Listing(path=str(self._runs), runs=tuple(runs), skipped=tuple(skipped))

    def load(self, name: str) -> Run:
        """Read one run: its folder, its id, any unambiguous part of its id, or 'last'. Raises UsageError."""
        folder = self._find(name)
        run = _read_run(folder)
        if isinstance(run, Skipped):
            raise UsageError(f"this run cannot be read: {run.why}", where=run.path)
        return run

    def files(self, run: Run) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """A run's own files by their path in its folder, and the hashes of raw rows that are not here."""
        folder = Path(run.path)
        found = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }
        return found, tuple(sorted(sha for sha in _raw_of(run) if f"raw/{sha}.json.gz" not in found))

    def _find(self, name: str) -> Path:
        if name and (Path(name) / "plan.json").is_file():
            return Path(name)
        folders = list(self._folders())
        if not folders:
            raise UsageError("there are no runs", where=str(self._runs), hint="oeactl bench makes one")
        if name == "last":
            return folders[-1]
        exact = [folder for folder in folders if folder.name == name]
        near = exact or [folder for folder in folders if name and name in folder.name]
        if len(near) == 1:
            return near[0]
        what = f"'{name}' fits {len(near)} runs" if near else f"no run is called '{name}'"
        names = tuple(folder.name for folder in (near or folders)[-8:])
        raise UsageError(what, where=str(self._runs), hint="oeactl results list", details=names)

    def _folders(self) -> Iterator[Path]:
        """Run folders by name, which begins with the time; years are folders above them."""
        if self._runs.is_dir():
            yield from sorted(
                (path for path in self._runs.glob("*/*") if path.is_dir()), key=lambda p: (p.name, str(p))
            )

    def _folder(self, run_id: str) -> Path:
        return self._runs / run_id[:4] / run_id

    def _part(self, trial: Trial) -> Path:
        return self._folder(trial.run_id) / "trials" / f"{trial.name}{_PART}"


def _raw_of(run: Run) -> set[str]:
    """The hashes of all raw files that the run's records name."""
    points = [point for trial in run.trials for point in trial.points]
    rows = {file.sha256 for point in points for file in (point.raw, point.watched_raw) if file is not None}
    counts = {point.experts.counts_sha256 for point in points if point.experts is not None}
    return rows | {sha for sha in counts if sha} | {one.original.sha256 for one in run.attachments}


def _read_run(folder: Path) -> Run | Skipped:
    try:
        plan = records.parse((folder / "plan.json").read_bytes(), Plan)
    except (ValueError, OSError) as problem:
        return Skipped(path=str(folder / "plan.json"), why=why_not(problem))
    if plan.run_id != folder.name:
        return Skipped(path=str(folder / "plan.json"), why=f"it is the plan of {plan.run_id}")
    trials, skipped = _read_trials(folder / "trials", plan)
    analysis = None
    if (folder / "analysis.json").exists():
        try:
            analysis = records.parse((folder / "analysis.json").read_bytes(), Analysis)
        except (ValueError, OSError) as problem:
            skipped.append(Skipped(path=str(folder / "analysis.json"), why=why_not(problem)))
    attachments, broken = _read_each(folder / "attachments", Attachment)
    changes, torn = _read_each(folder / "changes", Change)
    return Run(
        path=str(folder),
        plan=plan,
        trials=tuple(trials),
        analysis=analysis,
        attachments=attachments,
        changes=changes,
        skipped=(*skipped, *broken, *torn),
    )


def _read_each(folder: Path, kind: type[Beside]) -> tuple[tuple[Beside, ...], tuple[Skipped, ...]]:
    """The records of one kind in a folder of a run, by name."""
    read: list[Beside] = []
    skipped: list[Skipped] = []
    for path in sorted(folder.glob("[0-9A-Za-z]*.json")):
        try:
            read.append(records.parse(path.read_bytes(), kind))
        except (ValueError, OSError) as problem:
            skipped.append(Skipped(path=str(path), why=why_not(problem)))
    return tuple(read), tuple(skipped)


def _read_trials(folder: Path, plan: Plan) -> tuple[list[Trial], list[Skipped]]:
    trials: list[Trial] = []
    skipped: list[Skipped] = []
    for path in sorted(folder.iterdir() if folder.is_dir() else ()):
        if path.name.startswith("."):
            continue
        if path.suffix == _PART and path.with_suffix(".json").exists():
            continue  # the whole trial is there; only the tidying up was cut short
        try:
            if path.suffix == _PART:
                trial, broken = _read_part(path)
                skipped += broken
            else:
                trial = records.parse(path.read_bytes(), Trial)
        except (ValueError, OSError) as problem:
            skipped.append(Skipped(path=str(path), why=why_not(problem)))
            continue
        if trial.run_id != plan.run_id or trial.name != path.stem:
            skipped.append(Skipped(path=str(path), why=f"it is trial {trial.name} of {trial.run_id}"))
            continue
        trials.append(trial)
    return sorted(trials, key=lambda trial: (trial.started_at, trial.order)), skipped


def _read_part(part: Path) -> tuple[Trial, list[Skipped]]:
    """A trial whose end was never written, with the levels that were."""
    trial = records.parse((part / _BEGUN).read_bytes(), Trial)
    points: list[PointRecord] = []
    skipped: list[Skipped] = []
    for path in sorted(part.glob("[0-9]*.json")):
        try:
            points.append(records.parse(path.read_bytes(), PointRecord))
        except (ValueError, OSError) as problem:
            skipped.append(Skipped(path=str(path), why=why_not(problem)))
    return msgspec.structs.replace(trial, points=tuple(points)), skipped


def write_new(path: Path, data: bytes, *, parents: bool = False) -> None:
    """Give ``data`` the name ``path``, whole or not at all; a name that is taken is an error."""
    if parents:
        path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _write_beside(path, data)
    try:
        try:
            os.link(temporary, path)
        except FileExistsError as taken:
            raise OeactlError(
                f"{path.name} was written before and is never rewritten", where=str(path)
            ) from taken
        except OSError:  # a file system without hard links
            if path.exists():
                raise OeactlError(
                    f"{path.name} was written before and is never rewritten", where=str(path)
                ) from None
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _write_beside(path: Path, data: bytes) -> Path:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        raise unwritable(path, problem) from problem
    return temporary


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder
        os.fsync(descriptor)
    os.close(descriptor)


def unwritable(path: Path, problem: OSError) -> UsageError:
    return UsageError(
        f"results cannot be written: {problem.strerror or problem}",
        where=str(path),
        hint="--project names the folder whose results/ is used",
    )


def why_not(problem: Exception) -> str:
    if isinstance(problem, OSError):
        return problem.strerror or str(problem)
    return str(problem)
