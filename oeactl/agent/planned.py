"""One file that a transaction is to change: is it what the change was planned on, and may it be replaced?

Owns: the checks before anything is touched, and what a change must know to be undone. Refuses: to write, but
for a copy of somebody's edit that is about to go.
"""

from __future__ import annotations

import os
import stat
import warnings

from . import disk
from .steps import reach
from .wire import AgentError, from_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .journal import Store

NEW_MODE = 0o644


def check(
    store: Store, journal: dict[str, Any], request: dict[str, Any], wanted: dict[str, Any], notes: list[str]
) -> dict[str, Any]:
    """Check one FileWrite against what is on the disk now. Touches nothing but copies of foreign files."""
    path = wanted["path"]
    facts, data = _current(path)
    before = disk.ABSENT if data is None else disk.sha256(data)
    after = from_text(wanted["after"])
    record = next((record for record in journal["files"] if record["path"] == path), None)
    if wanted["after_sha256"] != (disk.sha256(after) if wanted["after_sha256"] else disk.ABSENT):
        raise AgentError("usage", "the new content does not match its hash", path)
    known = [wanted["after_sha256"], wanted["pristine_sha256"]]
    if record is not None:
        known += [record["expected_sha256"], record["pristine_sha256"]]
    planned = before in (wanted["before_sha256"], wanted["after_sha256"])
    if not planned or (request["kind"] == "revert" and before not in known):
        if not (request["force"] and request["kind"] == "revert"):
            raise _not_as_planned(path, before, wanted["before_sha256"])
        if data is not None:
            notes.append(f"{path}: the foreign file was kept as {store.keep_foreign(path, data)}")
    pristine = wanted["pristine_sha256"]
    if pristine not in (disk.ABSENT, before, wanted["after_sha256"]) and store.blob(pristine) is None:
        raise AgentError("refused", f"there is no backup of the original {pristine[:12]}", path)
    back = wanted["after_sha256"] == pristine
    if not back:
        compiles(path, after)
    if data is not None and facts.st_nlink > 1:
        notes.append(f"{path}: it had {facts.st_nlink} names (hard links); only this one was changed")
    owner = record if record is not None and back else _newcomer(facts) if data is None else None
    return {
        "module": wanted["module"],
        "path": path,
        "before_sha256": before,
        "after_sha256": wanted["after_sha256"],
        "pristine_sha256": pristine,
        "mode": owner["mode"] if owner else facts.st_mode & 0o7777,
        "uid": owner["uid"] if owner else facts.st_uid,
        "gid": owner["gid"] if owner else facts.st_gid,
        "folders": _made_for(path, journal),
        "temporary": _beside(path, request["operation"], "new"),
        "saved": _beside(path, request["operation"], "old"),
    }


def _newcomer(folder: os.stat_result) -> dict[str, int]:
    """Mode and owner of a file where none was: the folder's owner's where we may choose, else ours."""
    chosen = os.geteuid() == 0
    group = folder.st_gid if chosen or folder.st_mode & stat.S_ISGID else os.getegid()
    return {"mode": NEW_MODE, "uid": folder.st_uid if chosen else os.geteuid(), "gid": group}


def _made_for(path: str, journal: dict[str, Any]) -> list[str]:
    """The folders above ``path`` that are ours: those yet to be made, and those the record says we made."""
    made = {folder for record in journal["files"] for folder in record.get("folders", ())}
    return sorted({*disk.new_folders(path), *(folder for folder in made if path.startswith(folder + "/"))})


def _beside(path: str, operation: str, kind: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.oeactl-{operation}.{kind}")


def _current(path: str) -> tuple[os.stat_result, bytes | None]:
    """Stat and content of a file that we can replace; where there is none, of the folder it would lie in."""
    if os.path.realpath(path) != path:
        raise AgentError("refused", "it is not the real file any more", path, "run the command again")
    with disk.explained(path):
        if not os.path.lexists(path):
            blocked = disk.no_room(path)
            if blocked is not None:
                raise AgentError("refused", blocked, path, "connect as the owner, or set become: sudo")
            return os.stat(os.path.dirname((disk.new_folders(path) or [path])[0])), None
        problem = disk.obstacle(path)
        if problem is not None:
            raise AgentError("refused", problem[0], path, problem[1])
        return os.stat(path), disk.read(path)


def _not_as_planned(path: str, now: str, planned: str) -> AgentError:
    return AgentError(
        "refused",
        "it does not hold what the change was planned on",
        path,
        "see who changed it, then run the command again",
        [f"planned on sha256 {planned}", f"it holds now     {now}"],
    )


def compiles(path: str, source: bytes) -> None:
    """Compile with this interpreter, which is the server's: an older client may refuse newer syntax."""
    if not path.endswith(".py"):
        return
    reach("compile", path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise AgentError("refused", f"the changed file does not compile: {error}", path) from None
