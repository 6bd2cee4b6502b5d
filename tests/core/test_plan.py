"""A plan is exact, made once, applied once, and taken back to the byte; anything else is refused in words."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oeactl.core.host import FileState, Layer, Survey
from oeactl.core.parameters import Bound
from oeactl.core.plan import AlreadyApplied, Plan, Planned, make_plan
from oeactl.core.reasons import Reason, Refusal
from oeactl.core.revert import Reverting, plan_revert
from tests.support.recipes import MODULE, bound_of
from tests.support.surveys import HOLDER, after_write, path_of, sha256, survey_of

TEXT = b"x = 1\n\n\ndef f():\n    return x\n"
NOTE = "- {id: note, op: insert_after, at: {statement: x = 1}, code: y = OEACTL.size}\n"
TAIL = "- {id: tail, op: append, code: z = OEACTL.size}\n"
PATH = path_of(MODULE)


def plan(bound: Bound, survey: Survey) -> Plan:
    return make_plan(bound, survey, operation="op1", applied_at="2026-01-01T00:00:00Z", applied_by=HOLDER)


def planned(bound: Bound, survey: Survey) -> Planned:
    made = plan(bound, survey)
    assert isinstance(made, Planned), made
    return made


def written(survey: Survey, made: Planned) -> Survey:
    return after_write(survey, {file.path: file.after for file in made.files}, made.layers_after)


def reasons(made: Plan) -> tuple[Reason, ...]:
    assert isinstance(made, Refusal), made
    return made.reasons


def host(text: bytes = TEXT, **more: object) -> Survey:
    return survey_of({MODULE: text}, **more)  # type: ignore[arg-type]


def touched(survey: Survey, **changes: object) -> Survey:
    """The same host, its file's state changed."""
    (state,) = survey.files
    data = changes.get("data", state.data)
    assert isinstance(data, bytes)
    fresh: FileState = msgspec.structs.replace(state, **{"data": data, "sha256": sha256(data), **changes})
    return msgspec.structs.replace(survey, files=(fresh,))


def test_a_plan_says_all_that_a_write_needs() -> None:
    made = planned(bound_of(NOTE), host())
    (write,) = made.writes()
    assert (write.module, write.path) == (MODULE, PATH)
    assert write.before_sha256 == write.pristine_sha256 == sha256(TEXT)
    assert write.after_sha256 == sha256(write.after)
    assert made.layers_after == (made.layer,)
    assert made.layer.parameters == made.parameters == {"size": 4}
    assert made.digest.encode() in write.after
    assert (made.replaces, made.listed) == (False, False)
    assert made.layer.operation == "op1"


def test_the_digest_is_of_the_plan_alone() -> None:
    here = planned(bound_of(NOTE), host())
    elsewhere = host(version="2.0", python="3.12.1")
    moved = msgspec.structs.replace(elsewhere.files[0], path="/srv/other/a.py")
    there = planned(bound_of(NOTE), msgspec.structs.replace(elsewhere, files=(moved,)))
    assert here.digest == there.digest and len(here.digest) == 64
    others = [
        planned(bound_of(NOTE, size="5"), host()),
        planned(bound_of(NOTE, revision=2), host()),
        planned(bound_of(NOTE, id="other"), host()),
        planned(bound_of(NOTE), host(TEXT + b"# more\n")),
        planned(bound_of(NOTE + TAIL), host()),
    ]
    assert len({here.digest, *(made.digest for made in others)}) == 6


def test_applied_twice_is_applied_once() -> None:
    survey = host()
    made = planned(bound_of(NOTE), survey)
    again = plan(bound_of(NOTE), written(survey, made))
    assert isinstance(again, AlreadyApplied)
    assert again.layer == made.layer


@pytest.mark.parametrize("other", [{"size": "9"}, {"revision": 2}])
def test_other_parameters_or_another_revision_are_changed_in_place(other: dict[str, object]) -> None:
    survey = host()
    stack = written(survey, planned(bound_of(NOTE), survey))
    stack = written(stack, planned(bound_of(TAIL, id="second"), stack))
    changed = planned(bound_of(NOTE, **other), stack)  # type: ignore[arg-type]
    assert changed.replaces
    assert [layer.recipe for layer in changed.layers_after] == ["trial", "second"]
    fresh = planned(bound_of(NOTE, **other), host())  # type: ignore[arg-type]
    second = planned(bound_of(TAIL, id="second"), written(host(), fresh))
    assert changed.files[0].after == second.files[0].after, "as if it had been applied so from the start"


