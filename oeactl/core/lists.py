"""Adding to and taking from lists in brackets: arguments, parameters, items, imported names.

Owns: the commas. A list with an item a line gets a line; one on a single line stays on it. Refuses: lists
whose brackets cannot be told (a bare tuple, a lone generator).
"""

from __future__ import annotations

import ast

from oeactl.core.host import Edit
from oeactl.core.scopes import Function
from oeactl.core.source import Source, parse_module


def extend(source: Source, last: ast.AST | None, after: int, close: int, text: str) -> list[Edit]:
    """Add ``text`` as the last item. last: the item before it; after: its end; close: the closing bracket."""
    if last is None:
        return [Edit(start=close, end=close, text=text.encode())]
    mark = _last_significant(source.utf8, after, close)
    comma = source.utf8[mark : mark + 1] == b","
    own_line = not source.indent(source.offset(last.lineno, last.col_offset)).strip(b" \t*")  # type: ignore[attr-defined]
    if not own_line or source.line(close) == source.line(mark):
        return [Edit(start=mark + 1, end=mark + 1, text=(f" {text}" if comma else f", {text}").encode())]
    indent = source.indent(source.offset(last.lineno, last.col_offset)).rstrip(b"*")  # type: ignore[attr-defined]
    below = source.line_end(mark)
    line = Edit(start=below, end=below, text=indent + text.encode() + b"," + source.newline(mark))
    return [line] if comma else [Edit(start=mark + 1, end=mark + 1, text=b","), line]


def _last_significant(data: bytes, start: int, close: int) -> int:
    """The offset of the last byte before ``close`` that is neither white space nor comment."""
    found, at = start - 1, start
    while at < close:
        if data[at : at + 1] == b"#":
            while at < close and data[at : at + 1] not in (b"\n", b"\r"):
                at += 1
            continue
        if data[at : at + 1] not in (b" ", b"\t", b"\f", b"\n", b"\r", b"\\"):
            found = at
        at += 1
    return found


def add_argument(source: Source, call: ast.Call, text: str) -> list[Edit] | str:
    """Add ``name=value`` to a call; a string says why not."""
    name = text.partition("=")[0].strip()
    if any(keyword.arg == name for keyword in call.keywords):
        return f"the call has an argument '{name}' already"
    if len(call.args) == 1 and isinstance(call.args[0], ast.GeneratorExp) and not call.keywords:
        return "a call of a lone generator takes no further argument as it is written"
    given = sorted((*call.args, *call.keywords), key=source.end)
    last = given[-1] if given else None
    after = source.end(last or call.func)
    return extend(source, last, after, source.end(call) - 1, text)


def add_item(source: Source, literal: ast.AST, text: str) -> list[Edit] | str:
    """Add an item to a collection literal; a string says why not."""
    close = source.end(literal) - 1
    if isinstance(literal, ast.Dict):
        entry = parse_module(f"{{{text}}}").body[0].value  # type: ignore[attr-defined]
        keys = {ast.dump(key) for key in literal.keys if key is not None}
        if ast.dump(entry.keys[0]) in keys:
            return "the dictionary has this key already"
        last: ast.expr | None = literal.values[-1] if literal.values else None
        first = literal.keys[-1] if literal.keys else None
        return extend(source, first or last, source.end(last) if last else close, close, text)
    if not isinstance(literal, ast.List | ast.Set | ast.Tuple):
        return "this is no list, set, tuple or dictionary"
    if isinstance(literal, ast.Tuple) and not _bracketed(source.cut(literal)):
        return "a tuple without parentheses"
    if ast.dump(parse_module(text).body[0].value) in {ast.dump(item) for item in literal.elts}:  # type: ignore[attr-defined]
        return "the item is there already"
    if not literal.elts:
        text = f"{text}," if isinstance(literal, ast.Tuple) else text
        return extend(source, None, close, close, text)
    return extend(source, literal.elts[-1], source.end(literal.elts[-1]), close, text)


def _bracketed(text: str) -> bool:
    if not (text.startswith("(") and text.endswith(")")):
        return False
    try:
        parse_module(f"({text[1:-1]}\n)")
    except SyntaxError:
        return False
    return True


def add_parameter(source: Source, function: Function, text: str, *, keyword_only: bool) -> list[Edit] | str:
    """Add a parameter to a function; a string says why not."""
    given = function.args
    name = text.partition(":")[0].partition("=")[0].strip()
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    if any(parameter is not None and parameter.arg == name for parameter in every):
        return f"the function has a parameter '{name}' already"
    starred = given.vararg or (given.kwonlyargs[0] if given.kwonlyargs else None)
    if keyword_only and starred is None:
        text = f"*, {text}"
    barrier = given.kwarg if keyword_only else starred or given.kwarg
    if barrier is not None:
        stars = b"**" if barrier is given.kwarg else b"*"
        at = source.utf8.rindex(
            stars, source.start(function), source.offset(barrier.lineno, barrier.col_offset)
        )
        indent = source.indent(at)
        glue = b" " if indent.strip() else source.newline(at) + indent
        return [Edit(start=at, end=at, text=text.encode() + b"," + glue)]
    last = max(
        [*(item for item in every if item), *given.defaults, *(d for d in given.kw_defaults if d)],
        key=source.end,
        default=None,
    )
    shown = max((item for item in every if item), key=source.end, default=None)
    after = source.end(last) if last is not None else _opening(source, function) + 1
    return extend(source, shown, after, _closing(source.utf8, after), text)


def _opening(source: Source, function: Function) -> int:
    start = source.offset(function.lineno, function.col_offset)
    return source.utf8.index(b"(", start)


def _closing(data: bytes, at: int) -> int:
    """The bracket that ends a parameter list, looked for from behind its last parameter."""
    found = at
    while data[at : at + 1] not in (b":", b"-", b""):
        if data[at : at + 1] == b"#":
            while data[at : at + 1] not in (b"\n", b"\r"):
                at += 1
        elif data[at : at + 1] == b")":
            found = at
        at += 1
    return found


def drop_name(source: Source, statement: ast.ImportFrom, name: str) -> Edit:
    """Take one of several names out of a from-import."""
    at = next(index for index, alias in enumerate(statement.names) if alias.name == name)
    if at + 1 < len(statement.names):
        start, end = source.start(statement.names[at]), source.start(statement.names[at + 1])
    else:
        start, end = source.end(statement.names[at - 1]), source.end(statement.names[at])
    return Edit(start=start, end=end, text=b"")
