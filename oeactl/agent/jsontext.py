"""JSON by the interpreter's own scanner and encoder, without the json module around them.

Importing json, and re for it, takes as long as a change of two files takes all in all. Owns: that shortcut.
Refuses: to need it; an interpreter without such parts takes the long way.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Strict:
    """What json.JSONDecoder() tells its scanner."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float  # NaN, Infinity, -Infinity


def _refuse(value: object) -> None:
    raise TypeError(f"not for JSON: {type(value).__name__}")


_scan: Any = None
_encode: Any = None
try:
    import _json

    _encode = _json.make_encoder(
        None, _refuse, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True
    )
    _encode({"": [0.5]}, 0)
    like_a_decoder: Any = _Strict
    _scan = _json.make_scanner(like_a_decoder)
except (ImportError, AttributeError, TypeError):
    _scan = None


def loads(data: bytes) -> Any:
    """The value of a JSON text. Raises ValueError."""
    text = data.decode("utf-8").strip(" \t\n\r")
    if _scan is None:
        import json

        return json.loads(text)
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("no JSON value") from None
    if end != len(text):
        raise ValueError("more than one JSON value")
    return value


def dumps(value: Any) -> bytes:
    """JSON on one line. Raises TypeError."""
    if _scan is None:
        import json

        return json.dumps(value).encode("ascii")
    return "".join(_encode(value, 0)).encode("ascii")


def dumps_lines(value: dict[str, Any]) -> bytes:
    """JSON of an object, a line for each of its keys: for people."""
    lines = [b" %s: %s" % (dumps(key), dumps(one)) for key, one in value.items()]
    return b"{\n" + b",\n".join(lines) + b"\n}\n"