def test_a_recipes_text_that_changed_under_its_revision_is_applied_anew_and_said() -> None:
    survey = host()
    stack = written(survey, planned(bound_of(NOTE), survey))
    changed = planned(bound_of(NOTE + TAIL), stack)
    assert changed.replaces
    assert any("text changed under the same revision" in note for note in changed.notes)


def test_what_is_on_disk_stays_applied_though_it_could_not_be_made_today() -> None:
    survey = host()
    stack = written(survey, planned(bound_of(NOTE), survey))
    lost = "- {id: note, op: insert_after, at: {statement: x = 2}, code: y = OEACTL.size}\n"
    assert isinstance(plan(bound_of(lost), stack), AlreadyApplied)


def test_two_recipes_on_one_file_and_either_taken_off_first() -> None:
    survey = host()
    one = written(survey, planned(bound_of(NOTE), survey))
    both = written(one, planned(bound_of(TAIL, id="second"), one))
    for first, rest in (("trial", "second"), ("second", "trial")):
        back = plan_revert(both, recipe=first, force=False)
        assert isinstance(back, Reverting)
        assert [layer.recipe for layer in back.layers_after] == [rest]
        alone = planned(bound_of(NOTE if rest == "trial" else TAIL, id=rest), host())
        assert back.files[0].after == alone.files[0].after
    everything = plan_revert(both, recipe=None, force=False)
    assert isinstance(everything, Reverting)
    assert everything.files[0].after == TEXT


def test_recipes_that_change_the_same_text_are_refused_by_name_and_line() -> None:
    survey = host()
    one = "- {id: a, op: replace_expression, at: {scope: [def f], expression: x}, code: OEACTL.matched + 1}\n"
    two = "- {id: a, op: replace_statement, at: {scope: [def f], statement: return x}, code: return 2}\n"
    stack = written(survey, planned(bound_of(one), survey))
    (reason,) = reasons(plan(bound_of(two, id="second"), stack))
    assert (reason.kind, reason.line) == ("overlap", 5)
    assert "trial and second change the same text" in reason.what


def test_a_foreign_edit_beside_or_inside_ours_is_refused_with_three_ways() -> None:
    survey = host()
    stack = written(survey, planned(bound_of(NOTE), survey))
    (state,) = stack.files
    assert state.data is not None
    for data in (state.data + b"foreign = 1\n", state.data.replace(b"y = 4", b"y = 5")):
        for bound in (bound_of(NOTE), bound_of(TAIL, id="second")):
            (reason,) = reasons(plan(bound, touched(stack, data=data)))
            assert (reason.kind, reason.where) == ("foreign", PATH)
            assert "as oeactl left it" in (reason.diff or "") and "y = 4" in (reason.diff or "")


def test_our_marks_without_a_record_are_damage() -> None:
    made = planned(bound_of(NOTE), host())
    (reason,) = reasons(plan(bound_of(NOTE), host(made.files[0].after)))
    assert reason.kind == "damaged"
    assert [place.line for place in reason.candidates] == [2, 4]


def test_half_applied_is_refused_and_points_to_revert() -> None:
    bound = bound_of(NOTE)
    other = bound_of(NOTE, id="trial", module="sglang.b").recipe.files[0]
    both = Bound(
        recipe=msgspec.structs.replace(bound.recipe, files=(*bound.recipe.files, other)),
        parameters=bound.parameters,
    )
    survey = survey_of({MODULE: TEXT, "sglang.b": TEXT})
    made = planned(both, survey)
    assert len(made.files) == 2
    stack = written(survey, made)
    half = msgspec.structs.replace(stack, files=(stack.files[0], survey.files[1]))
    (reason,) = reasons(plan(both, half))
    assert (reason.kind, reason.where, reason.hint) == ("damaged", path_of("sglang.b"), "oeactl revert")


