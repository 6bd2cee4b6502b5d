"""This machine for a diagnosis: the interpreter, free space, programs, who holds GPU memory.

Owns: ``checkup``. Refuses: to change anything; a folder that is not there yet is judged by the one above it.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

from . import disk, gpus, process
from .environment import base_environment
from .wire import operation

if TYPE_CHECKING:
    from .wire import Client, Request


@operation("checkup")
def checkup(request: Request, client: Client) -> dict[str, Any]:
    """The wire's MachineFacts. folders, programs: what to look for; env: the server's, for its PATH."""
    path = {**base_environment(), **request["env"]}.get("PATH")
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "user": disk.user_name(os.geteuid()),
        "time": time.time(),
        "folders": [_folder(folder) for folder in request["folders"]],
        "programs": {name: shutil.which(name, path=path) for name in request["programs"]},
        "gpu_holders": [
            {"pid": one.pid, "mib": one.mib, "what": process.named(one.pid)} for one in gpus.holdings()
        ],
    }


def _folder(path: str) -> dict[str, Any]:
    """Room and permission there, or in the nearest folder above that exists."""
    place = os.path.abspath(os.path.expanduser(path))
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    facts = os.statvfs(place)
    return {
        "path": path,
        "there": place,
        "free_bytes": facts.f_bavail * facts.f_frsize,
        "writable": os.access(place, os.W_OK | os.X_OK) and not facts.f_flag & os.ST_RDONLY,
    }
