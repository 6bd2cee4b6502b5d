"""The engine's copy on this host: where it lies, which release it is, and whether anyone edits it.

Owns: finding the package as the server's interpreter would, without importing it. Refuses: to import it.
"""

from __future__ import annotations

import os
import sys

from . import disk, jsontext
from .environment import base_environment
from .wire import AgentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FIND_S = 60.0
GIT_S = 30.0

# Runs under the server's interpreter, in its environment and folder. A full dotted name would import torch.
# It asks the finders itself and writes its answer between NULs: importlib.util and json take longer to import
# than all the rest.
FINDER = """
import sys
name, package = sys.argv[1], ""
for finder in sys.meta_path:
    spec = getattr(finder, "find_spec", lambda *_: None)(name, None)
    if spec is not None:
        package = list(spec.submodule_search_locations or [""])[0]
        break
answer = ["<oeactl>", "%d.%d.%d" % sys.version_info[:3], package, *filter(None, sys.path), "</oeactl>", ""]
sys.stdout.buffer.write("\\0".join(answer).encode("utf-8", "surrogateescape"))
"""


def server_environment(env: dict[str, str]) -> dict[str, str]:
    """What the server starts with: hosts.yaml's variables over the few of this host that pass."""
    return {**base_environment(), **env}


class Package:
    """A package directory and what lies around it. search: the folders its interpreter looks in."""

    def __init__(
        self, name: str, directory: str, python_version: str, search: Callable[[], list[str]]
    ) -> None:
        self.name = name
        self.directory = os.path.realpath(directory)
        self.python_version = python_version
        self._search = search
        self.info = self._dist_info(os.path.dirname(self.directory))

    def file_of(self, module: str) -> str:
        """Where ``module`` lies, or would lie, inside the package.

        A name with slashes is a file's path from the folder that holds the package.
        """
        if "/" in module:
            path = os.path.join(os.path.dirname(self.directory), module)
            if os.path.normpath(path) != path or not path.startswith(self.directory + "/"):
                raise AgentError("usage", f"it is no plain path below {self.name}/", module)
            return path
        inner = module.split(".")[1:]
        path = os.path.join(self.directory, *inner)
        package = os.path.join(path, "__init__.py")
        return package if not inner or os.path.lexists(package) else path + ".py"

    def facts(self) -> dict[str, Any]:
        """The wire's EngineFacts."""
        link = None if self.info else self._editable_info()
        commit, dirty = self._git()
        return {
            "package": self.name,
            "root": self.directory,
            "version": _info_version(self.info or link) or self._written_version(),
            "python_version": self.python_version,
            "editable": link is not None or commit is not None,
            "git_commit": commit,
            "git_dirty_sha256": dirty,
        }

    def recorded(self, paths: list[str]) -> dict[str, str]:
        """Path -> sha256 of the unmodified release, from the wheel's RECORD; empty without one."""
        if self.info is None:
            return {}
        import base64  # only here: the others start sooner without them
        import csv

        parent = os.path.dirname(self.directory)
        wanted = {os.path.relpath(path, parent): path for path in paths}
        found = {}
        try:
            with open(os.path.join(self.info, "RECORD"), newline="", encoding="utf-8") as file:
                for row in csv.reader(file):
                    if len(row) >= 2 and row[0] in wanted and row[1].startswith("sha256="):
                        text = row[1][len("sha256=") :]
                        digest = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
                        found[wanted[row[0]]] = digest.hex()
        except OSError:
            return {}
        return found

    def _dist_info(self, folder: str) -> str | None:
        """The newest ``name-*.dist-info`` in ``folder``."""
        try:
            names = os.listdir(folder)
        except OSError:
            return None
        start, end = self.name + "-", ".dist-info"
        named = [name for name in names if name.startswith(start) and name.endswith(end)]
        found = [path for path in (os.path.join(folder, name) for name in named) if os.path.isdir(path)]
        return max(found, key=os.path.getmtime) if found else None

    def _editable_info(self) -> str | None:
        """The dist-info of an editable install whose source tree holds this package."""
        for folder in self._search():
            info = self._dist_info(folder)
            if info is None:
                continue
            try:
                url = jsontext.loads(disk.read(os.path.join(info, "direct_url.json")))["url"]
            except (OSError, ValueError, KeyError):
                continue
            tree = os.path.realpath(url[len("file://") :]) if url.startswith("file://") else None
            if tree and (self.directory + "/").startswith(tree + "/"):
                return info
        return None

    def _written_version(self) -> str | None:
        for name in ("_version.py", "version.py"):
            try:
                text = disk.read(os.path.join(self.directory, name)).decode("utf-8", "replace")
            except OSError:
                continue
            for line in text.splitlines():
                if line.partition("=")[0].partition(":")[0].rstrip() in ("__version__", "version"):
                    value = line.partition("#")[0].rpartition("=")[2].strip()
                    if value[:1] in ("'", '"') and value.count(value[0]) > 1:
                        return value[1:].partition(value[0])[0]
        return None

    def _git(self) -> tuple[str | None, str | None]:
        """Commit, and the hash of what differs from it; None where git does not track this package."""
        if not _lies_in(self.directory, (".git",)):  # asking git takes longer than looking
            return None, None
        if _git(self.directory, "ls-files", "--error-unmatch", "__init__.py") is None:
            return None, None
        commit = _git(self.directory, "rev-parse", "HEAD")
        diff = _git(self.directory, "diff", "--no-ext-diff", "--no-textconv", "--binary", "HEAD", "--", ".")
        dirty = disk.sha256(diff) if diff else None
        return (commit.decode().strip() if commit else None), dirty


