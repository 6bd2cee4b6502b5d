"""The kinds of change a recipe can ask for, as recipe.yaml writes them.

Owns: the vocabulary, one struct an operation, ``op`` naming it. Refuses: to do them (placing does).
Code stands either in the recipe (``code:``) or in a file of its folder (``snippet:``); it is Python with
placeholders.
"""

from __future__ import annotations

from typing import Literal

from oeactl.core.anchors import Anchor
from oeactl.core.host import Value
from oeactl.core.snippets import Snippet


class Operation(Value, frozen=True, kw_only=True):
    """What all share. id: its name in messages and marks. builds_on: edits whose outcome it anchors on.

    absent: names of the module that would mean the engine has this already.
    """

    op: str
    id: str
    builds_on: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


class Coded(Operation, frozen=True, kw_only=True):
    """An operation that puts Python in."""

    code: str | None = None
    snippet: str | None = None


class AddImport(Coded, frozen=True, kw_only=True):
    """Import statements after the module's first run of imports, unless the module has them."""

    op: Literal["add_import"]


class DropImport(Operation, frozen=True, kw_only=True):
    """Take one name out of a ``from module import …``."""

    op: Literal["drop_import"]
    module: str
    name: str


class Define(Coded, frozen=True, kw_only=True):
    """Definitions before or after another statement, with blank lines between."""

    op: Literal["define_before", "define_after"]
    at: Anchor


class AddClassField(Coded, frozen=True, kw_only=True):
    """A field behind the last annotated one of the class that ``scope`` ends in."""

    op: Literal["add_class_field"]
    scope: tuple[str, ...]


class BodyStart(Coded, frozen=True, kw_only=True):
    """Statements at the start of a body, after its docstring. bound: names that must have a value there."""

    op: Literal["body_start"]
    scope: tuple[str, ...]
    bound: tuple[str, ...] = ()


class Insert(Coded, frozen=True, kw_only=True):
    """Statements before or after a statement. bound: names that must have a value there.

    below_comment: before it, and below the comment that leads up to it.
    """

    op: Literal["insert_before", "insert_after"]
    at: Anchor
    bound: tuple[str, ...] = ()
    below_comment: bool = False


class ReplaceExpression(Coded, frozen=True, kw_only=True):
    """Another expression; ``OEACTL.matched`` in it is the one that was there."""

    op: Literal["replace_expression"]
    at: Anchor


class ReplaceStatement(Coded, frozen=True, kw_only=True):
    """Other statements in the place of those that match (several, if the pattern has several).

    lead: the comment and the blank lines that lead up to them go too.
    """

    op: Literal["replace_statement"]
    at: Anchor
    bound: tuple[str, ...] = ()
    lead: bool = False


class ReplaceHeader(Coded, frozen=True, kw_only=True):
    """Another head, up to the colon, of a definition, ``if``, ``for``, …; the code has ``...`` for a body.

    at: a pattern of the whole head (``if ready: ...``), so that an unknown one is never overwritten.
    """

    op: Literal["replace_header"]
    at: Anchor


class AddBranch(Coded, frozen=True, kw_only=True):
    """``elif``s, or an ``else``, behind the branch of an ``if`` or ``elif``."""

    op: Literal["add_branch"]
    at: Anchor


class DeleteBranch(Operation, frozen=True, kw_only=True):
    """Take an ``elif`` out, with the comment that leads up to it; what follows it stays."""

    op: Literal["delete_branch"]
    at: Anchor


class ReplaceLead(Operation, frozen=True, kw_only=True):
    """Other comments and blank lines above a statement. was: those that must be there, each line stripped."""

    op: Literal["replace_lead"]
    at: Anchor
    was: str
    lines: str


class ReplaceTail(Operation, frozen=True, kw_only=True):
    """Other comments and blank lines behind the module's last statement. was: as for replace_lead."""

    op: Literal["replace_tail"]
    was: str
    lines: str


class ReplaceDefinition(Coded, frozen=True, kw_only=True):
    """Another function or class, decorators included, in the place of the one that ``scope`` ends in."""

    op: Literal["replace_definition"]
    scope: tuple[str, ...]


class AddParameter(Coded, frozen=True, kw_only=True):
    """A parameter of the function that ``scope`` ends in: ``flag: bool = False``."""

    op: Literal["add_parameter"]
    scope: tuple[str, ...]
    keyword_only: bool = False


class AddArgument(Coded, frozen=True, kw_only=True):
    """A keyword argument (``name=value``) at a call, or with ``pick: all`` and ``count`` at several."""

    op: Literal["add_argument"]
    at: Anchor


class AddItem(Coded, frozen=True, kw_only=True):
    """An item (``value``, or ``key: value``) at the end of a list, set, tuple or dict literal."""

    op: Literal["add_item"]
    at: Anchor


class WrapTry(Coded, frozen=True, kw_only=True):
    """Put the matching statements into a ``try``; the code is one, with ``...`` for a body."""

    op: Literal["wrap_try"]
    at: Anchor


class Delete(Operation, frozen=True, kw_only=True):
    """Take the matching statements out; a body left empty gets ``pass``. lead: as for replace_statement."""

    op: Literal["delete_statement"]
    at: Anchor
    lead: bool = False


class Append(Coded, frozen=True, kw_only=True):
    """Statements at the end of the module."""

    op: Literal["append"]


OPERATIONS: dict[str, type[Operation]] = {
    "add_import": AddImport,
    "drop_import": DropImport,
    "define_before": Define,
    "define_after": Define,
    "add_class_field": AddClassField,
    "body_start": BodyStart,
    "insert_before": Insert,
    "insert_after": Insert,
    "replace_expression": ReplaceExpression,
    "replace_statement": ReplaceStatement,
    "replace_definition": ReplaceDefinition,
    "replace_header": ReplaceHeader,
    "add_branch": AddBranch,
    "delete_branch": DeleteBranch,
    "replace_lead": ReplaceLead,
    "replace_tail": ReplaceTail,
    "add_parameter": AddParameter,
    "add_argument": AddArgument,
    "add_item": AddItem,
    "wrap_try": WrapTry,
    "delete_statement": Delete,
    "append": Append,
}


class Step(Value, frozen=True, kw_only=True):
    """An operation with its code read."""

    operation: Operation
    snippet: Snippet | None = None
