"""All files or none: the one operation that changes the engine, and the recovery of one that was cut short.

Owns: the order of steps, what is undone and what is finished. Refuses: whatever it was not planned on.
"""

from __future__ import annotations

import os
import time

from . import disk, planned
from .journal import LOCK_WAIT_S, Store, active_lease, check_lease, describe, new_lease, no_other_record
from .steps import reach
from .wire import AgentError, check_ending, from_text, interruptible, operation, uninterrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .wire import Client


@operation("write")
def write(request: dict[str, Any], client: Client) -> dict[str, Any]:
    """The wire's Written for a Transaction. Any failure leaves every file as it was found."""
    if not _is_id(request["operation"]):
        raise AgentError("usage", f"not an operation id: {request['operation']!r}")
    store = Store(request["root"], request["state_dir"])
    no_other_record(store.root, request["state_dir"])
    with store.locked():
        force = request["force"] and request["kind"] == "revert"
        recovered = recover(store, skip_foreign=force)
        journal = store.read()
        check_lease(store, journal, request["operation"], request["holder"])
        notes: list[str] = []
        if not _is_done(journal, request):
            changes = [planned.check(store, journal, request, wanted, notes) for wanted in request["files"]]
            _nothing_lost(journal, request)
            with uninterrupted():
                _make(store, journal, request, changes)
        journal = store.read()
    return {
        "operation": request["operation"],
        "journal": store.public(journal, recovered=recovered),
        "notes": notes,
    }


def _is_id(text: str) -> bool:
    """Letters, digits and a few signs between: it becomes part of the names of files."""
    plain = text.replace("-", "").replace("_", "").replace(".", "")
    return text.isascii() and plain.isalnum() and text[0].isalnum() and len(text) <= 64


@operation("recover")
def recover_now(request: dict[str, Any], client: Client) -> dict[str, Any]:
    """Finish or undo what was cut short; the journal afterwards. force: also over files changed since."""
    store = Store(request["root"], request["state_dir"])
    if not os.path.isdir(store.path):
        return store.public(store.read())
    with store.locked(request.get("lock_wait_s", LOCK_WAIT_S)):
        kept = _set_aside(store) if request.get("force") else []
        recovered = recover(store, skip_foreign=False)
        journal = store.read()
    return store.public(journal, recovered="; ".join([recovered, *kept]) if recovered else None)


def _set_aside(store: Store) -> list[str]:
    """Before a forced recovery: keep a copy of every file that somebody changed since, and put back what the
    cut transaction found there, so that recovery can go on. Says where the copies are.
    """
    pending, notes = store.read()["pending"], []
    for change in _foreign(pending) if pending else []:
        path, target = change["path"], change["before_sha256"]
        with uninterrupted(), disk.explained(path):
            if os.path.exists(path):
                copy = store.keep_foreign(path, disk.read(path))
                notes.append(f"the file that was there is kept as {copy}")
            disk.remove(change["temporary"])
            _replace(store, change, target)
    return notes


def _is_done(journal: dict[str, Any], request: dict[str, Any]) -> bool:
    """The same message came before and its answer was lost, or there was nothing to do."""
    return (
        journal["layers"] == request["layers"]
        and all(disk.state_of(wanted["path"]) == wanted["after_sha256"] for wanted in request["files"])
        and (active_lease(journal) is None) == (request["lease_s"] is None)
    )


def _nothing_lost(journal: dict[str, Any], request: dict[str, Any]) -> None:
    """A record may only end when its file no longer holds our change."""
    kept = {path for layer in request["layers"] for path in layer["edits"]}
    written = {wanted["path"] for wanted in request["files"]}
    for record in journal["files"]:
        path = record["path"]
        if path in kept or path in written or record["expected_sha256"] == record["pristine_sha256"]:
            continue
        if disk.state_of(path) == record["expected_sha256"]:
            raise AgentError("refused", "the journal cannot be closed: it still holds our change", path)


