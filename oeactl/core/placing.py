"""Each operation turned into byte edits of the text that it stands on.

Owns: what each operation does. Refuses: a match of the wrong kind, a name that has no value at the place.
Offsets are into ``Source.utf8``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

from oeactl.core import lists
from oeactl.core import operations as ops
from oeactl.core.anchors import Anchor, Place, find, find_scope, spots
from oeactl.core.blocks import (
    Site,
    Stamp,
    above,
    below,
    instead,
    is_docstring,
    is_elif,
    lead_start,
    line_end,
    margin,
    unit_of,
)
from oeactl.core.host import Edit
from oeactl.core.imports import binding_of, present, run_of_imports
from oeactl.core.scopes import Definition, names_at, own_nodes, surely_bound
from oeactl.core.snippets import indented, pushed
from oeactl.core.source import Source, parse_module

_ELSE = re.compile(r"^else\s*:", re.MULTILINE)
_SAFE = (ast.BoolOp, ast.BinOp, ast.Compare, ast.UnaryOp, ast.IfExp, ast.JoinedStr)


def place(source: Source, step: ops.Step, values: Mapping[str, str], stamp: Stamp) -> list[Edit]:
    """The edits of one operation on ``source``; none where the text has it already (an import).

    Raises CannotPlace.
    """
    site = Site(source, step, values, stamp)
    return _PLACERS[type(step.operation)](site, step.operation)


def _insert(site: Site, op: ops.Insert) -> list[Edit]:
    edits: list[Edit] = []
    for spot in find(site.source, op.at, site.edit):
        after = op.op == "insert_after"
        _need_bound(site, op.bound, spot, after=after)
        edits.append(below(site, spot) if after else above(site, spot, comments=not op.below_comment))
    return edits


def _define(site: Site, op: ops.Define) -> list[Edit]:
    (spot,) = find(site.source, op.at, site.edit)
    newline = site.source.newline(site.source.start(spot.statement))
    gap = newline * (2 if isinstance(spot.owner, ast.Module) else 1)
    if op.op == "define_before":
        edit = above(site, spot)
        return [Edit(start=edit.start, end=edit.end, text=edit.text + gap)]
    return [below(site, spot, gap)]


def _body_start(site: Site, op: ops.BodyStart) -> list[Edit]:
    scope = find_scope(site.source, op.scope, site.edit)
    definition = _definition(site, scope)
    spot = Place(definition, definition.body, 0, 0)
    _need_bound(site, op.bound, spot)
    return [below(site, spot) if is_docstring(definition.body[0]) else above(site, spot, comments=False)]


def _add_class_field(site: Site, op: ops.AddClassField) -> list[Edit]:
    scope = find_scope(site.source, op.scope, site.edit)
    body = _definition(site, scope).body
    fields = [at for at, statement in enumerate(body) if isinstance(statement, ast.AnnAssign)]
    if fields:
        last = fields[-1]
        told = last + 1 < len(body) and is_docstring(body[last + 1])
        return [below(site, Place(scope.statement, body, last + told, 0))]
    spot = Place(scope.statement, body, 0, 0)
    return [below(site, spot) if is_docstring(body[0]) else above(site, spot, comments=False)]


def _append(site: Site, _: ops.Append) -> list[Edit]:
    source = site.source
    end = len(source.utf8)
    newline = source.newline(end)
    block = site.block(end, b"", site.lines(b""))
    if not source.utf8:
        return [Edit(start=0, end=0, text=block)]
    if source.utf8.endswith((b"\n", b"\r")):
        return [Edit(start=end, end=end, text=newline * 2 + block)]
    return [Edit(start=end, end=end, text=newline * 3 + block.removesuffix(newline))]


def _add_import(site: Site, _: ops.AddImport) -> list[Edit]:
    source = site.source
    wanted = parse_module(site.text()).body
    missing = [line for line in wanted if not present(source.tree, line)]
    if not missing:
        return []
    for line in missing:
        for name, taken in binding_of(source.tree, line):
            raise site.refuse(f"'{name}' is another thing in this module", source.start(taken))
    lines = [ast.unparse(line) for line in missing]
    last = run_of_imports(source.tree)
    if last is not None:
        return [below(site, Place(source.tree, source.tree.body, last, 0), lines=lines)]
    if not source.tree.body:
        end = len(source.utf8)
        glue = b"" if not end or source.utf8.endswith((b"\n", b"\r")) else source.newline(end)
        return [Edit(start=end, end=end, text=glue + site.block(end, b"", lines))]
    return [above(site, Place(source.tree, source.tree.body, 0, 0), comments=False, lines=lines)]


def _drop_import(site: Site, op: ops.DropImport) -> list[Edit]:
    source = site.source
    name = op.name
    pattern = Anchor(statement=f"from {op.module} import {name}")
    found = [
        (place, place.statement)
        for place in spots(source.tree)
        if isinstance(place.statement, ast.ImportFrom)
        and ("." * place.statement.level + (place.statement.module or "")) == op.module
        and any(alias.name == name for alias in place.statement.names)
    ]
    if len(found) != 1:
        find(source, pattern, site.edit)
        raise site.refuse(f"'{name}' is imported from {op.module} {len(found)} times")
    spot, statement = found[0]
    return [lists.drop_name(source, statement, name)] if len(statement.names) > 1 else [_out(site, spot)]


def _replace_expression(site: Site, op: ops.ReplaceExpression) -> list[Edit]:
    source = site.source
    edits = []
    for spot in find(source, op.at, site.edit):
        if not isinstance(spot.node, ast.expr):
            raise site.refuse("what matches is no expression", source.start(spot.node))
        text = site.text(matched=source.cut(spot.node)).strip("\n")
        made = parse_module(f"(\n{text}\n)").body[0]
        bare = isinstance(made, ast.Expr) and isinstance(made.value, _SAFE) and _stands_alone(spot)
        simple = isinstance(made, ast.Expr) and isinstance(made.value, ast.Name | ast.Constant | ast.Call)
        text = text if (bare or simple) and "\n" not in text else f"({text})"
        newline = source.newline(source.start(spot.node)).decode()
        edits.append(
            Edit(
                start=source.start(spot.node),
                end=source.end(spot.node),
                text=text.replace("\r\n", "\n").replace("\n", newline).encode(),
            )
        )
    return edits


def _replace_statement(site: Site, op: ops.ReplaceStatement) -> list[Edit]:
    edits = []
    for spot in find(site.source, op.at, site.edit):
        _need_bound(site, op.bound, spot)
        edits.append(instead(site, spot, lambda indent: site.lines(indent), lead=op.lead))
    return edits


def _replace_header(site: Site, op: ops.ReplaceHeader) -> list[Edit]:
    edits = []
    source = site.source
    for spot in find(source, op.at, site.edit):
        body = getattr(spot.node, "body", None)
        if spot.node is not spot.statement or not isinstance(body, list):
            raise site.refuse("what matches has no head", source.start(spot.node))
        start, below = source.start(spot.statement), source.start(body[0])
        colon = source.utf8.rfind(b":", start, _head_end(source, below))
        indent = margin(site, spot)
        text, _, _ = site.text().rpartition(":")
        lines = indented(text, indent.decode(), unit_of(source))
        newline = source.newline(start).decode()
        edits.append(Edit(start=start, end=colon, text=newline.join(lines)[len(indent) :].encode()))
    return edits


def _head_end(source: Source, body: int) -> int:
    """One past the last byte of a head: its colon is the last one before, comments aside."""
    line = source.line(body)
    if not source.indent(body).strip():
        line -= 1
        while source.line_text(line)[:1] in ("", "#"):
            line -= 1
        text = source.utf8[source.starts[line - 1] : source.starts[line]].decode()
        return source.starts[line - 1] + len(_without_comment(text).encode())
    return body


def _without_comment(line: str) -> str:
    """A head's last line up to its comment."""
    at = len(line)
    while "#" in line[:at] and not line[:at].rstrip().endswith(":"):
        at = line.rindex("#", 0, at)
    return line[:at]


