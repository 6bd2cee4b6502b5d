"""Blocks of statements: where one goes, its indentation, its newlines and its marks.

Owns: whole lines. Refuses: a place that shares its line with another statement, an ``elif``.
Offsets are into ``Source.utf8``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from oeactl.core.anchors import Place
from oeactl.core.host import Edit, Value
from oeactl.core.operations import Step
from oeactl.core.reasons import CannotPlace, Kind, Reason
from oeactl.core.snippets import MARK, indented, mark_begin, mark_end
from oeactl.core.source import Source


class Stamp(Value, frozen=True, kw_only=True):
    """What marks say of the recipe. marks: whether there are any."""

    recipe: str
    revision: int
    marks: bool = True


class Site:
    """A step at work on a text: the source, the operation, its values, and how a block of it is written."""

    def __init__(self, source: Source, step: Step, values: Mapping[str, str], stamp: Stamp) -> None:
        self.source, self.step, self.values, self.stamp = source, step, values, stamp
        self.edit = step.operation.id

    def text(self, **more: str) -> str:
        """The operation's code with every value in it; more: further values."""
        if self.step.snippet is None:
            raise ValueError(f"operation {self.edit} has no code")
        return self.step.snippet.render({**self.values, **more})

    def refuse(self, what: str, at: int | None = None, *, kind: Kind = "edit") -> CannotPlace:
        """The exception that ends this operation; at: the offset of what is wrong."""
        line = None if at is None else self.source.line(at)
        return CannotPlace(Reason(kind=kind, what=what, where=self.source.where, edit=self.edit, line=line))

    def block(self, at: int, indent: bytes, lines: list[str]) -> bytes:
        """Lines as they stand at ``at``, marked, each with its newline."""
        margin = indent.decode()
        newline = self.source.newline(at).decode()
        if self.stamp.marks:
            begin = margin + mark_begin(self.stamp.recipe, self.stamp.revision, self.edit)
            lines = [begin, *lines, margin + mark_end(self.stamp.recipe, self.edit)]
        return "".join(f"{line}{newline}" for line in lines).encode()

    def lines(self, indent: bytes, **more: str) -> list[str]:
        """The operation's code as lines at ``indent``."""
        return indented(self.text(**more), indent.decode(), unit_of(self.source))


def unit_of(source: Source) -> str:
    """One step of indentation as the module writes it."""
    for statement in source.tree.body:
        body = getattr(statement, "body", None)
        if isinstance(body, list) and body and body[0].lineno > statement.lineno:
            indent = source.indent(source.start(body[0])).decode()
            if indent and not indent.strip():
                return indent
    return "    "


def above(site: Site, spot: Place, *, comments: bool = True, lines: list[str] | None = None) -> Edit:
    """A block before a statement, and before the comment that stands right on top of it."""
    source = site.source
    indent = margin(site, spot)
    line = source.line(source.start(spot.statement))
    while comments and line > 2 and _is_comment(source, line - 1, indent):
        line -= 1
    if line <= 2 and comments:  # a comment that heads the file (#!, coding, licence) stays where it is
        line = source.line(source.start(spot.statement))
    at = source.starts[line - 1]
    block = site.block(at, indent, site.lines(indent) if lines is None else lines)
    return Edit(start=at, end=at, text=block)


def below(
    site: Site,
    spot: Place,
    gap: bytes = b"",
    *,
    lines: list[str] | None = None,
    indent: bytes | None = None,
) -> Edit:
    """A block after a statement's last line, at its indentation if not at another."""
    source = site.source
    indent = margin(site, spot) if indent is None else indent
    at = line_end(site, spot)
    block = gap + site.block(source.end(spot.last), indent, site.lines(indent) if lines is None else lines)
    if not source.utf8[:at].endswith((b"\n", b"\r")):
        newline = source.newline(source.end(spot.last))
        block = newline + block.removesuffix(newline)
    return Edit(start=at, end=at, text=block)


def instead(site: Site, spot: Place, make: Callable[[bytes], list[str]], *, lead: bool = False) -> Edit:
    """A block in the place of statements, whole lines of them; lead: and of what leads up to them."""
    source = site.source
    indent = margin(site, spot)
    start = lead_start(source, spot) if lead else source.line_start(source.start(spot.statement))
    end = line_end(site, spot)
    block = site.block(start, indent, make(indent))
    if not source.utf8[:end].endswith((b"\n", b"\r")):
        block = block.removesuffix(source.newline(start))
    return Edit(start=start, end=end, text=block)


def lead_start(source: Source, spot: Place) -> int:
    """Where the blank lines and comments begin that lead up to a statement: below what stands before it."""
    if spot.index:
        return source.line_end(source.end(spot.body[spot.index - 1]))
    line = source.line(source.start(spot.statement))
    while line > 1 and source.line_text(line - 1)[:1] in ("", "#"):
        line -= 1
    return source.starts[line - 1]


def margin(site: Site, spot: Place) -> bytes:
    """The indentation of a statement that has its line to itself."""
    start = site.source.start(spot.statement)
    indent = site.source.indent(start)
    if indent.strip(b" \t\f"):
        raise site.refuse("the statement shares its line with what stands before it", start)
    if is_elif(site.source, spot):
        raise site.refuse("the statement is an 'elif': name the whole 'if'", start)
    return indent


def is_elif(source: Source, spot: Place) -> bool:
    """Whether a statement is an ``elif``, which Python's tree has as an ``if`` in an ``else``."""
    start = source.start(spot.statement)
    otherwise = isinstance(spot.owner, ast.If) and spot.body is spot.owner.orelse
    return otherwise and source.utf8[start : start + 4] == b"elif"


def line_end(site: Site, spot: Place) -> int:
    """Where the line behind a statement begins, which has the rest of its last line to itself."""
    source = site.source
    end = source.end(spot.last)
    below = source.line_end(end)
    rest = source.utf8[end:below].strip()
    if rest and not rest.startswith(b"#"):
        raise site.refuse("the statement shares its line with what stands after it", end)
    return below


def _is_comment(source: Source, line: int, indent: bytes) -> bool:
    raw = source.utf8[source.starts[line - 1] : source.starts[line]]
    return raw.startswith(indent + b"#") and not MARK.match(raw)


def is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
