"""Whether a server could be begun, found out while the one before it still runs. Nothing is begun or made.

Owns: ``server.startable``. Refuses: to import the engine, and to judge what only the engine can (its own
arguments): what it finds is what a mistake in hosts.yaml looks like on the host.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from . import gpus, process, units
from .environment import base_environment
from .launch import interpreter
from .machine import GpuQuery
from .wire import AgentError, operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .wire import Client, Request

    Fault = tuple[str, str, str]  # what, where, the key of hosts.yaml

FIND_S = 60.0

# Under the server's interpreter, in its environment and folder: finds a module without importing its package.
# A place that is no folder (a zip file) is taken on trust.
FINDER = """
import glob, importlib.util, os, sys
top, *inner = sys.argv[1].split(".")
spec = importlib.util.find_spec(top)
if spec is None:
    sys.exit(3)
places = list(spec.submodule_search_locations or [])
paths = [os.path.join(place, *inner) for place in places]
there = [os.path.isdir(path) or glob.glob(glob.escape(path) + ".*") for path in paths]
trusted = [place for place in places if not os.path.isdir(place)]
sys.exit(0 if not inner or any(there) or trusted else 3)
"""


@operation("server.startable")
def startable(request: Request, client: Client) -> None:
    """Raise for all that is in the way of ``launch``, or of ``commands`` (each an argv), or of ``unit``.

    alone: no server of ours runs, so whoever holds GPU memory is somebody else.
    """
    faults = list(_faults(request))
    if faults:
        what, where, key = faults[0]
        more = ["{}: {}".format(*fault[:2]) for fault in faults[1:]]
        raise AgentError("usage", what, where, f"correct {key} in hosts.yaml", more)
    if request.get("alone"):
        _refuse_held(request["launch"])


def _faults(request: Request) -> Iterator[Fault]:
    launch = request["launch"]
    environment = {**base_environment(), **launch["env"]}
    yield from _folder(launch["cwd"])
    if request.get("unit"):
        yield from _unit(request["unit"])
    for key, argv in (request.get("commands") or {}).items():
        yield from _command(key, argv, launch["cwd"], environment)
    if request.get("unit") or request.get("commands"):
        return
    yield from _log(launch["log"])
    try:
        python = interpreter(launch)
    except AgentError as error:
        yield error.what, error.where or "", "engine.python"
    else:
        yield from _program(python, launch, environment)
    yield from _model(launch["argv"])
    yield from _gpus(environment.get("CUDA_VISIBLE_DEVICES"))


def _folder(path: str) -> Iterator[Fault]:
    if not os.path.isdir(path):
        yield f"the folder {path} does not exist", path, "server.cwd"
    elif not os.access(path, os.X_OK):
        yield f"this user may not enter the folder {path}", path, "server.cwd"


def _unit(name: str) -> Iterator[Fault]:
    state = units.show(name).get("LoadState", "loaded")
    if state != "loaded":
        yield f"systemd has no unit {name} ({state})", name, "server.unit"


def _command(key: str, argv: list[str], cwd: str, environment: dict[str, str]) -> Iterator[Fault]:
    """A program by its path (from ``cwd``, where it will run) or by its name."""
    path = os.path.join(cwd, argv[0]) if "/" in argv[0] else argv[0]
    if shutil.which(path, path=environment.get("PATH")) is None:
        problem = "is not executable" if os.path.exists(path) else "does not exist on this host"
        yield f"{argv[0]} {problem}", path, f"server.{key}"


def _log(path: str) -> Iterator[Fault]:
    """The file where it is there; else the nearest folder above it that is, in which it would be made."""
    place = path
    while not os.path.lexists(place):
        place = os.path.dirname(place) or "/"
    if place == path:
        fits = os.path.isfile(path) or not os.path.isdir(path)
        allowed = os.access(path, os.W_OK)
    else:
        fits, allowed = os.path.isdir(place), os.access(place, os.W_OK | os.X_OK)
    if not (fits and allowed):
        reason = "permission denied" if fits else f"{place} is {'a' if place == path else 'no'} folder"
        yield f"the log cannot be written: {reason}", path, "server.log"


def _program(python: str, launch: dict[str, Any], environment: dict[str, str]) -> Iterator[Fault]:
    """The script or module that the interpreter is given."""
    argv = [word for word in launch["argv"] if word not in ("-u", "-s", "-B", "-O")]
    if argv[:1] == ["-m"] and len(argv) > 1:
        if _finds(python, argv[1], launch["cwd"], environment) is False:
            yield f"{python} finds no module {argv[1]}", python, "server.argv or engine.python"
    elif argv and not argv[0].startswith("-"):
        script = os.path.join(launch["cwd"], argv[0])
        if not os.access(script, os.R_OK):
            problem = "cannot be read" if os.path.exists(script) else "does not exist on this host"
            yield f"the script {argv[0]} {problem}", script, "server.argv"


def _finds(python: str, module: str, cwd: str, environment: dict[str, str]) -> bool | None:
    """None: it could not be found out, which is no reason against a start."""
    try:
        done = subprocess.run(
            [python, "-c", FINDER, module],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=cwd if os.path.isdir(cwd) else "/",
            env=environment,
            timeout=FIND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {0: True, 3: False}.get(done.returncode)


def _model(argv: list[str]) -> Iterator[Fault]:
    """A model that is named by its folder must be there; a hub's name cannot be looked up here."""
    for word, following in zip(argv, [*argv[1:], ""]):  # noqa: B905  # strict= is 3.10
        name, equals, value = word.partition("=")
        path = value if equals else following
        if name in ("--model-path", "--model") and path.startswith("/") and not os.path.exists(path):
            yield f"there is no model {path}", path, "server.argv"


def _gpus(visible: str | None) -> Iterator[Fault]:
    """CUDA_VISIBLE_DEVICES names what the driver has; CUDA itself would end the list there in silence."""
    rows = GpuQuery().rows() if visible else []
    for name in _names(visible or "") if rows else ():
        if not any(_is(name, row) for row in rows):
            what = f"CUDA_VISIBLE_DEVICES names GPU {name}, and there are {len(rows)}"
            yield what, "nvidia-smi", "server.env"


def _names(visible: str) -> list[str]:
    """The GPUs that are named, by number or uuid; what else may stand there (MIG) is the driver's affair."""
    words = [word.strip() for word in visible.split(",")]
    return [word for word in words if word.isdigit() or word.startswith("GPU-")]


def _is(name: str, row: dict[str, str]) -> bool:
    return row["index"] == name or (name.startswith("GPU-") and row["uuid"].startswith(name))


def _refuse_held(launch: dict[str, Any]) -> None:
    """Raise where others hold memory of the GPUs that it would take: minutes later it would end of that."""
    if "cpu" in launch["argv"][1:] and "--device" in launch["argv"]:
        return
    visible = launch["env"].get("CUDA_VISIBLE_DEVICES")
    held = gpus.holdings()
    if not held or visible == "":
        return
    rows = GpuQuery().rows()
    names = _names(visible) if visible else []
    wanted = [row for row in rows if not names or any(_is(name, row) for name in names)]
    numbers = {row["uuid"]: row["index"] for row in wanted}
    told = [
        f"{process.named(one.pid)}: {'?' if one.mib is None else one.mib} MiB of GPU {numbers[one.gpu]}"
        for one in held
        if one.gpu in numbers
    ]
    if told:
        what = f"GPU memory is held by {told[0]}"
        hint = "end it the way it was begun, or name other GPUs by CUDA_VISIBLE_DEVICES in server.env"
        raise AgentError("refused", what, "nvidia-smi", hint, told[1:])
