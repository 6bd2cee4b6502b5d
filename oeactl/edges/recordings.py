"""Where recorded answers and comparisons lie.

    results/quality/2026/20261130T021500Z-oea-1f3a9c2e/
        recording.json                     the build, how it was asked, how far it agrees with itself
        raw/<sha256>.json.gz               the answers; git-ignored
        against-20261130T020100Z-….json    a comparison, with this one as the candidate

Owns: that layout, under the rules of store.py: written once, whole. Refuses: what is not a whole record.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

from oeactl.core import results as records
from oeactl.core.recording import Comparison, Recording
from oeactl.edges.store import unwritable, why_not, write_new
from oeactl.errors import UsageError

_RECORDING = "recording.json"


class RecordingsFolder:
    """ports.Recordings over a project's ``results/`` folder. Raises UsageError where it cannot be written."""

    def __init__(self, root: Path) -> None:
        self._root = root / "quality"

    def save_recording(self, recording: Recording, answers: bytes) -> str:
        """Keep the answers first, then the recording that names them; its folder."""
        folder = self._folder(recording.recording_id)
        try:
            folder.mkdir(parents=True)
        except OSError as problem:
            raise unwritable(folder, problem) from problem
        path = folder / "raw" / f"{recording.answers.sha256}.json.gz"
        write_new(path, gzip.compress(answers, mtime=0), parents=True)
        write_new(folder / _RECORDING, records.dump(recording))
        return str(folder)

    def load_recording(self, name: str) -> Recording:
        """Read one: its id, a part of it that fits it alone, its folder, or 'last'. Raises UsageError."""
        folder = self._find(name)
        try:
            return records.parse((folder / _RECORDING).read_bytes(), Recording)
        except (ValueError, OSError) as problem:
            raise UsageError(
                f"this recording cannot be read: {why_not(problem)}", where=str(folder / _RECORDING)
            ) from problem

    def load_answers(self, recording: Recording) -> bytes:
        """Raises UsageError where they are not on this disk, or not what the recording says."""
        folder = self._folder(recording.recording_id)
        path = folder / "raw" / f"{recording.answers.sha256}.json.gz"
        try:
            data = gzip.decompress(path.read_bytes())
        except (OSError, EOFError, zlib.error) as problem:
            raise UsageError(
                "the answers of this recording are not here",
                where=str(path),
                hint="raw/ is not kept in git: compare on the machine that recorded",
            ) from problem
        if hashlib.sha256(data).hexdigest() != recording.answers.sha256:
            raise UsageError("these answers are not what was recorded", where=str(path))
        return data

    def save_comparison(self, comparison: Comparison) -> str:
        """Keep it beside its candidate; its file. One made before of the same recordings stands."""
        path = self._folder(comparison.candidate) / f"against-{'+'.join(comparison.baseline)}.json"
        if not path.exists():
            write_new(path, records.dump(comparison))
        return str(path)

    def _find(self, name: str) -> Path:
        if name and (Path(name) / _RECORDING).is_file():
            return Path(name)
        folders = sorted((path.parent for path in self._root.glob(f"*/*/{_RECORDING}")), key=lambda p: p.name)
        if not folders:
            raise UsageError(
                "no answers are recorded here", where=str(self._root), hint="oeactl quality records them"
            )
        if name == "last":
            return folders[-1]
        exact = [folder for folder in folders if folder.name == name]
        near = exact or [folder for folder in folders if name and name in folder.name]
        if len(near) == 1:
            return near[0]
        what = f"'{name}' fits {len(near)} recordings" if near else f"no recording is called '{name}'"
        names = tuple(folder.name for folder in (near or folders)[-8:])
        raise UsageError(what, where=str(self._root), details=names)

    def _folder(self, recording_id: str) -> Path:
        return self._root / recording_id[:4] / recording_id
