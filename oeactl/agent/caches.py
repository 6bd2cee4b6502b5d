"""Compilation caches of an engine: they outlive restarts, so a start that fills them is slower than the next.

Owns: where they lie for a server's environment, how much is in them, emptying them. Refuses: to empty
a folder that does not look like a cache, whatever a variable says.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import disk, engine
from .wire import AgentError, operation

if TYPE_CHECKING:
    from .wire import Client, Request

#: name, the variable that moves it, where it lies below that, and where it lies without.
CACHES = (
    ("triton", "TRITON_CACHE_DIR", "", ("{sglang}/triton", "{home}/.triton/cache")),
    ("inductor", "TORCHINDUCTOR_CACHE_DIR", "", ("{sglang}/inductor", "{tmp}/torchinductor_{user}")),
    (
        "flashinfer",
        "FLASHINFER_WORKSPACE_BASE",
        ".cache/flashinfer",
        ("{sglang}/.cache/flashinfer", "{home}/.cache/flashinfer"),
    ),
    (
        "deep_gemm",
        "DG_JIT_CACHE_DIR",
        "",
        ("{sglang}/deep_gemm", "{home}/.cache/deep_gemm", "{home}/.deep_gemm"),
    ),
    ("sglang jit", "SGLANG_JIT_CACHE_DIR", "", ("{sglang}/jit",)),
    ("cute", "SGLANG_CUTE_AOT_CACHE_DIR", "", ("{sglang}/cute_aot",)),
    ("cuda", "CUDA_CACHE_PATH", "", ("{sglang}/nv", "{home}/.nv/ComputeCache")),
    ("torch extensions", "TORCH_EXTENSIONS_DIR", "", ("{home}/.cache/torch_extensions",)),
    ("tvm ffi", "TVM_FFI_CACHE_DIR", "", ("{home}/.cache/tvm-ffi",)),
)
#: A folder that is emptied has one of these in its own name or its parent's.
_WORDS = (
    "cache",
    "triton",
    "inductor",
    "flashinfer",
    "deep_gemm",
    "jit",
    "cute_aot",
    "sglang",
    "torch_extensions",
)


def folders(env: dict[str, str]) -> list[tuple[str, str]]:
    """Name and real path of every cache that is there."""
    home = env.get("HOME") or os.path.expanduser("~")
    places = {
        "home": home,
        "sglang": os.path.expanduser(env.get("SGLANG_CACHE_DIR") or os.path.join(home, ".cache", "sglang")),
        "tmp": env.get("TMPDIR") or tempfile.gettempdir(),
        "user": disk.user_name(os.geteuid()),
    }
    found: dict[str, str] = {}
    for name, variable, below, usual in CACHES:
        given = env.get(variable)
        paths = [os.path.join(given, below)] if given else [path.format(**places) for path in usual]
        for path in paths:
            real = os.path.realpath(path)
            if os.path.isdir(real):
                found.setdefault(real, name)
    return [(name, path) for path, name in found.items()]


@operation("caches.look")
def look(request: Request, client: Client) -> list[dict[str, Any]]:
    """The wire's CacheState of each cache that is there. env: the server's, over the host's own."""
    env = engine.server_environment(request["env"])
    return [_state(name, path) for name, path in folders(env)]


@operation("caches.wipe")
def wipe(request: Request, client: Client) -> list[dict[str, Any]]:
    """Empty each of them, the folders themselves stay; their states afterwards."""
    found = folders(engine.server_environment(request["env"]))
    for _, path in found:
        _check(path)
    for _, path in found:
        _empty(path)
    return [_state(name, path) for name, path in found]


def _state(name: str, folder: str) -> dict[str, Any]:
    files = size = 0
    newest = None
    for root, _, names in os.walk(folder):
        for entry in names:
            with suppress(OSError):  # one that is gone again
                facts = os.lstat(os.path.join(root, entry))
                files += 1
                size += facts.st_size
                newest = max(newest or 0.0, facts.st_mtime)
    return {"name": name, "path": folder, "files": files, "bytes": size, "newest_at": newest}


def _check(folder: str) -> None:
    """Raise AgentError unless it is a folder that may be emptied."""
    last = folder.rstrip("/").split("/")[-2:]
    home = os.path.realpath(os.path.expanduser("~"))
    above = (home + "/").startswith(folder.rstrip("/") + "/")
    if above or folder.count("/") < 2 or not any(word in part for part in last for word in _WORDS):
        raise AgentError(
            "refused",
            "it does not look like a compilation cache, so it is not emptied",
            folder,
            "--caches keep",
        )


def _empty(folder: str) -> None:
    try:
        with os.scandir(folder) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)
    except OSError as error:
        raise AgentError(
            "refused", f"the cache cannot be emptied: {error.strerror}", error.filename or folder
        ) from error
