"""Writing a host's entry into the text of a hosts.yaml: lines are put in, all others stay as they are.

Owns: where they go and how they look. Refuses: a place that it cannot be sure of (flow style, an alias); the
caller reads the result again and compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from oeactl.errors import Refused, UsageError

_EMPTY_HOSTS = re.compile(r"hosts\s*:\s*(\{\s*\}|null|~)?\s*(#.*)?")


def with_entry(text: str, name: str, entry: Mapping[str, Any], *, replace: bool = False) -> str:
    """The text with the keys of ``entry`` under ``hosts.<name>``, which is added where it is missing.

    A key that is there already and says the same stays; one that says something else needs ``replace``.
    Raises Refused where the place is not plain.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines()
    hosts = _member(_root(text), "hosts")
    if hosts is None or _is_empty(hosts[1]):
        lines, at, indent = _room(lines, hosts)
        block = _lines({name: entry}, indent)
    elif _is_flow(hosts[1]):
        raise _refused("'hosts' is written in one line", name, entry)
    else:
        found = _member(hosts[1], name)
        indent = hosts[1].value[0][0].start_mark.column
        if found is None:
            at, block = _last_line(hosts[1]) + 1, _lines({name: entry}, indent)
        else:
            return _changed(lines, end, found, name, entry, indent=indent, replace=replace)
    lines[at:at] = block
    return end.join(lines) + end


def _changed(
    lines: list[str],
    end: str,
    found: tuple[Any, Any],
    name: str,
    entry: Mapping[str, Any],
    *,
    indent: int,
    replace: bool,
) -> str:
    key, value = found
    empty = _is_empty(value)
    if not empty and _is_flow(value):
        raise _refused(f"the entry of {name} is written in one line", name, entry)
    if empty and value.end_mark.index > value.start_mark.index:
        raise _refused(f"the entry of {name} is written as an empty mapping", name, entry)
    inner = indent + 2 if empty else value.value[0][0].start_mark.column
    wanted: dict[str, Any] = {}
    for member, content in entry.items():
        there = None if empty else _member(value, member)
        if there is None:
            wanted[member] = content
        elif _plain(there[1]) != content:
            if not replace:
                raise Refused(
                    f"{name} has another '{member}' already",
                    where=f"hosts.yaml:{there[0].start_mark.line + 1}",
                    hint="--replace puts the new one in its place",
                    details=tuple(_lines({member: content}, 0)),
                )
            wanted[member] = content
    spans = [
        (there[0].start_mark.line, _last_line(there[1]))
        for member in wanted
        if not empty and (there := _member(value, member)) is not None
    ]
    at = (key.end_mark.line if empty else _last_line(value)) + 1
    lines[at:at] = _lines(wanted, inner)
    for first, last in sorted(spans, reverse=True):
        del lines[first : last + 1]
    return end.join(lines) + end


def _root(text: str) -> Any:
    import yaml

    return yaml.compose(text, Loader=yaml.SafeLoader)


def _member(node: Any, name: str) -> tuple[Any, Any] | None:
    """The key's and the value's node under ``name``."""
    for key, value in node.value if node is not None and node.id == "mapping" else ():
        if key.value == name:
            return key, value
    return None


def _plain(node: Any) -> Any:
    import yaml

    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _is_empty(node: Any) -> bool:
    return bool(node.value in ("", "null", "~") if node.id == "scalar" else not node.value)


def _is_flow(node: Any) -> bool:
    return node.id != "mapping" or bool(node.flow_style)


def _last_line(node: Any) -> int:
    """The last line on which something of ``node`` stands; a comment behind it in that line is its own."""
    if node.id == "scalar" or node.flow_style or not node.value:
        mark = node.end_mark
        return int(mark.line - 1 if mark.column == 0 and mark.line > node.start_mark.line else mark.line)
    last = node.value[-1]
    return _last_line(last[1] if isinstance(last, tuple) else last)


def _room(lines: list[str], hosts: tuple[Any, Any] | None) -> tuple[list[str], int, int]:
    """(lines, where the first host goes, its indentation), for a document without hosts."""
    if hosts is None:
        kept = [*lines, "hosts:"]
        return kept, len(kept), 2
    at = hosts[0].start_mark.line
    if not _EMPTY_HOSTS.fullmatch(lines[at].strip()):
        raise _refused("'hosts' is not a plain mapping", "", {})
    comment = lines[at].partition("#")
    kept = [*lines]
    kept[at] = "hosts:" + (f"  #{comment[2]}" if comment[1] else "")
    return kept, at + 1, 2


def _refused(what: str, name: str, entry: Mapping[str, Any]) -> Refused:
    return Refused(
        f"{what}: that is left to a person",
        where="hosts.yaml",
        hint="put these lines there by hand",
        details=tuple(_lines({name: entry} if name else entry, 2)),
    )


def _lines(mapping: Mapping[str, Any], indent: int) -> list[str]:
    """Block style, two columns a level; a list stands in one line."""
    return [" " * indent + line for line in _block(mapping)]


def _block(mapping: Mapping[str, Any]) -> Iterator[str]:
    for key, value in mapping.items():
        if isinstance(value, Mapping) and value:
            yield f"{_scalar(key)}:"
            for line in _block(value):
                yield f"  {line}"
        else:
            yield f"{_scalar(key)}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    import yaml

    text: str = yaml.safe_dump(
        value, default_flow_style=True, width=1 << 30, allow_unicode=True, sort_keys=False
    )
    lines = text.strip().splitlines()
    if lines[-1] == "...":
        lines.pop()
    if len(lines) != 1:
        raise UsageError("a value with a line break is not written by itself", where=text[:60])
    return lines[0]


def entry_lines(name: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The entry as it would stand under ``hosts:``."""
    return tuple(_lines({name: entry}, 2))
