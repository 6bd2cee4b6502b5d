"""Python that a recipe puts in: its placeholders, its indentation, and the marks around it.

A snippet is valid Python. ``OEACTL.name`` in it is replaced, by its position in the syntax tree, with a
literal; ``OEACTL.matched`` with the source that an anchor found. What stands above and in a leading
docstring tells people about the snippet and is not put in.

A block of statements is marked by a comment line before and after it, which carry recipe, revision and
plan digest. An edit inside a line has no mark: the host's journal is its record.

Owns: rendering. Refuses: placeholders nobody declared, or where no value can stand (a name to assign to,
the inside of an f-string).
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Mapping

from oeactl.core.document import nearest
from oeactl.core.host import Value
from oeactl.core.source import balanced, parse_module
from oeactl.errors import UsageError

ROOT = "OEACTL"
HOLE = "c17a0ea5d1ce57ab1e0ddba11ca5cadeb01dfacec0ffee5eedf005ba11ab1e00"
"""Stands for the plan digest, of the same length, until the digest of everything around it is known."""

MARK = re.compile(rb"^(?:\xef\xbb\xbf)?[ \t\f]*# (?:>>>|<<<) oeactl (\S+)", re.MULTILINE)
_NEWLINES = re.compile(r"\r\n|\r|\n")
_ATOMS = (ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Call, ast.List, ast.Dict, ast.Set)


class Hole(Value, frozen=True, kw_only=True):
    """A placeholder: text[start:end] is ``OEACTL.name``."""

    start: int
    end: int
    name: str


class Snippet(Value, frozen=True, kw_only=True):
    """Source with holes. where: the file it came from, for messages."""

    text: str
    holes: tuple[Hole, ...]
    where: str

    def render(self, values: Mapping[str, str]) -> str:
        """The text with every hole filled by the Python source of its value."""
        out, at = "", 0
        for hole in self.holes:
            value = atom(values[hole.name])
            dotted = self.text[hole.end : hole.end + 1] == "." and value[-1:].isdigit()
            out += self.text[at : hole.start] + (f"({value})" if dotted else value)
            at = hole.end
        return out + self.text[at:]


def read(
    text: str, where: str, line: int = 1, *, names: frozenset[str], around: tuple[str, str] = ("", "")
) -> Snippet:
    """Read a snippet. line: where its text begins in ``where``; names: the placeholders that are declared;
    around: whole lines that make a module of code which is less than a statement.

    Raises UsageError: not Python, an undeclared placeholder, a placeholder that cannot be filled.
    """
    if around[0] and not balanced(text):
        raise UsageError("the brackets do not match", where=f"{where}:{line}")
    text = around[0] + _NEWLINES.sub("\n", text) + around[1]
    line -= around[0].count("\n")
    tree = _tree(text, where, line)
    starts = [0, *(match.end() for match in _NEWLINES.finditer(text))]
    skipped = len(around[0]) if around[0] else _below_docstring(tree, starts, text)
    filled = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_root(node.value)]
    _check_rest(tree, {id(node.value) for node in filled}, where, line)
    holes = []
    for node in filled:
        start, end = (_offset(text, starts, *place) for place in _ends(node))
        spot = f"{where}:{line - 1 + node.lineno}"
        _check_name(node.attr, names, spot)
        if not isinstance(node.ctx, ast.Load) or text[start:end] != f"{ROOT}.{node.attr}":
            raise UsageError(f"no value can stand for {ROOT}.{node.attr} here", where=spot)
        if start >= skipped:
            holes.append(Hole(start=start - skipped, end=end - skipped, name=node.attr))
    holes.sort(key=lambda hole: hole.start)
    kept = text[skipped : len(text) - len(around[1])].rstrip("\n")
    return Snippet(text=kept, holes=tuple(holes), where=where)


def _tree(text: str, where: str, line: int) -> ast.Module:
    try:
        return parse_module(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        at = line - 1 + (error.lineno or 1) if isinstance(error, SyntaxError) else line
        raise UsageError(f"the snippet is not Python: {error}", where=f"{where}:{at}") from error


def _check_name(name: str, names: frozenset[str], spot: str) -> None:
    if name not in names:
        meant = nearest(name, names)
        raise UsageError(
            f"the snippet uses {ROOT}.{name}, which the recipe does not declare",
            where=spot,
            hint=f"did you mean {ROOT}.{meant}?" if meant else f"declared: {', '.join(sorted(names))}",
        )


def _check_rest(tree: ast.Module, taken: set[int], where: str, line: int) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and _is_root(node) and id(node) not in taken:
            raise UsageError(f"{ROOT} is no value: name one", where=f"{where}:{line - 1 + node.lineno}")


def literal(value: object) -> str:
    """The Python source of a parameter's value (None, bool, int, finite float or str)."""
    return repr(value)