def _add_branch(site: Site, op: ops.AddBranch) -> list[Edit]:
    edits = []
    for spot in find(site.source, op.at, site.edit):
        branch = _branch(site, spot)
        if branch.orelse and _ELSE.search(site.text()):
            raise site.refuse("the 'if' goes on, and 'else' is a last branch", site.source.start(branch))
        edits.append(below(site, _end_of(branch), indent=site.source.indent(site.source.start(branch))))
    return edits


def _delete_branch(site: Site, op: ops.DeleteBranch) -> list[Edit]:
    edits = []
    for spot in find(site.source, op.at, site.edit):
        branch, above = _branch(site, spot), spot.owner
        if not isinstance(above, ast.If) or not is_elif(site.source, spot):
            raise site.refuse("what matches is no 'elif'", site.source.start(branch))
        start, end = (line_end(site, _end_of(one)) for one in (above, branch))
        block = site.block(start, site.source.indent(site.source.start(branch)), [])
        edits.append(Edit(start=start, end=end, text=block))
    return edits


def _branch(site: Site, spot: Place) -> ast.If:
    if spot.node is spot.statement and isinstance(spot.node, ast.If):
        return spot.node
    raise site.refuse("what matches is no 'if' or 'elif'", site.source.start(spot.node))


def _end_of(branch: ast.If) -> Place:
    """The last statement of a branch's own body."""
    return Place(branch, branch.body, len(branch.body) - 1, 0)


