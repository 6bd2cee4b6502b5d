"""The head of the program that is sent: makes its modules importable from memory.

Owns: nothing but the importer; ``bundle()`` puts the sources and the table of operations behind it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

PACKAGE = "oeactl_agent"


class Bundle:
    """An importer over ``module name -> source``; tracebacks show the lines.

    A finder and a loader by shape alone: importlib.abc takes as long to import as an interpreter to start.
    """

    def __init__(self, sources: Mapping[str, str], package: str = PACKAGE) -> None:
        self._sources = sources
        self._package = package

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname not in self._sources:
            return None
        loader: Any = self
        return ModuleSpec(fullname, loader, is_package=fullname == self._package)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        source = self._sources[module.__name__]
        exec(compile(source, f"<{module.__name__}>", "exec", dont_inherit=True), module.__dict__)

    def get_source(self, fullname: str) -> str:
        return self._sources[fullname]


def main(sources: Mapping[str, str], operations: Mapping[str, str]) -> None:
    finder: Any = Bundle(sources)
    sys.meta_path.insert(0, finder)
    wire = import_module(PACKAGE + ".wire")
    sys.exit(wire.serve(operations))