def test_originals_put_back_by_hand_close_the_old_record() -> None:
    survey = host()
    stack = written(survey, planned(bound_of(NOTE), survey))
    made = planned(bound_of(NOTE, size="7"), touched(stack, data=TEXT))
    assert not made.replaces and len(made.layers_after) == 1
    assert any("original files were put back" in note for note in made.notes)


def test_an_upgraded_file_is_a_new_original() -> None:
    survey = host()
    stack = written(survey, planned(bound_of(NOTE), survey))
    newer = b"# newer\n" + TEXT
    upgraded = touched(stack, data=newer, record_sha256=sha256(newer))
    made = planned(bound_of(NOTE), upgraded)
    assert made.files[0].pristine_sha256 == sha256(newer)
    assert any("the engine was upgraded" in note for note in made.notes)


@pytest.mark.parametrize(
    ("changes", "kind", "what"),
    [
        ({"missing": True, "data": b""}, "missing", "no module sglang.a"),
        ({"writable": False}, "read-only", "cannot be written"),
        ({"problem": "on a read-only file system"}, "read-only", "on a read-only file system"),
    ],
)
def test_files_that_cannot_be_written_are_refused(changes: dict[str, object], kind: str, what: str) -> None:
    (reason,) = reasons(plan(bound_of(NOTE), touched(host(), **changes)))
    assert reason.kind == kind and what in reason.what


def test_a_lost_anchor_names_line_and_text_of_the_nearest() -> None:
    survey = host(TEXT.replace(b"x = 1", b"x = 11"))
    (reason,) = reasons(plan(bound_of(NOTE), survey))
    assert (reason.kind, reason.count, reason.where) == ("anchor", 0, PATH)
    assert (reason.nearest[0].line, reason.nearest[0].text) == (1, "x = 11")
    error = Refusal(recipe="trial", reasons=(reason,)).error()
    assert error.exit_code == 3
    assert any(f"{PATH}:1: x = 11" in line for line in error.details)


def test_nothing_to_change_is_no_success() -> None:
    edit = "- {id: i, op: add_import, code: import os}\n"
    (reason,) = reasons(plan(bound_of(edit), host(b"import os\n")))
    assert (reason.kind, reason.what) == ("nothing", "the recipe would change nothing here")


def test_listed_means_that_the_original_was_tested() -> None:
    more = f"tested: [{{version: '1.0', sha256: {sha256(TEXT)}}}]\n"
    assert planned(bound_of(NOTE, more=more), host()).listed
    unlisted = planned(bound_of(NOTE, more=more), host(TEXT + b"\n", version="0.0.0"))
    assert not unlisted.listed
    assert any("unlisted (sglang 0.0.0)" in note for note in unlisted.notes)


VARIANTS = """\
variants:
  - id: exact
    sha256: [{sha}]
    edits: [{{id: v, op: append, code: exact = 1}}]
  - id: newer
    versions: ">=2"
    when: {{symbols: [f]}}
    edits: [{{id: v, op: append, code: newer = 1}}]
  - id: older
    when: {{symbols: [f], absent: [g], parameters: {{f: [a]}}}}
    edits: [{{id: v, op: append, code: older = 1}}]
"""


@pytest.mark.parametrize(
    ("text", "version", "chosen"),
    [
        (b"def f(): pass\n", "1.0", b"exact = 1"),
        (b"def f(a): pass\n", "2.1", b"newer = 1"),
        (b"def f(a): pass\n", "1.0", b"older = 1"),
        (b"def f(a): pass\n", "0.0.0", b"newer = 1"),
        (b"def f(a): pass\n", None, b"newer = 1"),
    ],
)
def test_a_variant_is_chosen_by_hash_then_version_then_guards(
    text: bytes, version: str | None, chosen: bytes
) -> None:
    more = VARIANTS.format(sha=sha256(b"def f(): pass\n"))
    made = planned(bound_of(TAIL, more=more), host(text, version=version))
    assert chosen in made.files[0].after


def test_no_variant_says_why_each_does_not_fit() -> None:
    more = VARIANTS.format(sha=sha256(b""))
    (reason,) = reasons(plan(bound_of(TAIL, more=more), host(b"def g(): pass\n")))
    assert reason.kind == "guard"
    told = "exact: for another file; newer: for >=2, this is 1.0; older: there is no 'f' in this module"
    assert told in reason.what