def _make(
    store: Store, journal: dict[str, Any], request: dict[str, Any], changes: list[dict[str, Any]]
) -> None:
    """Journal the intent, change every file, probe, commit; on any failure put everything back."""
    moving = [change for change in changes if change["before_sha256"] != change["after_sha256"]]
    pending = _intent(journal, request, changes, moving)
    contents = {wanted["path"]: from_text(wanted["after"]) for wanted in request["files"]}
    prefix = (request["probe"] or {"env": {}})["env"].get("PYTHONPYCACHEPREFIX")
    try:
        with disk.explained(store.path):
            for change in moving:
                if change["before_sha256"] != disk.ABSENT:
                    store.keep(disk.read(change["path"]))
                if pending["kind"] != "patch" and change["after_sha256"] != disk.ABSENT:
                    store.keep(contents[change["path"]])
            store.save({**journal, "pending": pending})
            store.write_note(pending["files"])
        for change in moving:
            _prepare(change, contents[change["path"]])
        for change in moving:
            with disk.explained(change["path"]):
                gone = change["after_sha256"] == disk.ABSENT
                temporary = None if gone else change["temporary"]
                disk.swap(change["path"], temporary, change["saved"], change["before_sha256"])
        for change in moving:
            _verify(change, prefix)
        if request["probe"] is not None and moving:
            reach("probe", store.root)
            kept = {
                change["path"]: store.backup(change["before_sha256"]) if change["before_sha256"] else None
                for change in moving
            }
            from . import probe  # only here: it takes as long to import as all the rest

            with interruptible():
                probe.run(request["probe"], kept)
        check_ending()
        with disk.explained(store.path):
            committed = _commit(store, journal, pending)
    except BaseException:
        _undo(store, journal, moving)
        raise
    store.tidy(committed)


def _intent(
    journal: dict[str, Any],
    request: dict[str, Any],
    changes: list[dict[str, Any]],
    moving: list[dict[str, Any]],
) -> dict[str, Any]:
    """What the journal says while files change: enough to undo it, and enough to finish it."""
    touched = {path for layer in request["layers"] for path in layer["edits"]}
    records = {record["path"]: record for record in journal["files"]}
    for change in changes:
        fields = ("module", "path", "pristine_sha256", "mode", "uid", "gid", "folders")
        records[change["path"]] = {field: change[field] for field in fields}
        records[change["path"]]["expected_sha256"] = change["after_sha256"]
    lease = None
    if request["lease_s"] is not None:
        lease = new_lease(
            request["operation"], request["what"], request["holder"], request["lease_s"], journal["lease"]
        )
    return {
        "operation": request["operation"],
        "kind": request["kind"],
        "what": request["what"],
        "holder": request["holder"],
        "started_at": disk.iso(time.time()),
        "changes": moving,
        "layers": request["layers"],
        "files": [record for path, record in records.items() if path in touched],
        "lease": lease,
    }


def _prepare(change: dict[str, Any], content: bytes) -> None:
    if change["after_sha256"] == disk.ABSENT:
        return
    with disk.explained(change["path"]):
        disk.make_folders(change["folders"], change["uid"], change["gid"])
        disk.successor(
            change["path"], change["temporary"], content, change["mode"], change["uid"], change["gid"]
        )


def _verify(change: dict[str, Any], prefix: str | None) -> None:
    """Read back what is on the disk now, and drop bytecode of what was there before."""
    path = change["path"]
    with disk.explained(path):
        reach("read back", path)
        gone = change["after_sha256"] == disk.ABSENT
        wanted = None if gone else (change["mode"], change["uid"], change["gid"])
        if disk.state_of(path) != change["after_sha256"] or _owner(path) != wanted:
            raise AgentError("refused", "it does not read back as it was written", path)
        disk.drop_bytecode(path, prefix)


def _owner(path: str) -> tuple[int, int, int] | None:
    """Mode, owner and group; None where nothing is."""
    if not os.path.lexists(path):
        return None
    facts = os.stat(path)
    return facts.st_mode & 0o7777, facts.st_uid, facts.st_gid


