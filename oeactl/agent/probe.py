"""The import probe: do the changed modules still import, where the server would import them?

Owns: children with the server's interpreter and environment and no GPU: one with the changed files, one that
reads their originals, for what fails or is swallowed there as well. Refuses: to hold that against a change.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import Any

from .engine import server_environment
from .wire import AgentError

TAIL_LINES = 20
SWALLOWED = "ignore import error"
FAILED = "<oeactl> does not import: "

# The modules of the change, then those that gather others (a registry of models), where the release has any.
PROGRAM = """
import importlib, importlib.util, json, sys, traceback
changed, gatherers = json.loads(sys.argv[1])
def there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False
for name in changed + [name for name in gatherers if there(name)]:
    try:
        importlib.import_module(name)
    except Exception as error:
        traceback.print_exc()
        print("<oeactl> does not import: " + name, file=sys.stderr, flush=True)
"""

# Before that: these files read as their originals (None: there was none), and no cached bytecode is used.
ORIGINALS = """
import importlib.machinery, importlib.util, json, sys
_kept = json.loads(sys.argv.pop(2))
_data = importlib.machinery.SourceFileLoader.get_data
def _original(self, path):
    if path in _kept and _kept[path] is None:
        raise OSError(path)
    if path in _kept:
        return _data(self, _kept[path])
    if path.endswith(".pyc") and importlib.util.source_from_cache(path) in _kept:
        raise OSError(path)
    return _data(self, path)
importlib.machinery.SourceFileLoader.get_data = _original
"""

# Or before it: these modules read as given, whatever lies where they belong. argv 2: name -> [path, file].
GIVEN = """
import importlib.machinery, importlib.util, json, sys
_given = json.loads(sys.argv.pop(2))
class _Loader(importlib.machinery.SourceFileLoader):
    def get_data(self, path):
        if path.endswith(".pyc"):
            raise OSError(path)
        return super().get_data(_given[self.name][1])
class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _given:
            return None
        where = _given[name][0]
        return importlib.util.spec_from_file_location(name, where, loader=_Loader(name, where))
sys.meta_path.insert(0, _Finder)
"""

_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b")


def run(probe: dict[str, Any], originals: dict[str, str | None]) -> None:
    """Raise AgentError when a module fails to import, or when an import error is newly swallowed.

    originals: real path -> where the bytes lie that it held before, None where there was no file.
    """
    old = [name for name in probe["modules"] if not _is_new(name, originals)]
    names, old_names = (json.dumps([group, list(probe["gatherers"])]) for group in (probe["modules"], old))
    changed = _begin(probe, PROGRAM, [names])
    before = _begin(probe, ORIGINALS + PROGRAM, [old_names, json.dumps(originals)])
    _compare(changed, before, probe["timeout_s"])


def run_given(probe: dict[str, Any], contents: dict[str, bytes], modules: dict[str, str]) -> None:
    """As ``run``, where nothing is changed yet: contents (real path -> bytes) are what would be there."""
    with tempfile.TemporaryDirectory() as folder:
        given = {}
        for number, (path, data) in enumerate(contents.items()):
            name = _dotted(modules[path])
            if name is not None:
                given[name] = [path, os.path.join(folder, str(number))]
                with open(given[name][1], "wb") as file:
                    file.write(data)
        old = [name for name in probe["modules"] if name not in given or os.path.exists(given[name][0])]
        names, old_names = (
            json.dumps([group, list(probe["gatherers"])]) for group in (probe["modules"], old)
        )
        changed = _begin(probe, GIVEN + PROGRAM, [names, json.dumps(given)])
        before = _begin(probe, PROGRAM, [old_names])
        _compare(changed, before, probe["timeout_s"])


def _dotted(module: str) -> str | None:
    """The module's name: a file that is taken as a whole goes by its path. None for one that is no module."""
    if "/" not in module:
        return module
    if not module.endswith(".py"):
        return None
    return module[: -len(".py")].replace("/", ".").replace(".__init__", "")


def _compare(changed: subprocess.Popen[bytes], before: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Raise AgentError for what goes wrong in the first child and not in the second; end both."""
    deadline = time.monotonic() + timeout_s
    try:
        code, lines = _finish(changed, deadline)
        if code is None:
            what = f"the import probe did not end within {timeout_s:g} s"
            raise AgentError("refused", what, details=lines[-TAIL_LINES:])
        said = _complaints(code, lines)
        if said:
            known = set(_complaints(*_finish(before, deadline + timeout_s)))
            said = [complaint for complaint in said if complaint not in known]
    finally:
        _end(changed)
        _end(before)
    if not said:
        return
    if said[0].startswith(SWALLOWED):
        raise AgentError("refused", "the changed engine swallows an import error", details=said[-TAIL_LINES:])
    what = f"the changed engine does not import: {said[0]}"
    raise AgentError("refused", what, details=lines[-TAIL_LINES:])


def _is_new(module: str, originals: dict[str, str | None]) -> bool:
    """Whether the module's file was not there before: then nothing excuses that it does not import."""
    ends = tuple(f"/{module.replace('.', '/')}{end}" for end in (".py", "/__init__.py"))
    return any(kept is None and path.endswith(ends) for path, kept in originals.items())


def _complaints(code: int | None, lines: list[str]) -> list[str]:
    """What went wrong in a child, failures first, as far as two children can be compared by it."""
    failed = [line[len(FAILED) :] for line in lines if line.startswith(FAILED)]
    if code != 0:
        failed.append(f"exit code {code}")
    swallowed = [line[line.lower().find(SWALLOWED) :] for line in lines if SWALLOWED in line.lower()]
    return failed + [SWALLOWED + _ADDRESS.sub("0x", line[len(SWALLOWED) :]) for line in swallowed]


def _begin(probe: dict[str, Any], program: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    env = {
        **server_environment(probe["env"]),
        "CUDA_VISIBLE_DEVICES": "",
        "OEACTL_PROOF": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=probe["cwd"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _finish(child: subprocess.Popen[bytes], deadline: float) -> tuple[int | None, list[str]]:
    """Exit code (None: too slow) and the lines it printed."""
    try:
        output, _ = child.communicate(timeout=max(0.0, deadline - time.monotonic()))
        code: int | None = child.returncode
    except subprocess.TimeoutExpired:
        _kill(child)
        output, _ = child.communicate()
        code = None
    return code, output.decode("utf-8", "replace").splitlines()


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End it with all that it began; harmless once it is over."""
    _kill(child)
    child.wait()
    if child.stdout is not None:
        child.stdout.close()