def test_guards_refuse_and_upstream_is_told_apart() -> None:
    more = "require: {symbols: [f.q, missing], parameters: {f: [a]}, upstreamed: [x]}\n"
    found = reasons(plan(bound_of(NOTE, more=more), host()))
    assert [(reason.kind, reason.what) for reason in found] == [
        ("guard", "there is no 'f.q' in this module"),
        ("guard", "there is no 'missing' in this module"),
        ("upstreamed", "the engine has this already: 'x' is there"),
        ("guard", "'f' has no parameter 'a'"),
    ]
    only = plan(bound_of(NOTE, more="require: {upstreamed: [x]}\n"), host())
    assert isinstance(only, Refusal) and only.upstreamed
    assert "nothing left for the recipe to do" in (only.error().hint or "")


def test_a_layer_on_disk_comes_back_from_json_as_it_went() -> None:
    made = planned(bound_of(NOTE), host())
    assert msgspec.json.decode(msgspec.json.encode(made.layer), type=Layer) == made.layer


_NAMES = st.sampled_from(["a", "b", "c_1"])
_LINES = st.lists(
    st.one_of(
        st.builds("{} = {}".format, _NAMES, st.integers(0, 99)),
        st.builds("{}({!r})".format, _NAMES, st.text(st.characters(codec="utf-8"), max_size=6)),
        st.sampled_from(["pass", "# a comment", "", 's = """two', "if b: a = 1"]),
    ),
    max_size=4,
)


@st.composite
def modules(draw: st.DrawFn) -> bytes:
    """A generated module with one ``x = 1`` at some depth, in some layout (not always valid Python)."""
    unit = draw(st.sampled_from(["    ", "  ", "\t"]))
    lines = ["x = 1" + draw(st.sampled_from(["", "  # why", " ", "; a = 2"]))]
    for name in draw(st.lists(_NAMES, max_size=2)):
        head = draw(st.sampled_from(["def {}():", "class {}:", "if {}:", "@b\ndef {}(a):"])).format(name)
        inner = [*draw(_LINES), *lines, *draw(_LINES)]
        lines = [*head.split("\n"), *(unit + line if line else line for line in inner)]
    text = "\n".join([*draw(_LINES), *lines, *draw(_LINES)]) + draw(st.sampled_from(["", "\n", "\n\n"]))
    text = text.replace('"""two', '"""two\n lines"""').replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


KINDS = (
    NOTE,
    TAIL,
    NOTE + TAIL,
    '- {id: a, op: insert_before, at: {statement: x = 1}, code: "if OEACTL.size:\\n    pass"}\n',
    "- {id: b, op: replace_expression, at: {statement: x = 1, part: value}, code: OEACTL.matched + 1}\n",
    "- {id: c, op: replace_statement, at: {statement: x = 1}, code: x = OEACTL.size}\n",
    "- {id: d, op: delete_statement, at: {statement: x = 1}}\n",
    '- {id: e, op: wrap_try, at: {statement: x = 1}, code: "try:\\n    ...\\nfinally:\\n    pass"}\n',
    "- {id: f, op: add_import, code: import os}\n",
    '- {id: g, op: add_branch, at: {statement: "if b: ...", pick: first}, code: "elif OEACTL.size: x()"}\n',
    "- {id: h, op: replace_tail, was: '', lines: '# end'}\n",
)


@settings(max_examples=200, deadline=None)
@given(modules(), st.sampled_from(KINDS))
def test_twice_is_once_and_back_is_the_bytes_on_generated_modules(text: bytes, edits: str) -> None:
    try:
        compile(text, "m.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        assume(False)
    survey = host(text)
    bound = bound_of(edits)
    made = plan(bound, survey)
    if isinstance(made, Refusal):
        assert edits != TAIL and made.reasons[0].kind in ("anchor", "edit"), made
        return
    assert isinstance(made, Planned)
    assert made.files[0].after != text
    later = written(survey, made)
    assert isinstance(plan(bound, later), AlreadyApplied)
    back = plan_revert(later, recipe=None, force=False)
    assert isinstance(back, Reverting)
    assert back.files[0].after == text
    assert back.layers_after == ()
