"""One look at a host: the machine, the engine's copy, the files, the record, the model. Nothing is written.

Owns: the operation ``survey``. Refuses: to create, lock or change anything; a dry run rests on it.
"""

from __future__ import annotations

import os
import stat
import time

from . import disk, engine, machine
from .journal import Store, elsewhere
from .wire import operation, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .wire import Client


@operation("survey")
def survey(request: dict[str, Any], client: Client) -> dict[str, Any]:
    """The wire's Survey for a SurveyRequest."""
    gpus = machine.GpuQuery()
    package = engine.find(request)
    store = _record(package.directory, request["state_dir"])
    journal = store.public(store.read(), data=request["data"])
    files = _targets(package, request["modules"], journal)
    record = package.recorded([path for _, path in files])
    env = engine.server_environment(request["env"])
    model = request["model"]
    answer: dict[str, Any] = {
        "host": machine.facts(store.path, gpus),
        "engine": package.facts(),
        "files": [_state(module, path, record.get(path), request["data"]) for module, path in files],
        "journal": journal,
        "model": machine.model_facts(model, request["cwd"], env) if model else None,
    }
    answer["host"]["time"] = time.time()  # last: whoever hears it sets it against the moment of hearing
    return answer


def _record(root: str, state_dir: str | None) -> Store:
    """Ours, or the one that another user keeps of the same engine: telling beats guessing 'pristine'."""
    store = Store(root, state_dir)
    if not os.path.isdir(store.path):
        other = elsewhere(root, state_dir)
        if other is not None:
            return Store(root, other)
    return store


def _targets(package: engine.Package, modules: list[str], journal: dict[str, Any]) -> list[tuple[str, str]]:
    """Module and path: those asked for, then the others that the journal answers for."""
    found = {module: package.file_of(module) for module in modules}
    for record in journal["files"]:
        found.setdefault(record["module"], record["path"])
    return list(found.items())


def _state(module: str, path: str, recorded: str | None, with_data: bool) -> dict[str, Any]:
    """The wire's FileState, symlinks followed."""
    state: dict[str, Any] = {"module": module, "path": path, "record_sha256": recorded}
    if not os.path.lexists(path):
        blocked = disk.no_room(path) if "/" in module else None
        real = os.path.realpath(path)
        folder = os.path.isdir(os.path.dirname(real))
        there = {"path": real, "folder": folder, "writable": blocked is None, "problem": blocked}
        return {**state, **there, "missing": True}
    try:
        facts = os.stat(path)
        real = os.path.realpath(path)
        data = disk.read(real) if stat.S_ISREG(facts.st_mode) else b""
        problem = disk.obstacle(real)
    except OSError as error:
        return {**state, "writable": False, "problem": error.strerror or str(error)}
    return {
        **state,
        "path": real,
        "sha256": disk.sha256(data),
        "size": len(data),
        "mode": stat.S_IMODE(facts.st_mode),
        "uid": facts.st_uid,
        "gid": facts.st_gid,
        "mtime_ns": facts.st_mtime_ns,
        "nlink": facts.st_nlink,
        "writable": problem is None,
        "problem": problem and problem[0],
        "data": to_text(data) if with_data else None,
    }
