"""From the edits of recipe.yaml to steps with their code read and their patterns checked.

Owns: which code each operation takes. Refuses: an operation nobody knows, two edits of one id, code that
is not what its operation needs.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from oeactl.core import operations as ops
from oeactl.core import patterns, snippets
from oeactl.core.anchors import KINDS, Anchor
from oeactl.core.document import Node, build, nearest
from oeactl.core.operations import OPERATIONS, Step
from oeactl.core.snippets import Snippet
from oeactl.core.source import balanced, parse_module
from oeactl.core.transform import read_script
from oeactl.errors import UsageError

if TYPE_CHECKING:
    from oeactl.core.recipe import RecipeFile
    from oeactl.core.recipe_document import FileDocument, RecipeDocument

_AROUND: dict[type, tuple[str, str]] = {
    ops.AddArgument: ("f(\n", "\n)"),
    ops.AddBranch: ("if 0:\n    0\n", ""),
    ops.AddItem: ("{\n", "\n}"),
    ops.AddParameter: ("def f(\n", "\n): ..."),
    ops.ReplaceExpression: ("(\n", "\n)"),
}
"""What code of an operation stands in when it is no statement of its own."""


def read_file(
    node: Node, file: FileDocument, recipe: RecipeDocument, files: Mapping[str, bytes], prefix: str
) -> RecipeFile:
    """Read one module's edits and variants. Raises UsageError at the line of the fault."""
    from oeactl.core.recipe import RecipeFile, Variant

    shared = frozenset({*recipe.parameters, "recipe", "revision", "digest"})
    values = [frozenset(variant.values) for variant in file.variants]
    everywhere = frozenset.intersection(*values) if values else frozenset()
    reader = _Reader(files, prefix)
    steps = reader.steps(under(node, "edits"), shared | everywhere)
    variants = []
    for at, variant in enumerate(file.variants):
        inner = under(node, "variants").value[at]
        for name, text in variant.values.items():
            _check_expression(text, under(inner, "values", name), f"value {name}")
        edits = reader.steps(
            under(inner, "edits"), shared | values[at], taken={s.operation.id for s in steps}
        )
        variants.append(Variant(document=variant, steps=edits))
    edited = bool(steps) or any(variant.steps for variant in variants)
    if file.transform is not None:
        if edited or file.variants:
            what = f"{file.module} has a transform, so it takes neither edits nor variants"
            raise UsageError(what, where=under(node, "transform").where)
        text = reader.file(file.transform, under(node, "transform").where)
        script = read_script(text.encode(), f"{prefix}{file.transform}")
        return RecipeFile(document=file, variants=(), steps=(), script=script)
    if not edited:
        raise UsageError(f"nothing happens to {file.module}: no edits", where=node.where)
    return RecipeFile(document=file, variants=tuple(variants), steps=steps)


def read_steps(nodes: list[Node], names: frozenset[str] = frozenset()) -> tuple[Step, ...]:
    """Read edits whose code stands in them. Raises UsageError."""
    return _Reader({}, "").steps(Node(value=nodes, where="edits"), names)


def under(node: Node, *keys: str) -> Node:
    """The node under ``keys``, or the nearest one above it that is there."""
    for key in keys:
        if not isinstance(node.value, dict) or key not in node.value:
            return node
        node = node.value[key]
    return node


class _Reader:
    """Reads lists of edits; files: the recipe's folder; prefix: how messages call it."""

    def __init__(self, files: Mapping[str, bytes], prefix: str) -> None:
        self.files, self.prefix = files, prefix

    def steps(self, node: Node, names: frozenset[str], *, taken: set[str] | None = None) -> tuple[Step, ...]:
        if not isinstance(node.value, list):
            return ()
        taken = set(taken or ())
        steps = []
        for item in node.value:
            step = self._step(item, names)
            if step.operation.id in taken:
                raise UsageError(f"two edits are called '{step.operation.id}'", where=item.where)
            for other in step.operation.builds_on:
                if other not in taken:
                    raise UsageError(
                        f"edit '{step.operation.id}' builds on '{other}', which does not come before it",
                        where=under(item, "builds_on").where,
                    )
            taken.add(step.operation.id)
            steps.append(step)
        return tuple(steps)

    def _step(self, node: Node, names: frozenset[str]) -> Step:
        if not isinstance(node.value, dict) or "op" not in node.value:
            raise UsageError("an edit names its operation: 'op'", where=node.where)
        op = node.value["op"]
        kind = OPERATIONS.get(op.value)
        if kind is None:
            meant = nearest(str(op.value), OPERATIONS)
            raise UsageError(
                f"there is no operation '{op.value}'",
                where=op.where,
                hint=f"did you mean '{meant}'?" if meant else f"operations: {', '.join(sorted(OPERATIONS))}",
            )
        operation = build(node, kind, at=f"edit '{_called(node)}'")
        anchor = getattr(operation, "at", None)
        if anchor is not None:
            _check_anchor(anchor, under(node, "at"))
        if not isinstance(operation, ops.Coded):
            return Step(operation=operation)
        return Step(operation=operation, snippet=self._code(node, operation, names))

    def _code(self, node: Node, operation: ops.Coded, names: frozenset[str]) -> Snippet:
        if (operation.code is None) == (operation.snippet is None):
            raise UsageError(f"edit '{operation.id}' needs either 'code' or 'snippet'", where=node.where)
        if isinstance(operation, ops.ReplaceExpression):
            names |= {"matched"}
        around = _AROUND.get(type(operation), ("", ""))
        if operation.code is not None:
            spot = under(node, "code").where
            name, _, line = spot.rpartition(":")
            first = int(line) + (1 if "\n" in operation.code else 0)
            text, where = operation.code, name
        else:
            text, where, first = self.file(operation.snippet or "", under(node, "snippet").where), "", 1
            where = f"{self.prefix}{operation.snippet}"
        snippet = snippets.read(text, where, first, names=names, around=around)
        fault = _fault(operation, parse_module(around[0] + snippet.text + around[1]))
        if fault:
            raise UsageError(f"code of edit '{operation.id}' must be {fault}", where=f"{where}:{first}")
        return snippet

    def file(self, path: str, where: str) -> str:
        """A text of the recipe's folder. Raises UsageError."""
        data = self.files.get(path)
        if data is None:
            meant = nearest(path, self.files)
            raise UsageError(
                f"there is no file '{path}' in the recipe's folder",
                where=where,
                hint=f"did you mean '{meant}'?" if meant else None,
            )
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise UsageError("the file is not UTF-8", where=f"{self.prefix}{path}") from error