def _replace_lead(site: Site, op: ops.ReplaceLead) -> list[Edit]:
    (spot,) = find(site.source, op.at, site.edit)
    source = site.source
    first = source.start(spot.statement)
    start, end = lead_start(source, spot), source.line_start(first)
    _need_lines(site, start, end, op.was, "above the statement")
    text = _commented(source, end, source.indent(first).decode(), op.lines)
    return [Edit(start=start, end=end, text=text)]


def _replace_tail(site: Site, op: ops.ReplaceTail) -> list[Edit]:
    source = site.source
    body, end = source.tree.body, len(source.utf8)
    start = line_end(site, Place(source.tree, body, len(body) - 1, 0)) if body else 0
    _need_lines(site, start, end, op.was, "behind the last statement")
    glue = source.newline(start) if start and source.indent(start) else b""
    return [Edit(start=start, end=end, text=glue + _commented(source, start, "", op.lines))]


def _need_lines(site: Site, start: int, end: int, wanted: str, where: str) -> None:
    """Raise CannotPlace where other comments or blank lines stand than the recipe knows."""
    there = [line.strip() for line in site.source.utf8[start:end].decode().splitlines()]
    if there != [line.strip() for line in wanted.splitlines()]:
        raise site.refuse(f"the lines {where} are not those that the recipe knows", start)


def _commented(source: Source, at: int, indent: str, lines: str) -> bytes:
    """Comments and blank lines as they stand at ``at``."""
    newline = source.newline(at).decode()
    text = "".join((indent + line if line.strip() else line) + newline for line in lines.splitlines())
    return (
        text.encode() if lines.endswith("\n") or not lines else text.encode().removesuffix(newline.encode())
    )


def _replace_definition(site: Site, op: ops.ReplaceDefinition) -> list[Edit]:
    spot = find_scope(site.source, op.scope, site.edit)
    _definition(site, spot)
    return [instead(site, spot, lambda indent: site.lines(indent))]


def _delete(site: Site, op: ops.Delete) -> list[Edit]:
    return [_out(site, spot, lead=op.lead) for spot in find(site.source, op.at, site.edit)]


def _out(site: Site, spot: Place, *, lead: bool = False) -> Edit:
    whole = spot.count == len(spot.body) and not isinstance(spot.owner, ast.Module)
    return instead(site, spot, lambda indent: [f"{indent.decode()}pass"] if whole else [], lead=lead)


