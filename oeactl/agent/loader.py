"""The head of the program that is sent: makes its modules importable from memory.

Owns: nothing but the importer; ``bundle()`` puts the sources and the table of operations behind it.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGE = "oeactl_agent"


class Bundle(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An importer over ``module name -> source``; tracebacks show the lines."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname not in self._sources:
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=fullname == PACKAGE)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        source = self._sources[module.__name__]
        exec(compile(source, f"<{module.__name__}>", "exec", dont_inherit=True), module.__dict__)

    def get_source(self, fullname: str) -> str:
        return self._sources[fullname]


def main(sources: Mapping[str, str], operations: Mapping[str, str]) -> None:
    sys.meta_path.insert(0, Bundle(sources))
    wire = importlib.import_module(PACKAGE + ".wire")
    sys.exit(wire.serve(operations))
