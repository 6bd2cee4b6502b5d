"""The agent as bytes: the program that is sent to a host, the modules a question needs there, the question.

Owns: the bootstrap, which modules go along, and that a host whose Python is the client's need not compile
them. Refuses: to send anything, and to know what an operation does.
"""

from __future__ import annotations

import hashlib
import marshal
import re
import threading
import zlib
from collections.abc import Callable, Mapping
from functools import cache, wraps
from importlib.resources import files
from importlib.util import MAGIC_NUMBER, find_spec
from types import CodeType
from typing import Any, TypeVar, cast

import msgspec

from oeactl.agent.loader import PACKAGE

F = TypeVar("F", bound=Callable[..., Any])

# One line, no backslash and no exclamation mark, so that every login shell passes it on unharmed. Nothing
# of the program runs before its hash matches: cut at a line's end, half a program would run happily.
# The interpreter's own sha256 (_sha256 up to 3.11, _sha2 since) is there sooner than hashlib's, of OpenSSL.
BOOTSTRAP = (
    "import sys,zlib;"
    "sys.version_info>=(3,8) or sys.exit('oeactl: Python 3.8 or newer is needed here');"
    "exec(chr(10).join(('try:',' from _sha2 import sha256','except ImportError:',' try:',"
    "'  from _sha256 import sha256',' except ImportError:','  from hashlib import sha256')));"
    "i=sys.stdin.buffer;n,h=i.readline().split();p=i.read(int(n));"
    "sha256(p).hexdigest()==h.decode() or sys.exit('oeactl: the program was cut short');"
    "exec(zlib.decompress(p))"
)

_OPERATION = re.compile(r'^@operation\("([^"]+)"\)$', re.MULTILINE)
_IMPORT = re.compile(r"^ *from \.(\w*) import ([\w, ]+|\()", re.MULTILINE)
_making = threading.RLock()


def _once(make: F) -> F:
    """Keep what it makes, and of threads that want the same let one make it."""
    kept = cache(make)

    @wraps(make)
    def get(*arguments: Any) -> Any:
        with _making:
            return kept(*arguments)

    return cast("F", get)


@_once
def modules() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Module -> source, and operation -> the module that registers it."""
    sources, operations = {}, {}
    for path in sorted(files("oeactl.agent").iterdir(), key=lambda path: path.name):
        name = path.name.removesuffix(".py")
        if name == path.name:
            continue
        source = path.read_text(encoding="utf-8")
        sources[PACKAGE if name == "__init__" else f"{PACKAGE}.{name}"] = source
        operations.update(dict.fromkeys(_OPERATION.findall(source), name))
    return sources, operations


@_once
def needs(op: str) -> frozenset[str]:
    """The modules that an operation may come to import, with those that every one needs."""
    sources, operations = modules()
    found = {PACKAGE}
    todo = ["wire", operations.get(op, "wire")]
    while todo:
        name = f"{PACKAGE}.{todo.pop()}"
        if name in sources and name not in found:
            found.add(name)
            for module, names in _IMPORT.findall(sources[name]):
                todo += [module] if module else names.replace(" ", "").split(",")
    return frozenset(found)


@_once
def program() -> bytes:
    """What goes first on stdin: the importer, and the call that begins it."""
    return _block(f"{modules()[0][PACKAGE + '.loader']}\n\nmain()\n".encode())


def brought(op: str, there: frozenset[str] = frozenset()) -> bytes:
    """What goes before a request: the modules it needs that are not ``there`` yet, as source and as code."""
    return _brought(needs(op) - there)


@_once
def _brought(names: frozenset[str]) -> bytes:
    sources = modules()[0]
    parts = {name: (sources[name], marshal.dumps(_code(name))) for name in sorted(names)}
    return _block(marshal.dumps((MAGIC_NUMBER, parts), 4))


def _code(name: str) -> CodeType:
    """A module's code as this interpreter keeps it, under the name that a traceback on a host gives it."""
    spec = find_spec(name.replace(PACKAGE, "oeactl.agent", 1))
    assert spec is not None and spec.loader is not None
    code = spec.loader.get_code(spec.name)  # type: ignore[attr-defined]  # a loader of files, or of a zip
    return _named(code, f"<{name}>")


def _named(code: CodeType, name: str) -> CodeType:
    inner = (_named(one, name) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=name, co_consts=tuple(inner))


def request(op: str, sentinel: str, fields: Mapping[str, Any]) -> bytes:
    """What follows, once or in turns. Structs become objects, bytes become base64."""
    told = {"op": op, "module": modules()[1].get(op), "sentinel": sentinel}
    return _block(msgspec.json.encode({**told, **fields}))


def message(op: str, sentinel: str, fields: Mapping[str, Any]) -> bytes:
    """All of stdin for one request."""
    return program() + brought(op) + request(op, sentinel, fields)


def _block(data: bytes) -> bytes:
    data = zlib.compress(data)
    return b"%d %s\n%s" % (len(data), hashlib.sha256(data).hexdigest().encode(), data)
