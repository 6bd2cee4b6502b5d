"""A host as a plan would leave it: what the last gates look at before anything is written.

Owns: that imagination. Refuses: to be taken for a survey of anything real.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from oeactl.core.host import FileRecord, FileState, Journal, Layer, Survey
from oeactl.core.standing import ABSENT, Rewritten


def afterwards(survey: Survey, writes: Iterable[Rewritten], layers: tuple[Layer, ...]) -> Survey:
    """The survey of this host once ``writes`` are made and ``layers`` is its journal's stack."""
    made = {file.path: file for file in writes}
    originals = {record.path: record for record in survey.journal.files}
    records = {path: record for path, record in originals.items() if path not in made}
    files: list[FileState] = []
    for state in survey.files:
        file = made.get(state.path)
        if file is None:
            files.append(state)
            continue
        gone = file.after_sha256 == ABSENT
        files.append(
            msgspec.structs.replace(
                state, missing=gone, data=None if gone else file.after, sha256=file.after_sha256
            )
        )
        known = originals.get(state.path)
        fresh = known is None or known.pristine_sha256 != file.pristine_sha256
        records[state.path] = FileRecord(
            module=state.module,
            path=state.path,
            pristine_sha256=file.pristine_sha256,
            expected_sha256=file.after_sha256,
            mode=state.mode,
            uid=state.uid,
            gid=state.gid,
            pristine=(state.data or b"") if fresh or known is None else known.pristine,
        )
    journal = Journal(root=survey.journal.root, layers=layers, files=tuple(records.values()))
    return msgspec.structs.replace(survey, files=tuple(files), journal=journal)