def atom(expression: str) -> str:
    """The expression, in parentheses unless it can stand inside any other as it is."""
    node = ast.parse(f"(\n{expression}\n)", mode="eval").body
    bare = isinstance(node, _ATOMS) and "\n" not in expression
    return expression if bare else f"({expression})"


def mark_begin(recipe: str, revision: int, edit: str) -> str:
    """The comment above a block of ours; the plan digest goes where ``HOLE`` is."""
    return f"# >>> oeactl {recipe} r{revision} {edit} sha256:{HOLE}"


def mark_end(recipe: str, edit: str) -> str:
    return f"# <<< oeactl {recipe} {edit}"


def marked(data: bytes) -> tuple[tuple[int, str], ...]:
    """Every mark of ours in a file: its line, from 1, and the recipe it names."""
    return tuple(
        (data.count(b"\n", 0, match.start()) + 1, match[1].decode("utf-8", "replace"))
        for match in MARK.finditer(data)
    )


def indented(text: str, indent: str, unit: str) -> list[str]:
    """The lines of a snippet as they stand at ``indent``, its own steps of four spaces turned into ``unit``.

    What lies inside a string stays as it is. Lines come without newlines.
    """
    inside = string_lines(text)
    return [
        line if number in inside or not line.strip() else indent + _stepped(line, unit)
        for number, line in enumerate(text.split("\n"), 1)
    ]


def pushed(text: str, indent: str, unit: str) -> str:
    """Whole statements that stand at ``indent``, moved in by one ``unit``; strings and newlines stay."""
    inside = string_lines(text)
    out = []
    for number, line in enumerate(_split(text), 1):
        if number in inside or not line.strip():
            out.append(line)
        elif line.startswith(indent):
            out.append(indent + unit + line[len(indent) :])
        else:
            out.append(unit + line)
    return "".join(out)


def string_lines(text: str) -> frozenset[int]:
    """The lines, from 1, that begin inside a string: their white space is data."""
    kinds = {getattr(tokenize, name, -1) for name in ("STRING", "FSTRING_MIDDLE", "TSTRING_MIDDLE")}
    return frozenset(
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in kinds
        for line in range(token.start[0] + 1, token.end[0] + 1)
    )


def _split(text: str) -> list[str]:
    ends = [match.end() for match in _NEWLINES.finditer(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True) if start < end]


def _stepped(line: str, unit: str) -> str:
    body = line.lstrip(" ")
    steps, rest = divmod(len(line) - len(body), 4)
    return unit * steps + " " * rest + body


def _is_root(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == ROOT


def _ends(node: ast.expr) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def _offset(text: str, starts: list[int], line: int, column: int) -> int:
    start = starts[line - 1]
    return start + len(text[start : start + column].encode()[:column].decode(errors="ignore"))


def _below_docstring(tree: ast.Module, starts: list[int], text: str) -> int:
    if ast.get_docstring(tree, clean=False) is None:
        return 0
    line = tree.body[0].end_lineno or 0
    rest = text[starts[line] :] if line < len(starts) else ""
    return len(text) - len(rest.lstrip("\n"))
