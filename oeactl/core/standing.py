"""Where a file stands between its original and what the host's journal says was made of it.

Owns: telling pristine, applied, restored, upgraded, foreign and damaged apart, before anyone looks for an
anchor. The full expected text is compared, never a part of it. Refuses: to act on it.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from oeactl.core.edits import Overlap, compose, three_way
from oeactl.core.host import Edit, FileRecord, FileState, FileWrite, Journal, Layer, Survey, Value
from oeactl.core.reasons import Candidate, CannotPlace, Reason
from oeactl.core.snippets import marked

ABSENT = ""
"""Stands for the hash of a file that is not there."""

LOST = "the backup of the original is gone or damaged"

State = Literal["pristine", "applied", "restored", "upgraded", "foreign", "damaged", "missing", "unreadable"]


class Standing(Value, frozen=True, kw_only=True):
    """pristine: no record, no mark. applied: as the journal says. restored: recorded, yet the original.

    upgraded: recorded, yet another release's own file. foreign: recorded, and changed by someone else.
    damaged: our marks without a record, or a record at odds with itself. missing: no such file, though a
    record says so where original_sha256 is given. unreadable: the host could not read it, or its backup.
    original: the bytes that edits are against; where there was no file, b"", and its hash is ABSENT.
    expected: what the journal says is there.
    """

    state: State
    module: str
    path: str
    current: bytes = b""
    original: bytes = b""
    original_sha256: str = ""
    expected: bytes | None = None
    file: FileState | None = None

    @property
    def current_sha256(self) -> str:
        """Of what is there now; ABSENT where there is nothing."""
        return ABSENT if self.file is not None and self.file.missing else hash_of(self.current)


class Rewritten(Value, frozen=True, kw_only=True):
    """A file before and after, whole; a hash is ABSENT where there is no file."""

    module: str
    path: str
    before: bytes
    after: bytes
    before_sha256: str
    after_sha256: str
    pristine_sha256: str

    def write(self) -> FileWrite:
        """What the transaction says of it."""
        return FileWrite(
            module=self.module,
            path=self.path,
            before_sha256=self.before_sha256,
            after=self.after,
            after_sha256=self.after_sha256,
            pristine_sha256=self.pristine_sha256,
        )


def rewritten(standing: Standing, after: bytes | None) -> Rewritten:
    """A file as it stands, and with other content; None: it goes."""
    return Rewritten(
        module=standing.module,
        path=standing.path,
        before=standing.current,
        after=after or b"",
        before_sha256=standing.current_sha256,
        after_sha256=hash_of(after),
        pristine_sha256=standing.original_sha256,
    )


def stands(file: FileState, journal: Journal) -> Standing:
    """Tell one file's state. Raises ValueError when the survey came without data."""
    record = next((record for record in journal.files if record.path == file.path), None)
    if file.missing:
        was = record.pristine_sha256 if record is not None else ABSENT
        state: State = "restored" if record is not None and was == ABSENT else "missing"
        return _standing(state, file, b"", was)
    if file.problem and not file.sha256:
        return Standing(state="unreadable", module=file.module, path=file.path, file=file)
    if file.data is None:
        raise ValueError(f"the survey holds no bytes of {file.path}")
    if record is None:
        state = "damaged" if marked(file.data) else "pristine"
        return _standing(state, file, file.data, file.sha256)
    if record.pristine is None:
        return _without_backup(file, record)
    expected = _expected(record, journal.layers)
    if expected is not None and file.data == expected:
        return _standing("applied", file, record.pristine, record.pristine_sha256, expected)
    if file.sha256 == record.pristine_sha256:
        return _standing("restored", file, record.pristine, record.pristine_sha256, expected)
    if file.record_sha256 == file.sha256:
        return _standing("upgraded", file, file.data, file.sha256, expected)
    state = "damaged" if expected is None else "foreign"
    return _standing(state, file, record.pristine, record.pristine_sha256, expected)


def _without_backup(file: FileState, record: FileRecord) -> Standing:
    """The host no longer has the original: fine where the file itself is one, else only a person can help."""
    data = file.data or b""
    if file.sha256 == record.pristine_sha256:
        return _standing("restored", file, data, file.sha256)
    if file.sha256 == file.record_sha256:
        return _standing("upgraded", file, data, file.sha256)
    lost = msgspec.structs.replace(file, problem=LOST)
    return Standing(state="unreadable", module=file.module, path=file.path, current=data, file=lost)


def _standing(
    state: State, file: FileState, original: bytes, sha256: str, expected: bytes | None = None
) -> Standing:
    return Standing(
        state=state,
        module=file.module,
        path=file.path,
        current=file.data or b"",
        original=original,
        original_sha256=sha256,
        expected=expected,
        file=file,
    )