def _wrap_try(site: Site, op: ops.WrapTry) -> list[Edit]:
    source = site.source
    text = site.text()
    (attempt,) = parse_module(text).body
    hollow = attempt.body[0].lineno  # type: ignore[attr-defined]
    head, tail = text.split("\n")[: hollow - 1], text.split("\n")[hollow:]
    unit = unit_of(source)
    edits = []
    for spot in find(source, op.at, site.edit):

        def inside(indent: bytes, spot: Place = spot) -> list[str]:
            margin = indent.decode()
            first, last = source.start(spot.statement), source.end(spot.last)
            kept = source.utf8[source.line_start(first) : source.line_end(last)].decode()
            body = pushed(kept, margin, unit)
            newline = source.newline(first).decode()
            return [
                *indented("\n".join(head), margin, unit),
                body.removesuffix(newline),
                *indented("\n".join(tail), margin, unit),
            ]

        edits.append(instead(site, spot, inside))
    return edits


def _add_parameter(site: Site, op: ops.AddParameter) -> list[Edit]:
    function = _definition(site, find_scope(site.source, op.scope, site.edit))
    if isinstance(function, ast.ClassDef):
        raise site.refuse("a class takes no parameter", site.source.start(function))
    made = lists.add_parameter(site.source, function, site.text().strip(), keyword_only=op.keyword_only)
    if isinstance(made, str):
        raise site.refuse(made, site.source.start(function))
    return made


def _add_argument(site: Site, op: ops.AddArgument) -> list[Edit]:
    return _listed(site, op.at, _call_argument)


def _call_argument(source: Source, node: ast.AST, text: str) -> list[Edit] | str:
    call = node.value if isinstance(node, ast.Expr) else node
    return lists.add_argument(source, call, text) if isinstance(call, ast.Call) else "what matches is no call"


def _add_item(site: Site, op: ops.AddItem) -> list[Edit]:
    return _listed(site, op.at, lists.add_item)


def _listed(
    site: Site, anchor: Anchor, add: Callable[[Source, ast.AST, str], list[Edit] | str]
) -> list[Edit]:
    edits: list[Edit] = []
    for spot in find(site.source, anchor, site.edit):
        made = add(site.source, spot.node, site.text().strip())
        if isinstance(made, str):
            raise site.refuse(made, site.source.start(spot.node))
        edits += made
    return edits


def _definition(site: Site, spot: Place) -> Definition:
    if not isinstance(spot.node, Definition):
        raise site.refuse("the scope is no function or class")
    return spot.node


def _stands_alone(spot: Place) -> bool:
    """Whether an expression is a statement's own part or an argument: no operator binds it."""
    for node in own_nodes(spot.statement):
        for field in ("test", "value", "iter", "args"):
            part = getattr(node, field, None)
            if part is spot.node or (isinstance(part, list) and any(item is spot.node for item in part)):
                return isinstance(node, ast.stmt | ast.Call | ast.keyword)
    return False


def _need_bound(site: Site, names: tuple[str, ...], spot: Place, *, after: bool = False) -> None:
    """Raise CannotPlace for a name that may have no value before, or after, the place's statements."""
    if not names:
        return
    have = names_at(site.source.tree, spot.statement)
    for statement in spot.body[spot.index : spot.index + spot.count] if after else ():
        have |= surely_bound(statement)
    for name in names:
        if name not in have:
            where = site.source.start(spot.statement)
            raise site.refuse(f"'{name}' may have no value at this place", where, kind="guard")


_PLACERS: dict[type, Callable[[Site, Any], list[Edit]]] = {
    ops.AddArgument: _add_argument,
    ops.AddBranch: _add_branch,
    ops.AddClassField: _add_class_field,
    ops.AddImport: _add_import,
    ops.AddItem: _add_item,
    ops.AddParameter: _add_parameter,
    ops.Append: _append,
    ops.BodyStart: _body_start,
    ops.Define: _define,
    ops.Delete: _delete,
    ops.DeleteBranch: _delete_branch,
    ops.DropImport: _drop_import,
    ops.Insert: _insert,
    ops.ReplaceDefinition: _replace_definition,
    ops.ReplaceExpression: _replace_expression,
    ops.ReplaceHeader: _replace_header,
    ops.ReplaceLead: _replace_lead,
    ops.ReplaceStatement: _replace_statement,
    ops.ReplaceTail: _replace_tail,
    ops.WrapTry: _wrap_try,
}
