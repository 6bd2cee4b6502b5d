"""Recipe oea on the real files of real releases: where it sits is checked by a walk of its own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

import pytest

from oeactl.core.host import Survey
from oeactl.core.parameters import bind
from oeactl.core.plan import AlreadyApplied, Plan, Planned, make_plan
from oeactl.core.reasons import Refusal
from oeactl.core.revert import Reverting, plan_revert
from oeactl.errors import Refused, UsageError
from tests.recipes.test_cases import RECIPES, read
from tests.support.surveys import HOLDER, after_write, survey_of
from tests.support.wheels import RELEASES, engine_file

RECIPE = read(RECIPES / "oea")
TOPK, ATTENTION = RECIPE.modules
OURS = ("_oea", "_Oea", "_oea_share", "_oea_logits", "_oea_note", "_OeaNote", "_OeaConfig")
GATE = "transform_select_experts_inputs"


def sources(version: str) -> dict[str, bytes]:
    return {module: engine_file(version, f"{module.replace('.', '/')}.py") for module in RECIPE.modules}


def plan(files: Mapping[str, bytes] | Survey, *, version: str | None = None, **sets: str) -> Plan:
    survey = files if isinstance(files, Survey) else survey_of(files, version=version)
    bound = bind(RECIPE, sets, {"num_experts_per_tok": 8})
    return make_plan(bound, survey, operation="op", applied_at="", applied_by=HOLDER)


def planned(version: str) -> tuple[Survey, Planned]:
    survey = survey_of(sources(version), version=version)
    made = plan(survey)
    assert isinstance(made, Planned), made
    return survey, made


def after(made: Planned, module: str) -> bytes:
    return next(file.after for file in made.files if file.module == module)


def names(node: ast.AST) -> set[str]:
    used = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    return used | {node.name for node in [node] if isinstance(node, ast.ClassDef)}


def definition(tree: ast.Module | ast.ClassDef, name: str) -> ast.FunctionDef | ast.ClassDef:
    (found,) = (
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
    )
    return found


def without_ours(node: ast.AST) -> Iterator[str]:
    """What is left of a body when the statements that name anything of ours are passed over."""
    for child in getattr(node, "body", []):
        named = names(child) & set(OURS)
        if isinstance(child, ast.FunctionDef | ast.ClassDef) and child.name not in OURS:
            yield f"{child.name}: {ast.dump(child.args) if isinstance(child, ast.FunctionDef) else ''}"
            yield from without_ours(child)
        elif not named:
            yield ast.dump(child)


@pytest.mark.network
@pytest.mark.parametrize("version", RELEASES)
def test_it_applies_once_and_goes_without_a_trace(version: str) -> None:
    survey, made = planned(version)
    assert made.listed, "a release of the table is a tested one"
    assert made.notes == ()
    later = after_write(survey, {file.path: file.after for file in made.files}, made.layers_after)
    again = plan(later)
    assert isinstance(again, AlreadyApplied)
    back = plan_revert(later, recipe="oea", force=False)
    assert isinstance(back, Reverting)
    assert {file.path: file.after for file in back.files} == {s.path: s.data for s in survey.files}


@pytest.mark.network
@pytest.mark.parametrize("version", RELEASES)
def test_the_menu_is_shrunk_right_after_the_transform_and_weighed_right_after_the_gate(version: str) -> None:
    _, made = planned(version)
    tree = ast.parse(after(made, TOPK))
    names_in_order = [getattr(node, "name", None) for node in tree.body]
    assert names_in_order.index("_Oea") < names_in_order.index("select_experts")
    body = definition(tree, "select_experts").body
    (transform,) = (
        at
        for at, statement in enumerate(body)
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Attribute)
        and statement.value.func.attr == GATE
    )
    placed = [at for at, statement in enumerate(body) if names(statement) & set(OURS)]
    texts = [ast.unparse(body[at]) for at in placed]
    old = version.startswith("0.4")
    call = placed[1 if old else 0]
    assert texts[placed.index(call)].startswith("router_logits, correction_bias, _oea_share = _oea.route(")
    assert placed[0] == transform + 1 and call - transform == (2 if old else 1)
    gate = next(
        at
        for at in range(call + 1, len(body))
        if any(
            isinstance(name, ast.Name) and name.id == "topk_weights" and isinstance(name.ctx, ast.Store)
            for name in ast.walk(body[at])
        )
    )
    assert isinstance(body[gate], ast.If)
    after_gate = placed[placed.index(call) + 1 :]
    assert after_gate == list(range(gate + 1, gate + (4 if old else 3)))
    assert ast.unparse(body[gate + 1]).startswith("if _oea_share is not None:")
    assert texts[-1] == "if _oea.counting:\n    _oea.count(topk_ids)"


@pytest.mark.network
@pytest.mark.parametrize("version", RELEASES)
def test_the_mode_is_noted_first_thing_in_attention(version: str) -> None:
    _, made = planned(version)
    tree = ast.parse(after(made, ATTENTION))
    layer = definition(tree, "RadixAttention")
    assert isinstance(layer, ast.ClassDef)
    body = definition(layer, "forward").body
    assert ast.unparse(body[0]) == "_oea_note.leave(self.layer_id, forward_batch)"
    order = [getattr(node, "name", None) for node in tree.body]
    assert order.index("_OeaNote") < order.index("RadixAttention")


@pytest.mark.network
@pytest.mark.parametrize("version", RELEASES)
def test_everything_else_is_as_it_was(version: str) -> None:
    survey, made = planned(version)
    for state in survey.files:
        assert state.data is not None
        before, changed = ast.parse(state.data), ast.parse(after(made, state.module))
        assert list(without_ours(before)) == list(without_ours(changed))
        kept = state.data.splitlines(keepends=True)
        new = iter(after(made, state.module).splitlines(keepends=True))
        assert all(any(line == other for other in new) for line in kept), "every old line, in order"


def test_parameters_are_held_against_the_model() -> None:
    with pytest.raises(UsageError, match="k0 is 9, but a token of this model has only 8 experts"):
        bind(RECIPE, {"k0": "9"}, {"num_experts_per_tok": 8})
    with pytest.raises(UsageError, match="has only 4"):
        bind(RECIPE, {"k0": "5"}, {"text_config": {"num_experts_per_tok": 4}})
    with pytest.raises(UsageError, match="k0 must be int"):
        bind(RECIPE, {"k0": "x"}, {})
    with pytest.raises(UsageError, match=r"min_tokens \(9\) is more than max_tokens \(8\)"):
        bind(RECIPE, {"min_tokens": "9", "max_tokens": "8"}, {})
    with pytest.raises(Refused, match="chooses 4 of 8 groups"):
        bind(RECIPE, {}, {"num_experts_per_tok": 8, "n_group": 8, "topk_group": 4})
    assert bind(RECIPE, {}, {"num_experts_per_tok": 8, "n_group": 1}).notes == ()
    assert bind(RECIPE, {}, {}).parameters == {"k0": 4, "min_tokens": 2, "max_tokens": 512}
    assert any("k0 <= top_k" in note for note in bind(RECIPE, {}, {}).notes)


@pytest.mark.network
def test_a_fork_without_a_version_is_judged_by_its_source_and_reported_unlisted() -> None:
    files = sources("0.5.20")
    files[TOPK] += b"\n# a fork's own line\n"
    made = plan(files, version="0.0.0+local")
    assert isinstance(made, Planned) and not made.listed
    assert any("unlisted (sglang 0.0.0+local)" in note for note in made.notes)


TRANSFORM = b"expert_location_dispatch.transform_select_experts_inputs("
ROUTER, LAYER = b"\ndef select_experts(", b"\nclass RadixAttention("
MUTATIONS: dict[str, tuple[str, bytes, bytes]] = {
    "call renamed": (TOPK, TRANSFORM, b"expert_location_dispatch.transform_inputs("),
    "module renamed": (TOPK, TRANSFORM, b"dispatch.transform_select_experts_inputs("),
    "function renamed": (TOPK, b"\ndef select_experts(", b"\ndef choose_experts("),
    "function doubled": (TOPK, ROUTER, ROUTER + b"): pass\n" + ROUTER),
    "parameter renamed": (TOPK, b"num_token_non_padded", b"num_real_tokens"),
    "logits renamed": (TOPK, b"router_logits", b"gate_logits"),
    "bias renamed": (TOPK, b"correction_bias", b"bias_of_experts"),
    "weights renamed": (TOPK, b"topk_weights", b"gate_weights"),
    "torch gone": (TOPK, b"import torch\n", b"import numpy as torch_\n"),
    "class renamed": (ATTENTION, b"class RadixAttention(", b"class PagedAttention("),
    "method renamed": (ATTENTION, b"def forward(", b"def attend("),
    "batch renamed": (ATTENTION, b"forward_batch", b"batch"),
    "class doubled": (ATTENTION, LAYER, LAYER + b"): pass\n" + LAYER),
    "syntax error": (ATTENTION, b"class RadixAttention(", b"class RadixAttention(("),
    "marks left behind": (TOPK, ROUTER, b"\n# >>> oeactl oea r1 x\n# <<< oeactl oea x" + ROUTER),
}


def around_transform(text: bytes, change: Callable[[list[bytes]], list[bytes]]) -> bytes:
    """The router's source with the lines of the transform's statement changed."""
    body = definition(ast.parse(text), "select_experts").body
    (statement,) = (node for node in body if GATE in ast.unparse(node))
    lines = text.splitlines(keepends=True)
    first, last = statement.lineno - 1, statement.end_lineno or 0
    return b"".join([*lines[:first], *change(lines[first:last]), *lines[last:]])


SHAPES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "call in a branch": lambda lines: [b"    if hidden_states:\n", *(b"    " + line for line in lines)],
    "call in a loop": lambda lines: [b"    for _ in range(2):\n", *(b"    " + line for line in lines)],
    "call doubled": lambda lines: [*lines, *lines],
    "call gone": lambda lines: [b"    pass\n"],
    "function split": lambda lines: [
        b"    return rest(router_logits)\n\n\ndef rest(router_logits):\n",
        *lines,
    ],
    "sharing its line": lambda lines: [*lines[:-1], lines[-1].rstrip() + b"; x = 1\n"],
}


@pytest.mark.network
@pytest.mark.parametrize("version", ["0.5.9", "0.5.20", "0.5.23"])
@pytest.mark.parametrize("shape", SHAPES)
def test_another_shape_of_the_call_is_refused(version: str, shape: str) -> None:
    files = sources(version)
    files[TOPK] = around_transform(files[TOPK], SHAPES[shape])
    made = plan(files, version="0.0.0")
    assert isinstance(made, Refusal), "never a silent miss, never an edit in the wrong place"
    assert any((reason.edit == "router-call" and reason.line) or reason.count != 1 for reason in made.reasons)


@pytest.mark.network
@pytest.mark.parametrize("version", ["0.5.9", "0.5.20", "0.5.23"])
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_drift_is_refused_and_named(version: str, mutation: str) -> None:
    module, old, new = MUTATIONS[mutation]
    files = sources(version)
    assert old in files[module]
    files[module] = files[module].replace(old, new)
    made = plan(files, version="0.0.0")
    assert isinstance(made, Refusal), "never a silent miss, never an edit in the wrong place"
    assert all(reason.where.endswith(".py") for reason in made.reasons)
    for reason in made.reasons:
        if reason.kind == "anchor":
            assert reason.nearest if reason.count == 0 else reason.candidates, reason
    assert made.error().exit_code == 3
