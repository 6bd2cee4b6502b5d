"""Values for a recipe's parameters, from text, and what they and the model must satisfy.

Owns: reading ``--set`` text, defaults, rules and guards. Refuses: silence about a rule it cannot decide;
that is a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oeactl.core.document import nearest
from oeactl.core.host import Value
from oeactl.core.recipe import Recipe, value_fault
from oeactl.core.recipe_document import Fact, Parameter, Plain, Rule
from oeactl.core.rules import UNKNOWN, decide, names
from oeactl.core.transform import Transformer
from oeactl.errors import Refused, UsageError


class Bound(Value, frozen=True, kw_only=True):
    """A recipe with a value for every parameter. notes: what could not be checked, one line each.

    transformer: runs the recipe's scripts, where it has any.
    """

    recipe: Recipe
    parameters: dict[str, Any]
    notes: tuple[str, ...] = ()
    transformer: Transformer | None = None


def bind(
    recipe: Recipe,
    sets: Mapping[str, str],
    facts: Mapping[str, object],
    transformer: Transformer | None = None,
) -> Bound:
    """Give every parameter its value. sets: ``name -> text``; facts: the model's config.json, {} if unknown.

    Raises UsageError for an unknown name, a value of the wrong type or range, a rule that fails; Refused
    for a model that the recipe is not for, and for a recipe with code of its own and no transformer.
    """
    _allow_code(recipe, transformer)
    known = recipe.document.parameters
    for name in sets:
        if name not in known:
            meant = nearest(name, known)
            raise UsageError(
                f"recipe {recipe.id} has no parameter '{name}'",
                where=f"--set {name}={sets[name]}",
                hint=f"did you mean '{meant}'?" if meant else f"parameters: {', '.join(known) or 'none'}",
            )
    values = {
        name: _value(name, parameter, sets[name]) if name in sets else _plain(parameter, parameter.default)
        for name, parameter in known.items()
    }
    scope = {**_facts(recipe.document.facts, facts), **values}
    notes = []
    for rule, guard in (
        *((rule, False) for rule in recipe.document.rules),
        *((rule, True) for rule in recipe.document.guards),
    ):
        holds = _decide(rule, scope)
        if holds is None:
            notes.append(_unchecked(recipe, rule, scope))
        elif not holds:
            raise _broken(recipe, rule, scope, guard=guard, sets=sets)
    return Bound(recipe=recipe, parameters=values, notes=tuple(notes), transformer=transformer)


def _allow_code(recipe: Recipe, transformer: Transformer | None) -> None:
    scripts = [file.script.where for file in recipe.files if file.script is not None]
    if scripts and transformer is None:
        raise Refused(
            f"recipe {recipe.id} runs code of its own on this machine",
            where=scripts[0],
            hint="read it, then --allow-code",
        )


def _value(name: str, parameter: Parameter, text: str) -> Plain:
    value: Plain = text
    try:
        if parameter.type == "bool":
            value = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[
                text.lower()
            ]
        elif parameter.type == "int":
            value = int(text)
        elif parameter.type == "float":
            value = float(text)
        fault = value_fault(parameter, value)
    except (ValueError, KeyError):
        fault = f"must be {parameter.type}, not '{text}'"
    if fault:
        raise UsageError(f"{name} {fault}", where=f"--set {name}={text}", hint=parameter.about or None)
    return value


def _plain(parameter: Parameter, value: Plain) -> Plain:
    return float(value) if parameter.type == "float" else value


def _facts(wanted: Mapping[str, Fact], config: Mapping[str, object]) -> dict[str, object]:
    return {name: _fact(fact, config) for name, fact in wanted.items()}


def _fact(fact: Fact, config: Mapping[str, object]) -> object:
    for key in fact.keys:
        value: object = config
        for link in key.split("."):
            value = value.get(link) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return UNKNOWN if fact.default is None or not config else fact.default


def _decide(rule: Rule, scope: Mapping[str, object]) -> bool | None:
    try:
        return decide(rule.check, scope)
    except TypeError:
        return None  # a config.json that says "eight" decides nothing


def _unchecked(recipe: Recipe, rule: Rule, scope: Mapping[str, object]) -> str:
    unknown = sorted(name for name in names(rule.check) if scope[name] is UNKNOWN)
    keys = [key for name in unknown for key in recipe.document.facts[name].keys[:1]]
    lacking = (
        f"the model's config.json is not known, or has no {', '.join(keys)}" if keys else "values differ"
    )
    return f"not checked: {rule.check} ({lacking})"


def _broken(
    recipe: Recipe, rule: Rule, scope: Mapping[str, object], *, guard: bool, sets: Mapping[str, str]
) -> UsageError | Refused:
    message = rule.message.format_map({name: value for name, value in scope.items() if value is not UNKNOWN})
    if guard:
        return Refused(f"{recipe.id}: {message}", where="the model's config.json", hint="see: oeactl recipes")
    given = [f"{name}={sets[name]}" for name in sorted(names(rule.check)) if name in sets]
    return UsageError(
        message,
        where=f"--set {' --set '.join(given)}" if given else f"recipe {recipe.id}",
        hint=f"it must hold that {rule.check}",
    )
