"""The light load client as bytes: its program, and the file that begins it with an order.

Owns: bundling ``oeactl.loadgen``, the bootstrap, the form of order and result. Refuses: to run it.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

_PACKAGE = "oeactl_loadgen"
#: As the agent's: nothing of the program runs before its hash matches.
BOOTSTRAP = (
    "import sys,hashlib,zlib;"
    "sys.version_info>=(3,8) or sys.exit('oeactl: Python 3.8 or newer is needed here');"
    "f=open(sys.argv[1],'rb');n,h=f.readline().split();p=f.read(int(n));f.close();"
    "hashlib.sha256(p).hexdigest()==h.decode() or sys.exit('oeactl: the program was cut short');"
    "exec(zlib.decompress(p))"
)


@cache
def _program() -> bytes:
    """The agent's importer over the sources of ``oeactl.loadgen``, and the call that begins it."""
    sources = {}
    for path in sorted(files("oeactl.loadgen").iterdir(), key=lambda path: path.name):
        name = path.name.removesuffix(".py")
        if name != path.name:
            module = _PACKAGE if name == "__init__" else f"{_PACKAGE}.{name}"
            sources[module] = path.read_text(encoding="utf-8")
    head = files("oeactl.agent").joinpath("loader.py").read_text(encoding="utf-8")
    parts = {name: (source, None) for name, source in sources.items()}
    begin = (
        f"sys.meta_path.insert(0, Bundle({parts!r}, {_PACKAGE!r}))\n"
        f"sys.exit(importlib.import_module({_PACKAGE!r} + '.program').main(sys.argv[1:]))\n"
    )
    return zlib.compress(f"{head}\nimport importlib\n{begin}".encode(), 9)


def argv(python: str) -> tuple[str, ...]:
    """The command line; ``{in}`` and ``{out}`` are for ``run_job``. Unbuffered: lines come as said."""
    return (python, "-u", "-c", BOOTSTRAP, "{in}", "{out}")


def begin(order: Mapping[str, Any]) -> bytes:
    """What the file ``{in}`` holds: ``<length> <sha256>`` and the program, then the order."""
    program = _program()
    head = b"%d %s\n" % (len(program), hashlib.sha256(program).hexdigest().encode())
    return head + program + zlib.compress(json.dumps(order).encode())


def result(data: bytes) -> Any:
    """What it wrote. Raises ValueError for anything else."""
    try:
        return json.loads(zlib.decompress(data))
    except zlib.error as problem:
        raise ValueError(f"its result is cut short: {problem}") from problem
