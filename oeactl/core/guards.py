"""What must hold of a module before a recipe touches it, and which variant of the recipe fits it.

Owns: required and absent symbols, signatures, version ranges, the choice of a variant. Refuses: versions
as the only word; a fork that calls itself 0.0.0 is judged by what its source says.
"""

from __future__ import annotations

import ast

import msgspec

from oeactl.core.anchors import spots
from oeactl.core.host import Value
from oeactl.core.reasons import Kind, Reason
from oeactl.core.scopes import Definition, Function, bound_names, parameters
from oeactl.core.source import Source


class Needs(Value, frozen=True, kw_only=True):
    """Facts about a module's source.

    symbols: names that must be there (``Class.method``, ``Class.field``, ``function.local``); absent: names
    that must not; upstreamed: names that would mean the engine has the change already; parameters: for
    each function the names that its signature must have.
    """

    symbols: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    upstreamed: tuple[str, ...] = ()
    parameters: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


def unmet(source: Source, needs: Needs) -> tuple[Reason, ...]:
    """What of ``needs`` does not hold, each with its reason."""
    found: list[Reason] = []
    for name in needs.symbols:
        if not has(source.tree, name):
            found.append(_reason(source, f"there is no '{name}' in this module"))
    for name in needs.absent:
        if has(source.tree, name):
            found.append(_reason(source, f"there is a '{name}' in this module"))
    found += already(source, needs.upstreamed)
    for function, wanted in needs.parameters.items():
        missing = [name for name in wanted if name not in signature(source.tree, function)]
        if missing:
            what = f"'{function}' has no parameter {', '.join(map(repr, missing))}"
            found.append(_reason(source, what))
    return tuple(found)


def already(source: Source, names: tuple[str, ...]) -> tuple[Reason, ...]:
    """The names that tell that upstream has the change."""
    return tuple(
        _reason(source, f"the engine has this already: '{name}' is there", kind="upstreamed")
        for name in names
        if has(source.tree, name)
    )


def _reason(source: Source, what: str, *, kind: Kind = "guard") -> Reason:
    return Reason(kind=kind, what=what, where=source.where)


def has(tree: ast.Module, name: str) -> bool:
    """Whether the module binds a dotted name: its own, a class's, or a function's parameter or local."""
    *outer, last = name.split(".")
    holder: ast.AST | None = tree
    for link in outer:
        holder = _definition(holder, link)
        if holder is None:
            return False
    if isinstance(holder, Function) and last in parameters(holder):
        return True
    body = getattr(holder, "body", [])
    return any(last in bound_names(statement) for statement in body)


def signature(tree: ast.Module, function: str) -> frozenset[str]:
    """The names of a function's parameters, empty when there is no such function."""
    holder: ast.AST | None = tree
    for link in function.split("."):
        holder = _definition(holder, link)
        if holder is None:
            return frozenset()
    return frozenset(parameters(holder) if isinstance(holder, Function) else ())


def _definition(holder: ast.AST | None, name: str) -> ast.AST | None:
    found = [
        place.statement
        for place in (spots(holder, into_definitions=False) if holder is not None else ())
        if isinstance(place.statement, Definition) and place.statement.name == name
    ]
    return found[0] if len(found) == 1 else None


def known(version: str | None) -> bool:
    """Whether a version says anything: forks call themselves 0.0.0, an editable copy may have none."""
    return version is not None and not version.startswith("0.0.0")


def in_range(version: str | None, wanted: str | None) -> bool | None:
    """Whether a version lies in a range such as ``>=0.4.7, <0.6``; None when the version says nothing."""
    if wanted is None:
        return True
    if not known(version):
        return None
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        return SpecifierSet(wanted, prereleases=True).contains(Version(version or ""))
    except InvalidVersion:
        return None
