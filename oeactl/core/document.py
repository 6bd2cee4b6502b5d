"""YAML text into typed values, with every complaint at its file and line.

Owns: reading a document into a tree that remembers lines, and building msgspec structs from such a
tree. Refuses: files (the text comes in), defaults beyond those of the structs, YAML's own object tags.
A struct may carry ``Meta(extra={"reads": "duration"})`` on a float field: ``30m``, ``90s``, ``2h`` or
plain seconds.
"""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec

from oeactl.core.host import Value
from oeactl.errors import UsageError

T = TypeVar("T")

Seconds = Annotated[
    float,
    msgspec.Meta(
        extra={"reads": "duration"},
        extra_json_schema={"pattern": r"^[0-9.]+\s*(ms|s|m|h|d)?$"},
    ),
]
"""A duration; written ``90s``, ``30m``, ``2h`` or a plain number of seconds."""

_SCALARS = {"null", "bool", "int", "float", "str", "timestamp", "value"}
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_NAMES: dict[Any, str] = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}


class Node(Value, frozen=True, kw_only=True):
    """A place in a document. value: a scalar, ``{key: Node}`` or ``[Node]``. where: ``file:line``.

    A member of a mapping stands on the line of its key.
    """

    value: Any
    where: str


def parse(text: str | bytes, name: str) -> Node:
    """Read one YAML document; ``name`` is what messages call the file. An empty one is an empty mapping.

    Raises UsageError: not YAML, a key given twice, a merge key or tag, an alias that contains itself.
    """
    import yaml

    try:
        root = _composed(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UsageError(
            f"not valid YAML: {error.problem or error.context}",
            where=f"{name}:{mark.line + 1}" if mark else name,
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"not valid YAML: {str(error).splitlines()[0]}", where=name) from error
    if root is None:
        return Node(value={}, where=f"{name}:1")
    return _tree(root, name, root.start_mark.line + 1, ())


def _composed(text: str | bytes) -> Any:
    """The document's nodes, by libyaml; what that refuses, by Python's parser, whose complaints say more."""
    import yaml

    with suppress(AttributeError, yaml.YAMLError):
        return yaml.compose(text, Loader=yaml.CSafeLoader)
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _tree(node: Any, name: str, line: int, above: tuple[int, ...]) -> Node:
    where = f"{name}:{line}"
    if id(node) in above:
        raise UsageError("an alias contains itself", where=where)
    tag = node.tag.removeprefix("tag:yaml.org,2002:")
    above = (*above, id(node))
    if tag == "map":
        members: dict[str, Node] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key_line = key_node.start_mark.line + 1
            key = _key(key_node, f"{name}:{key_line}")
            if key in members:
                raise UsageError(
                    f"key '{key}' is given twice, first on line {lines[key]}", where=f"{name}:{key_line}"
                )
            lines[key] = key_line
            members[key] = _tree(value_node, name, key_line, above)
        return Node(value=members, where=where)
    if tag == "seq":
        return Node(
            value=[_tree(item, name, item.start_mark.line + 1, above) for item in node.value], where=where
        )
    if tag not in _SCALARS:
        raise UsageError(f"YAML tag '{node.tag}' is not read here", where=where)
    return Node(value=_scalar(node, tag), where=where)


def _key(node: Any, where: str) -> str:
    if not isinstance(node.value, str):
        raise UsageError("a key must be a plain word", where=where)
    if node.tag.endswith(":merge"):
        raise UsageError("merge keys ('<<') are not read here", where=where, hint="use 'defaults' instead")
    return node.value


def _scalar(node: Any, tag: str) -> Any:
    import yaml

    if tag in ("str", "timestamp", "value"):
        return node.value
    loader = yaml.SafeLoader("")
    try:
        return getattr(loader, f"construct_yaml_{tag}")(node)
    finally:
        loader.dispose()


def merged(base: Node, over: Node) -> Node:
    """Lay ``over`` on ``base``: mappings key by key, everything else replaced; an explicit null replaces."""
    if not (isinstance(base.value, dict) and isinstance(over.value, dict)):
        return over
    members = dict(base.value)
    for key, node in over.value.items():
        members[key] = merged(members[key], node) if key in members else node
    return Node(value=members, where=over.where)


def member(node: Node, *keys: str) -> Node | None:
    """The node under ``keys``, or None."""
    for key in keys:
        if not isinstance(node.value, dict) or key not in node.value:
            return None
        node = node.value[key]
    return node


def where(node: Node, *keys: str) -> str:
    """``file:line`` of the node under ``keys``, or of the nearest one above it that is there."""
    for depth in range(len(keys), 0, -1):
        found = member(node, *keys[:depth])
        if found is not None:
            return found.where
    return node.where


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The one of ``words`` that was probably meant (the only one that begins so, or one like it), or None."""
    known = {known.lower().replace("-", "_"): known for known in words}
    word = word.lower().replace("-", "_")
    begun = [known for known in known if word and known.startswith(word)]
    found = begun if len(begun) == 1 else difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return known[found[0]] if found else None


def build(node: Node, kind: type[T], at: str = "") -> T:
    """Make a ``kind`` (struct, scalar, tuple, dict, optional, literal) of the node; messages call it ``at``.

    Raises UsageError at the line of the first wrong, unknown or missing key.
    """
    return cast(T, _build(node, kind, at))


def _build(node: Node, kind: Any, at: str) -> Any:
    if get_origin(kind) is Annotated:
        base, *meta = get_args(kind)
        if any(isinstance(m, msgspec.Meta) and (m.extra or {}).get("reads") == "duration" for m in meta):
            return _duration(node, at)
        return _build(node, base, at) if _is_struct(base) else _leaf(node, kind, at)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        options = [option for option in get_args(kind) if option is not type(None)]
        if node.value is None and len(options) < len(get_args(kind)):
            return None
        return _build(node, options[0], at) if len(options) == 1 else _leaf(node, kind, at)
    if _is_struct(kind):
        return _struct(node, kind, at)
    if origin is tuple and isinstance(node.value, list):
        item = get_args(kind)[0]
        return tuple(_build(member, item, f"{at}[{i}]") for i, member in enumerate(node.value))
    if origin in (dict, Mapping) and isinstance(node.value, dict):
        item = get_args(kind)[1]
        return {key: _build(member, item, _path(at, key)) for key, member in node.value.items()}
    return _leaf(node, kind, at)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


@cache
def _fields(kind: Any) -> dict[str, Any]:
    """Key -> field; once for each kind, as looking its types up takes longer than reading a host's entry."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _struct(node: Node, kind: Any, at: str) -> Any:
    if not isinstance(node.value, dict):
        raise UsageError(f"{_named(at)} must be a mapping, not {_found(node.value)}", where=node.where)
    fields = _fields(kind)
    for key, child in node.value.items():
        if key not in fields:
            raise unknown_key(key, fields, child.where, at)
    values = {}
    for key, field in fields.items():
        if key in node.value:
            values[field.name] = _build(node.value[key], field.type, _path(at, key))
        elif field.required:
            raise UsageError(f"{_named(at)} lacks '{key}'", where=node.where)
    return kind(**values)


def unknown_key(key: str, known: Iterable[str], where: str, at: str = "") -> UsageError:
    """The error for a key that nobody reads, with the one that was probably meant."""
    words = sorted(known)
    meant = nearest(key, words)
    return UsageError(
        f"unknown key '{key}' in {at or 'the document'}",
        where=where,
        hint=f"did you mean '{meant}'?" if meant else f"known keys: {', '.join(words)}",
    )


def _leaf(node: Node, kind: Any, at: str) -> Any:
    plain = to_plain(node)
    try:
        return msgspec.convert(plain, kind, strict=True)
    except msgspec.ValidationError as error:
        hint = None
        if _allows(kind, str) and isinstance(plain, bool | int | float):
            hint = "put it in quotes: YAML reads it as something else"
        raise UsageError(
            f"{_named(at)} must be {_expected(kind, error)}, not {_found(plain)}", where=node.where, hint=hint
        ) from error


def to_plain(node: Node) -> Any:
    """The node as plain dicts, lists and scalars."""
    if isinstance(node.value, dict):
        return {key: to_plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [to_plain(child) for child in node.value]
    return node.value


def seconds_of(text: str, *, where: str) -> float:
    """Read ``90s``, ``30m``, ``2h`` or a number of seconds. Raises UsageError."""
    return _duration(Node(value=text, where=where), "it")


def _duration(node: Node, at: str) -> float:
    value = node.value
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match and float(match[1]) > 0:
        return float(match[1]) * _UNITS[match[2] or "s"]
    raise UsageError(
        f"{_named(at)} must be a duration such as 90s, 30m or 2h, not {_found(value)}", where=node.where
    )


def _allows(kind: Any, plain: type) -> bool:
    return kind is plain or any(_allows(option, plain) for option in get_args(kind))


def _expected(kind: Any, error: msgspec.ValidationError) -> str:
    origin = get_origin(kind)
    if origin is Annotated:
        base, *meta = get_args(kind)
        limits = (bound for m in meta if isinstance(m, msgspec.Meta) for bound in _bounds(m))
        return " ".join([_expected(base, error), *limits])
    if origin is Literal:
        return " or ".join(f"'{option}'" for option in get_args(kind))
    if origin in (Union, types.UnionType):
        return " or ".join(
            "null" if option is type(None) else _expected(option, error) for option in get_args(kind)
        )
    if origin is tuple:
        return "a list"
    if origin is dict:
        return "a mapping"
    return _NAMES.get(kind) or str(error).split(" - at ")[0]


def _bounds(meta: msgspec.Meta) -> Iterable[str]:
    if meta.ge is not None and meta.le is not None:
        yield f"from {meta.ge} to {meta.le}"
    elif meta.ge is not None or meta.le is not None:
        yield f">= {meta.ge}" if meta.ge is not None else f"<= {meta.le}"
    if meta.gt is not None:
        yield f"> {meta.gt}"
    if meta.lt is not None:
        yield f"< {meta.lt}"
    if meta.pattern is not None:
        yield f"matching {meta.pattern}"


def _found(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _named(at: str) -> str:
    return f"'{at}'" if at else "the document"


def _path(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key
