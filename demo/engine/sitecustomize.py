"""Let SGLang import and serve where there is no GPU: Python runs this at every start of the engine's venv.

Two kinds of help, neither of which touches the routing or anything that computes:
- empty stand-ins for packages that SGLang imports at module level and never calls on a CPU, named in
  ENGINE_STUBS (default: torchvision,sgl_kernel); a package that is really there wins;
- a few names that some release of SGLang expects of torch or triton, put there right after their import.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import types

STUBS = frozenset(filter(None, os.environ.get("ENGINE_STUBS", "torchvision,sgl_kernel").split(",")))


class _Lenient(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent

    def __call__(cls, *args, **kwargs):
        return super().__call__()


class Absent(metaclass=_Lenient):
    """Any class, function or constant of a package that is not there: it may be named, not used."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent

    def __call__(self, *args, **kwargs):
        raise RuntimeError("this package is only a stand-in here")


class _Stub(types.ModuleType):
    __version__ = "0.0.0"
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent


class _Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in STUBS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Stub(spec.name)

    def exec_module(self, module):
        pass


class _Afterwards(importlib.abc.MetaPathFinder):
    """Import a module as ever, then hand it to ``amend``."""

    def __init__(self, name, amend):
        self.name, self.amend, self.busy = name, amend, False

    def find_spec(self, name, path=None, target=None):
        if name != self.name or self.busy:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                self.amend(module)

            spec.loader.exec_module = exec_module
        return spec


class _Runtime:
    """The CUDA runtime, as far as the routed-experts capturer asks it to pin host memory."""

    cudaError = types.SimpleNamespace(success=0)

    @staticmethod
    def cudaHostRegister(*args):
        return 0

    @staticmethod
    def cudaHostUnregister(*args):
        return 0


def amend_torch(torch):
    if not hasattr(torch._C._cpu, "_is_amx_tile_supported"):  # SGLang 0.4.9 to 0.5.1
        torch._C._cpu._is_amx_tile_supported = lambda: False
    if torch.cuda.is_available():
        return
    if not hasattr(torch.cpu, "is_current_stream_capturing"):  # the expert distribution recorder
        torch.cpu.is_current_stream_capturing = lambda: False
    torch.cuda.cudart = _Runtime
    for name in ("zeros", "tensor"):  # SGLang up to 0.5.12 wants pinned memory
        setattr(torch, name, unpinned(getattr(torch, name)))


def unpinned(make):
    def made(*args, pin_memory=False, **kwargs):
        return make(*args, **kwargs)

    return made


def amend_triton_cache(module):
    for name in ("default_cache_dir", "default_dump_dir", "default_override_dir"):  # SGLang up to 0.4.8
        if not hasattr(module, name):
            setattr(module, name, lambda: f"{tempfile.gettempdir()}/triton-cache")


sys.meta_path.append(_Stubs())
sys.meta_path.insert(0, _Afterwards("torch", amend_torch))
sys.meta_path.insert(0, _Afterwards("triton.runtime.cache", amend_triton_cache))
