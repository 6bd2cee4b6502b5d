"""The folder that holds an engine's changed files beside its container, and the program that puts them in
place where they are not mounted over the image's.

Owns: its contents. Refuses: to change a folder once it has its name, which is the hash of what is in it.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

from . import disk

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Where a container sees the folder.
INSIDE = "/opt/oeactl"
PLAN = "plan.json"
SCRIPT = "prelude.py"
ORIGINAL = ".original"

PROGRAM = '''\
"""By oeactl: puts the changed files of this container's engine in place, then becomes what it was asked
to run.

A file that is neither the original nor the changed one ends it: the change was not made for that engine.
"""

import glob
import hashlib
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def holds(path):
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return ""


def put(one):
    path, temporary = one["path"], one["path"] + ".oeactl-new"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copyfile(os.path.join(HERE, one["name"]), temporary)
    os.chmod(temporary, one["mode"])
    if os.geteuid() == 0:
        os.chown(temporary, one["uid"], one["gid"])
    os.replace(temporary, path)
    folder, name = os.path.split(path)
    stem = glob.escape(os.path.join(folder, "__pycache__", name[: -len(".py")]))
    for stale in glob.glob(stem + ".*.pyc") if name.endswith(".py") else ():
        os.unlink(stale)


def main():
    with open(os.path.join(HERE, "plan.json")) as file:
        plan = json.load(file)
    now = {one["path"]: holds(one["path"]) for one in plan}
    for one in plan:
        if now[one["path"]] not in (one["pristine_sha256"], one["expected_sha256"]):
            sys.exit(
                "RuntimeError: oeactl: %s is not the file that the change was made for, so nothing is "
                "started; oeactl revert, then patch again" % one["path"]
            )
    for one in plan:
        if now[one["path"]] != one["expected_sha256"]:
            put(one)
    os.execvp(sys.argv[1], sys.argv[1:])


main()
'''


def write(
    parent: str,
    records: list[dict[str, Any]],
    contents: Mapping[str, bytes],
    originals: Mapping[str, bytes | None],
) -> str:
    """Make the folder for these files (path -> what it shall hold, what it held); its path.

    Readable to any user inside.
    """
    plan = [
        {**{key: one[key] for key in _FIELDS}, "name": f"{number}-{os.path.basename(one['path'])}"}
        for number, one in enumerate(sorted(records, key=lambda one: str(one["path"])))
    ]
    text = json.dumps(plan, indent=1, sort_keys=True).encode()
    folder = os.path.join(parent, disk.sha256(text + PROGRAM.encode()))
    if os.path.isdir(folder):
        return folder
    making = folder + ".new"
    shutil.rmtree(making, ignore_errors=True)
    os.makedirs(making, 0o755)
    for name, data in ((PLAN, text), (SCRIPT, PROGRAM.encode())):
        _put(os.path.join(making, name), data, 0o644)
    for one in plan:
        path = os.path.join(making, one["name"])
        _put(path, contents[one["path"]], one["mode"] | 0o444)
        if os.geteuid() == 0:
            os.chown(path, one["uid"], one["gid"])
        original = originals[one["path"]]
        if original is not None:
            _put(path + ORIGINAL, original, 0o644)
    disk.sync_directory(making)
    os.rename(making, folder)
    disk.sync_directory(parent)
    return folder


_FIELDS = ("path", "pristine_sha256", "expected_sha256", "mode", "uid", "gid")


def _put(path: str, data: bytes, mode: int) -> None:
    disk.write_new(path, data, mode)
    os.chmod(path, mode)


def held(folder: str) -> dict[str, str]:
    """Path in the container -> the file here that holds its content."""
    with open(os.path.join(folder, PLAN), encoding="utf-8") as file:
        return {one["path"]: os.path.join(folder, one["name"]) for one in json.load(file)}


def originals(folder: str) -> dict[str, bytes | None]:
    """Path in the container -> what its image has there; None for nothing."""
    found: dict[str, bytes | None] = {}
    for path, here in held(folder).items():
        found[path] = disk.read(here + ORIGINAL) if os.path.exists(here + ORIGINAL) else None
    return found
