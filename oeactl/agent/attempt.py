"""Whether changed files would compile and import, before anything of them is where the engine looks.

Owns: ``attempt``, in a container whose files are changed from outside. Refuses: to write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import planned, probe
from .wire import from_text, operation

if TYPE_CHECKING:
    from .wire import Client, Request


@operation("attempt")
def attempt(request: Request, client: Client) -> None:
    """files: FileWrites of a transaction; probe: its Probe, None to compile only. Raises AgentError."""
    contents: dict[str, Any] = {one["path"]: from_text(one["after"]) for one in request["files"]}
    for path, data in contents.items():
        planned.compiles(path, data)
    if request["probe"] is not None:
        modules = {one["path"]: one["module"] for one in request["files"]}
        probe.run_given(request["probe"], contents, modules)
