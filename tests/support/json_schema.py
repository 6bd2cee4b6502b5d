"""As much of JSON Schema as docs/schemas use. Refuses: a keyword it does not know, lest one be skipped."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_TOLD = {"$schema", "$defs", "title", "description", "default"}


def faults(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str = "") -> Iterator[str]:
    """What of ``value`` the schema does not allow, each with its place."""
    for keyword, wanted in schema.items():
        match keyword:
            case "$ref":
                yield from faults(value, root["$defs"][wanted.rpartition("/")[2]], root, at)
            case "type":
                kinds = [wanted] if isinstance(wanted, str) else wanted
                if not any(_is(value, kind) for kind in kinds):
                    yield f"{at}: {value!r} is not {' or '.join(kinds)}"
            case "enum":
                if value not in wanted:
                    yield f"{at}: {value!r} is none of {wanted}"
            case "anyOf":
                every = [list(faults(value, one, root, at)) for one in wanted]
                if all(every):
                    yield f"{at}: {value!r} fits none of {len(wanted)}"
                    yield from (fault for some in every for fault in some)
            case "properties":
                for name, inner in wanted.items():
                    if isinstance(value, dict) and name in value:
                        yield from faults(value[name], inner, root, f"{at}.{name}")
            case "additionalProperties":
                yield from _others(value, schema, root, at)
            case "required":
                if isinstance(value, dict):
                    yield from (f"{at}: lacks {name}" for name in wanted if name not in value)
            case "items":
                for index, item in enumerate(value if isinstance(value, list) else ()):
                    yield from faults(item, wanted, root, f"{at}[{index}]")
            case "minItems":
                if isinstance(value, list) and len(value) < wanted:
                    yield f"{at}: fewer than {wanted}"
            case "minimum" | "maximum":
                if _is(value, "number") and (value < wanted if keyword == "minimum" else value > wanted):
                    yield f"{at}: {value} against {keyword} {wanted}"
            case "exclusiveMinimum":
                if _is(value, "number") and value <= wanted:
                    yield f"{at}: {value} against {keyword} {wanted}"
            case "pattern":
                if isinstance(value, str) and not re.search(wanted, value):
                    yield f"{at}: {value!r} is not {wanted}"
            case "format":
                if isinstance(value, str) and not _is_moment(value):
                    yield f"{at}: {value!r} is no aware {wanted}"
            case "contentEncoding":
                if isinstance(value, str) and not _is_base64(value):
                    yield f"{at}: {value!r} is not {wanted}"
            case _ if keyword not in _TOLD:
                raise ValueError(f"keyword {keyword} is not known here")


def _others(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str) -> Iterator[str]:
    wanted = schema["additionalProperties"]
    for name, inner in value.items() if isinstance(value, dict) else ():
        if name not in schema.get("properties", {}):
            if wanted is False:
                yield f"{at}: unknown key {name}"
            elif isinstance(wanted, dict):
                yield from faults(inner, wanted, root, f"{at}.{name}")


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (not isinstance(value, bool) or kind == "boolean")


def _is_moment(text: str) -> bool:
    """``date-time``, the only format that is used: RFC 3339, with an offset."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True