def _expected(record: FileRecord, layers: tuple[Layer, ...]) -> bytes | None:
    """What the recorded layers make of the recorded original; None when they do not fit each other."""
    try:
        return compose(record.pristine or b"", edits_of(layers, record.path))
    except Overlap:
        return None


def composed(standing: Standing, layers: tuple[Layer, ...]) -> bytes | None:
    """The file under a stack of layers; None: there is none then. Raises Overlap."""
    edits = edits_of(layers, standing.path)
    if standing.original_sha256 == ABSENT and not any(edits):
        return None
    return compose(standing.original, edits)


def hash_of(data: bytes | None) -> str:
    """The hash of a file's content; ABSENT where there is no file."""
    return ABSENT if data is None else hashlib.sha256(data).hexdigest()


def edits_of(layers: tuple[Layer, ...], path: str) -> list[tuple[Edit, ...]]:
    """Each layer's edits of one file, in stack order."""
    return [layer.edits.get(path, ()) for layer in layers]


def all_stand(survey: Survey) -> dict[str, Standing]:
    """Every surveyed file by its real path."""
    return {file.path: stands(file, survey.journal) for file in survey.files}


def live(survey: Survey, standings: dict[str, Standing]) -> tuple[tuple[Layer, ...], tuple[str, ...]]:
    """The journal's layers that are on disk, and a note for each that is gone.

    Raises CannotPlace when a layer is half there, or its files are foreign or damaged.
    """
    there: list[Layer] = []
    notes: list[str] = []
    reasons: list[Reason] = []
    for layer in survey.journal.layers:
        seen = [standings[path] for path in layer.edits if path in standings]
        states = {standing.state for standing in seen}
        if states <= {"applied"}:
            there.append(layer)
        elif states & {"foreign", "damaged", "unreadable"}:
            reasons += [in_the_way(standing) for standing in seen]
        elif "applied" not in states and len(seen) == len(layer.edits):
            notes.append(f"{layer.recipe}: {_gone(states)}, so its record is closed")
        else:
            reasons += [_half(layer, standing) for standing in seen if standing.state != "applied"]
    reasons += _twice(there)
    found = tuple(
        {(reason.where, reason.what): reason for reason in reasons if reason.kind != "nothing"}.values()
    )
    if found:
        raise CannotPlace(*found)
    return tuple(there), tuple(notes)


def _twice(layers: list[Layer]) -> list[Reason]:
    """One recipe in two settings: on different nodes of one server."""
    names = [layer.recipe for layer in layers]
    what = "the nodes carry {} with different parameters, or of different revisions"
    return [
        Reason(kind="damaged", what=what.format(name), where="the journals", hint="oeactl revert")
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]


def _gone(states: set[State]) -> str:
    return "the engine was upgraded" if "upgraded" in states else "the original files were put back"


def _half(layer: Layer, standing: Standing) -> Reason:
    return Reason(
        kind="damaged",
        what=f"recipe {layer.recipe} is only half applied: this file is {standing.state}",
        where=standing.path,
        hint="oeactl revert",
    )


def in_the_way(standing: Standing) -> Reason:
    """Why a file in this state is not planned on; kind "nothing" for states that can be."""
    where = standing.path or standing.module
    if standing.state == "foreign":
        return Reason(
            kind="foreign",
            what="someone else changed this file after oeactl did",
            where=where,
            hint="oeactl revert --force puts the original back and keeps a copy",
            diff=three_way(standing.original, standing.expected or b"", standing.current, where),
        )
    if standing.state == "damaged":
        marks = marked(standing.current)
        if standing.expected is None and marks and standing.original == standing.current:
            what = "holds oeactl's marks, and this host's journal has no record of them"
            hint = "restore the engine's own file (reinstall or git checkout), or name the right state_dir"
        else:
            what, hint = "the journal's record of this file contradicts itself", "oeactl revert --force"
        lines = tuple(Candidate(line=line, text=f"mark of recipe {recipe}") for line, recipe in marks)
        return Reason(kind="damaged", what=what, where=where, hint=hint, candidates=lines)
    if standing.state == "missing":
        what = f"there is no module {standing.module} in this engine"
        return Reason(kind="missing", what=what, where=where)
    if standing.state == "unreadable":
        what = (standing.file and standing.file.problem) or "it cannot be read"
        back = "reinstall the engine, or git checkout the file; then oeactl revert" if what == LOST else None
        return Reason(kind="read-only", what=what, where=where, hint=back)
    return Reason(kind="nothing", what=standing.state, where=where)