def _called(node: Node) -> str:
    return str(under(node, "id").value) if isinstance(node.value, dict) and "id" in node.value else "?"


def _check_anchor(anchor: Anchor, node: Node) -> None:
    given = [name for name in KINDS if getattr(anchor, name) is not None]
    if len(given) > 1:
        raise UsageError(f"an anchor asks for one thing, not {' and '.join(given)}", where=node.where)
    if not given and not anchor.scope:
        raise UsageError(f"an anchor names one of {', '.join(KINDS)}", where=node.where)
    try:
        if anchor.statement is not None:
            patterns.statements(anchor.statement)
        for text in (anchor.contains, anchor.expression):
            if text is not None:
                patterns.expression(text)
    except SyntaxError as error:
        raise UsageError(f"not a pattern: {error.msg}", where=under(node, given[0]).where) from error
    for inner, key in ((anchor.after, "after"), (anchor.before, "before")):
        if inner is not None:
            _check_anchor(inner, under(node, key))


def _check_expression(text: str, node: Node, what: str) -> None:
    try:
        ast.parse(f"(\n{text}\n)" if balanced(text) else text, mode="eval")
    except SyntaxError as error:
        raise UsageError(f"{what} is no Python expression: {error.msg}", where=node.where) from error


def _fault(operation: ops.Coded, tree: ast.Module) -> str | None:
    """What the operation's code should have been, None when it is."""
    body = tree.body
    match operation:
        case ops.AddImport():
            fits = bool(body) and all(isinstance(line, ast.Import | ast.ImportFrom) for line in body)
            return None if fits else "import statements"
        case ops.WrapTry():
            hollow = len(body) == 1 and isinstance(body[0], ast.Try) and len(body[0].body) == 1
            return None if hollow and patterns.is_any(body[0].body[0]) else "one try with '...' for a body"  # type: ignore[attr-defined]
        case ops.AddClassField():
            return (
                None if body and all(isinstance(line, ast.AnnAssign) for line in body) else "annotated fields"
            )
        case ops.ReplaceDefinition():
            fits = len(body) == 1 and isinstance(
                body[0], ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
            )
            return None if fits else "one function or class"
        case ops.AddArgument():
            call = body[0].value  # type: ignore[attr-defined]
            fits = not call.args and len(call.keywords) == 1 and call.keywords[0].arg is not None
            return None if fits else "one keyword argument: name=value"
        case ops.AddParameter():
            return None if len(body[0].args.args) == 1 else "one parameter: name: type = default"  # type: ignore[attr-defined]
        case ops.AddBranch():
            return None if len(body) == 1 and body[0].orelse else "branches: elif ready: ..."  # type: ignore[attr-defined]
        case ops.AddItem():
            items = body[0].value  # type: ignore[attr-defined]
            return None if len(getattr(items, "elts", None) or items.keys) == 1 else "one item"
        case ops.ReplaceHeader():
            inner = getattr(body[0], "body", None) if len(body) == 1 else None
            hollow = isinstance(inner, list) and len(inner) == 1 and patterns.is_any(inner[0])
            return None if hollow else "one head with '...' for a body: if ready: ..."
        case ops.Insert():
            return None  # a comment alone may be put in as well
        case ops.ReplaceExpression():
            return None if len(body) == 1 and isinstance(body[0], ast.Expr) else "one expression"
    return None if body else "statements"