def _info_version(info: str | None) -> str | None:
    if info is None:
        return None
    try:
        with open(os.path.join(info, "METADATA"), encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("Version:"):
                    return line[len("Version:") :].strip()
    except OSError:
        pass
    return None


def _lies_in(folder: str, names: tuple[str, ...]) -> bool:
    """Whether one of these files is in ``folder`` or in one above it."""
    while not any(os.path.lexists(os.path.join(folder, name)) for name in names):
        if folder == os.path.dirname(folder):
            return False
        folder = os.path.dirname(folder)
    return True


def _git(folder: str, *words: str) -> bytes | None:
    """One read-only git command; None when it fails, or there is no git. Hooks and locks stay out of it."""
    import subprocess  # only where there is a checkout

    command = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", folder, *words]
    env = {**base_environment(), "GIT_OPTIONAL_LOCKS": "0", "GIT_CEILING_DIRECTORIES": "", "LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, timeout=GIT_S, env=env, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def find(request: dict[str, Any]) -> Package:
    """The package as the server's interpreter, environment and folder give it, or the one under ``root``."""
    name, root = request["package"], request["root"]
    if root is not None and _is_ours(request):
        return _found(request, _under_root(name, os.path.expanduser(root)))
    found = _ask_interpreter(request)
    if root is not None:
        directory = _under_root(name, os.path.expanduser(root))
    elif found["package"] is None:
        raise AgentError(
            "usage",
            f"{request['python']} finds no package {name}",
            None,
            f"set engine.python to the server's interpreter, or engine.root to the folder that holds {name}/",
            ["it was looked for in", *found["path"]],
        )
    else:
        directory = found["package"]
    package = Package(name, directory, found["python"], lambda: found["path"])
    _verify(package, request["modules"])
    return package


def _is_ours(request: dict[str, Any]) -> bool:
    """Whether the server's interpreter is this very one, and nothing in its environment makes it another."""
    env = server_environment(request["env"])
    return request["python"] == sys.executable and not any(name.startswith(("PYTHON", "LD_")) for name in env)


def _found(request: dict[str, Any], directory: str) -> Package:
    """A package whose place was told, for this very interpreter: it need not be asked what we know.

    Only who installed it editable would be news, and that takes a project around it.
    """
    _folder(request)
    project = _lies_in(os.path.realpath(directory), ("pyproject.toml", "setup.py", "setup.cfg"))
    package = Package(
        request["package"],
        directory,
        ".".join(map(str, sys.version_info[:3])),
        lambda: _ask_interpreter(request)["path"] if project else [],
    )
    _verify(package, request["modules"])
    return package


def _folder(request: dict[str, Any]) -> str:
    """Where the server is started: without a folder in /, never in the login's home."""
    cwd: str = request["cwd"] or "/"
    if not os.path.isdir(cwd):
        raise AgentError("usage", "there is no such folder to start the server in", cwd, "set server.cwd")
    return cwd


def _ask_interpreter(request: dict[str, Any]) -> dict[str, Any]:
    import subprocess  # only where another interpreter is to be asked

    cwd = _folder(request)
    command = [request["python"], "-c", FINDER, request["package"]]
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=server_environment(request["env"]),
            capture_output=True,
            timeout=FIND_S,
            check=False,
        )
    except OSError as error:
        raise AgentError(
            "usage", f"it does not start: {error.strerror}", request["python"], "set engine.python"
        ) from None
    except subprocess.TimeoutExpired:
        raise AgentError("refused", f"no answer within {FIND_S:g} s", request["python"]) from None
    words = done.stdout.decode("utf-8", "surrogateescape").partition("<oeactl>\0")[2].split("\0")
    if "</oeactl>" not in words:
        lines = done.stderr.decode("utf-8", "replace").splitlines()[-10:]
        raise AgentError("refused", "it fails to start", request["python"], "try it by hand", lines)
    python, package, *path = words[: words.index("</oeactl>")]
    return {"python": python, "package": package or None, "path": path}


def _under_root(name: str, root: str) -> str:
    """``root`` is the folder that holds the package, or the package itself."""
    for candidate in (os.path.join(root, name), os.path.join(root, "python", name), root):
        if os.path.basename(candidate) == name and os.path.isfile(os.path.join(candidate, "__init__.py")):
            return candidate
    raise AgentError(
        "usage",
        f"this is not {name}",
        root,
        f"engine.root (or --root) is the folder that holds {name}/",
        [f"looked for {name}/__init__.py and python/{name}/__init__.py there"],
    )


def _verify(package: Package, modules: list[str]) -> None:
    """A folder of the right name is not yet the engine."""
    looked_for = [package.file_of(module) for module in modules if "/" not in module]
    if not looked_for or any(os.path.lexists(path) for path in looked_for):
        return
    raise AgentError(
        "usage",
        f"this is not {package.name} as a server runs it: none of the modules to change is there",
        package.directory,
        "set engine.root, or engine.python to the interpreter that runs the server",
        ["looked for", *looked_for],
    )
