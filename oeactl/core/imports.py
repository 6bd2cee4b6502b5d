"""What a module imports when it runs.

Owns: whether an import is there already. One inside ``try`` counts (adding it again would undo the
fallback); one under ``if TYPE_CHECKING`` does not, for it does not run. Refuses: to import anything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from oeactl.core.scopes import bound_names

Import = ast.Import | ast.ImportFrom


def running(tree: ast.Module) -> Iterator[ast.stmt]:
    """The module's statements that may run on import, those inside try, with and if included."""
    todo = list(tree.body)[::-1]
    while todo:
        statement = todo.pop()
        yield statement
        if isinstance(statement, ast.Try):
            inner = [statement.body, *(handler.body for handler in statement.handlers), statement.orelse]
            todo += [line for body in inner for line in body][::-1]


def present(tree: ast.Module, wanted: ast.stmt) -> bool:
    """Whether all that ``wanted`` (an import) brings is imported, under the same names."""
    have = {row for line in running(tree) if isinstance(line, Import) for row in _rows(line)}
    return isinstance(wanted, Import) and _rows(wanted) <= have


def binding_of(tree: ast.Module, wanted: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    """The names that ``wanted`` would bind and that the module binds to something else, with where."""
    mine = _rows(wanted) if isinstance(wanted, Import) else set()
    for line in running(tree):
        have = {row for node in ast.walk(line) if isinstance(node, Import) for row in _rows(node)}
        alike = {
            bound for origin, bound in mine if (origin, bound) in have or _same_package(origin, bound, have)
        }
        for name in {bound for _, bound in mine} & bound_names(line) - alike:
            yield name, line


def _same_package(origin: str, bound: str, have: set[tuple[str, str]]) -> bool:
    """``import a.b`` and ``import a.c`` bind the same ``a``."""
    return any(name == bound and other.split(".")[0] == bound == origin.split(".")[0] for other, name in have)


def run_of_imports(tree: ast.Module) -> int | None:
    """The index of the last statement of the module's first run of imports; None without one.

    A docstring may stand before it. Without imports, the docstring's index.
    """
    last = None
    for index, statement in enumerate(tree.body):
        told = index == 0 and ast.get_docstring(tree, clean=False) is not None
        if not told and not isinstance(statement, Import):
            break
        last = index
    return last


def _rows(line: Import) -> set[tuple[str, str]]:
    if isinstance(line, ast.Import):
        return {(alias.name, alias.asname or alias.name.split(".")[0]) for alias in line.names}
    origin = "." * line.level + (line.module or "")
    return {(f"{origin}:{alias.name}", alias.asname or alias.name) for alias in line.names}
