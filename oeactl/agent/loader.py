"""The head of the program that is sent: reads what follows it, and makes its modules importable from memory.

Owns: blocks, and the importer. Refuses: to run what did not come whole, and to import what it can do without
(importlib's own front, typing): each takes as long as the work of many an operation.
"""

from __future__ import annotations

import marshal
import os
import sys
import zlib
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from hashlib import sha256 as sha256
    from types import ModuleType
    from typing import Any, BinaryIO

    Part = tuple[str, bytes | None]
else:
    try:  # the interpreter's own: hashlib loads OpenSSL, for 3 ms and as many MiB
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256  # up to 3.11
        except ImportError:
            from hashlib import sha256  # built without

PACKAGE = "oeactl_agent"


def block(stream: BinaryIO) -> bytes | None:
    """Read ``<length> <sha256>\\n`` and as many compressed bytes; None where there is nothing more.

    One that was cut short ends the program: it is nothing at all.
    """
    header = stream.readline().split()
    if not header:
        return None
    if len(header) != 2:
        sys.exit("oeactl agent: no request")
    data = stream.read(int(header[0]))
    if sha256(data).hexdigest() != header[1].decode("ascii"):
        sys.exit("oeactl agent: the request was cut short")
    return zlib.decompress(data)


class Bundle:
    """An importer over module name -> source, and its code where this Python compiles as the client's does.

    A finder and a loader by shape alone. Tracebacks show the lines.
    """

    def __init__(self, parts: Mapping[str, Part], package: str = PACKAGE) -> None:
        self._parts = dict(parts)
        self._package = package

    def add(self, data: bytes) -> None:
        """Take in a block of modules: the magic number of their code, and name -> (source, code)."""
        magic, parts = marshal.loads(data)
        for name, (source, code) in parts.items():
            self._parts[name] = (source, code if magic == MAGIC_NUMBER else None)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname not in self._parts:
            return None
        loader: Any = self
        return ModuleSpec(fullname, loader, is_package=fullname == self._package)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        source, code = self._parts[module.__name__]
        if code is not None:
            exec(marshal.loads(code), module.__dict__)
        else:
            exec(compile(source, f"<{module.__name__}>", "exec", dont_inherit=True), module.__dict__)

    def get_source(self, fullname: str) -> str:
        return self._parts[fullname][0]


def main() -> None:
    """Answer what is asked on stdin: blocks of modules and of requests, in turns."""
    modules = block(sys.stdin.buffer)
    if modules is None:
        sys.exit("oeactl agent: no request")
    bundle = Bundle({})
    bundle.add(modules)
    finder: Any = bundle
    sys.meta_path.insert(0, finder)
    wire = __import__(PACKAGE + ".wire", fromlist=["serve"])
    os._exit(wire.serve(bundle.add))  # everything is closed, and nobody waits for a tidy end