def _commit(store: Store, journal: dict[str, Any], pending: dict[str, Any]) -> dict[str, Any]:
    """From here on the change counts as made. Whatever needs space comes before the old files go."""
    committed = {
        **journal,
        "layers": pending["layers"],
        "files": pending["files"],
        "lease": pending["lease"],
        "pending": None,
    }
    store.prepare(committed)
    for change in pending["changes"]:
        reach("drop saved original", change["saved"])
        disk.remove(change["saved"])
        if change["after_sha256"] == disk.ABSENT:
            disk.drop_folders(change["folders"])
    store.install()
    return committed


def _undo(store: Store, journal: dict[str, Any], moving: list[dict[str, Any]]) -> None:
    """Put back what this very message changed. journal: as it was before."""
    problems = []
    for change in moving:
        try:
            with disk.explained(change["path"]):
                _put(store, change, change["before_sha256"])
        except AgentError as error:
            problems.append(f"{error.where}: {error.what}")
            backup = store.backup(change["before_sha256"])
            problems.append(f"cp -- {backup} {change['path']}" if change["before_sha256"] else "rm it")
    if problems:
        raise AgentError(
            "degraded", "the change failed, and not every file could be put back", store.path, None, problems
        )
    try:
        store.save(journal)
        store.tidy(journal)
    except OSError:
        pass  # the files are right, and the next command finds a pending transaction that is undone already


def _put(store: Store, change: dict[str, Any], target: str) -> None:
    """Make the file hold ``target``, one of the two contents this change knows; leave any third one alone."""
    path, saved = change["path"], change["saved"]
    reach("put back", path)
    disk.remove(change["temporary"])
    now = disk.state_of(path)
    if now != target and now in (change["before_sha256"], change["after_sha256"]):
        _replace(store, change, target)
    disk.remove(saved)
    disk.drop_bytecode(path)
    if target == disk.ABSENT == disk.state_of(path):
        disk.drop_folders(change["folders"])


def _replace(store: Store, change: dict[str, Any], target: str) -> None:
    """Make the file hold ``target``, from the file set aside or from the backup."""
    path, temporary, saved = change["path"], change["temporary"], change["saved"]
    if target == disk.ABSENT:
        disk.remove(path)
    elif disk.hash_of(saved) == target:
        os.rename(saved, path)
    else:
        data = store.blob(target)
        if data is None:
            raise AgentError("degraded", f"the backup {target[:12]} is gone or damaged", path)
        disk.make_folders(change["folders"], change["uid"], change["gid"])
        disk.successor(path, temporary, data, change["mode"], change["uid"], change["gid"])
        os.rename(temporary, path)
    disk.sync_directory(os.path.dirname(path))


def recover(store: Store, *, skip_foreign: bool) -> str | None:
    """Undo a patch, finish a revert, that a crash cut short; say which. None when nothing was pending.

    skip_foreign: leave files alone that hold neither content (``revert --force`` deals with them next).
    """
    journal = store.read()
    pending = journal["pending"]
    if pending is None:
        return None
    finish = pending["kind"] != "patch"
    foreign = _foreign(pending)
    who = f"{describe(pending['holder'])} began at {pending['started_at']}"
    if foreign and not skip_foreign:
        raise AgentError(
            "refused",
            f"a {pending['kind']} that {who} was cut short, and somebody changed a file since",
            foreign[0]["path"],
            "oeactl revert --force keeps a copy of it and goes on",
            [f"neither the old nor the new content: {change['path']}" for change in foreign],
        )
    with uninterrupted(), disk.explained(store.path):
        for change in pending["changes"]:
            _put(store, change, change["after_sha256" if finish else "before_sha256"])
        if finish:
            journal = _commit(store, journal, pending)
        else:
            journal = {**journal, "pending": None}
            store.save(journal)
        store.tidy(journal)
    verb = "finished" if finish else "undid"
    return f"{verb} the {pending['kind']} {pending['operation']} that {who} and that was cut short"


def _foreign(pending: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a transaction that was cut short, the files that hold neither their old nor their new content."""
    return [
        change
        for change in pending["changes"]
        if disk.state_of(change["path"]) not in (change["before_sha256"], change["after_sha256"])
    ]
