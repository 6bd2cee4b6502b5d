"""A file put there as a whole: only where nothing is, or in place of one that is known; and away again."""

from __future__ import annotations

import msgspec
import pytest

from oeactl.core.cases import run_cases
from oeactl.core.host import FileState, Journal, Survey
from oeactl.core.parameters import bind
from oeactl.core.plan import AlreadyApplied, Plan, Planned, make_plan
from oeactl.core.reasons import Refusal
from oeactl.core.recipe import Recipe, describe, load_recipe
from oeactl.core.revert import GoneByUpgrade, NothingToRevert, Reverting, plan_revert
from oeactl.core.whole import module_of, path_fault
from oeactl.errors import UsageError
from tests.support.surveys import HOLDER, ROOT, file_state, sha256, survey_of

NAME = "sglang/srt/configs/E=8,N=64,device_name=Some GPU,block_shape=[128, 128].json"
PATH = f"{ROOT.rpartition('/')[0]}/{NAME}"
CONTENT = b'{"1": {"BLOCK": 16}}\n'
HEAD = """\
id: {id}
revision: 1
title: A configuration
engine: {{package: sglang}}
whole_files:
  - {{path: "{path}", source: data/config.json{more}}}
"""
CASE = f'path: "{NAME}"\nsha256: {sha256(CONTENT)}\n'.encode()


def recipe(
    id: str = "tuned", *, path: str = NAME, more: str = "", rest: str = "", content: bytes = CONTENT
) -> Recipe:
    text = HEAD.format(id=id, path=path, more=f", {more}" if more else "") + rest
    case = CASE.replace(NAME.encode(), path.encode()).replace(
        sha256(CONTENT).encode(), sha256(content).encode()
    )
    if "replaces" in more:
        case = f'path: "{path}"\nrefuses: no such file here\n'.encode()
    return load_recipe(
        {"recipe.yaml": text.encode(), "data/config.json": content, "cases/there/case.yaml": case}
    )


def host(
    data: bytes | None = None, name: str = NAME, *, journal: Journal | None = None, **more: object
) -> Survey:
    path = f"{ROOT.rpartition('/')[0]}/{name}"
    state = FileState(module=name, path=path, missing=True)
    if data is not None:
        state = msgspec.structs.replace(file_state(name, data, **more), path=path)
    return msgspec.structs.replace(survey_of({}, journal=journal), files=(state,))


def plan(one: Recipe, survey: Survey) -> Plan:
    return make_plan(bind(one, {}, {}), survey, operation="op", applied_at="2026-01-01", applied_by=HOLDER)


def planned(one: Recipe, survey: Survey) -> Planned:
    made = plan(one, survey)
    assert isinstance(made, Planned), made
    return made


def said(made: Plan) -> str:
    assert isinstance(made, Refusal), made
    return "; ".join(f"{reason.kind}: {reason.what}" for reason in made.reasons)


def applied(survey: Survey, made: Planned) -> Survey:
    from oeactl.core.afterwards import afterwards

    return afterwards(survey, made.files, made.layers_after)


def test_a_file_goes_where_none_is_and_goes_away_again() -> None:
    made = planned(recipe(), host())
    (write,) = made.writes()
    assert (write.before_sha256, write.pristine_sha256, write.after) == ("", "", CONTENT)
    assert made.imports == () and made.listed
    later = applied(host(), made)
    assert isinstance(plan(recipe(), later), AlreadyApplied)
    back = plan_revert(later, recipe=None, force=False)
    assert isinstance(back, Reverting)
    (away,) = back.writes()
    assert (away.before_sha256, away.after, away.after_sha256) == (sha256(CONTENT), b"", "")


def test_an_empty_file_is_another_thing_than_none() -> None:
    made = planned(recipe(content=b""), host())
    (write,) = made.writes()
    assert (write.after, write.after_sha256) == (b"", sha256(b""))
    later = applied(host(), made)
    assert isinstance(plan(recipe(content=b""), later), AlreadyApplied)
    back = plan_revert(later, recipe=None, force=False)
    assert isinstance(back, Reverting) and back.files[0].after_sha256 == ""


def test_another_content_of_the_recipe_is_changed_in_place() -> None:
    later = applied(host(), planned(recipe(), host()))
    changed = planned(recipe(content=b"{}\n"), later)
    assert changed.replaces and changed.files[0].pristine_sha256 == ""
    assert (changed.files[0].before, changed.files[0].after) == (CONTENT, b"{}\n")


def test_a_file_of_the_recipe_that_its_next_text_lacks_goes_away() -> None:
    launch = "launch: {args: [--x]}\n"
    later = applied(host(), planned(recipe(rest=launch), host()))
    text = HEAD.format(id="tuned", path="x", more="").partition("whole_files")[0] + launch
    case = b"launch: {args: [--x]}\n"
    lean = load_recipe({"recipe.yaml": text.encode(), "cases/a/case.yaml": case})
    (write,) = planned(lean, later).writes()
    assert (write.before_sha256, write.after_sha256) == (sha256(CONTENT), "")


def test_what_is_there_already_is_refused_by_its_hash_or_called_upstreamed() -> None:
    other = b"{}\n"
    assert said(plan(recipe(), host(other))) == (
        f"guard: another file is there already: sha256 {sha256(other)}"
    )
    assert said(plan(recipe(), host(CONTENT))) == "upstreamed: the engine has this very file already"


def test_a_known_original_is_replaced_and_comes_back_and_an_unknown_one_is_refused() -> None:
    one = recipe(more=f"replaces: [{sha256(b'old')}]")
    made = planned(one, host(b"old"))
    assert made.files[0].pristine_sha256 == sha256(b"old")
    back = plan_revert(applied(host(b"old"), made), recipe=None, force=False)
    assert isinstance(back, Reverting) and back.files[0].after == b"old"
    assert "not the file that the recipe takes the place of" in said(plan(one, host(b"older")))
    assert "there is no such file here" in said(plan(one, host()))


def test_it_goes_where_the_release_has_a_folder_for_it_and_nowhere_else() -> None:
    other = NAME.replace("/configs/", "/old_configs/")
    one = recipe(more=f'or_path: ["{other}"]')
    first = msgspec.structs.replace(host().files[0], folder=False)
    second = host(name=other).files[0]
    made = planned(one, msgspec.structs.replace(host(), files=(first, second)))
    assert [file.module for file in made.files] == [other]
    neither = msgspec.structs.replace(host(), files=(first, msgspec.structs.replace(second, folder=False)))
    assert said(plan(one, neither)).startswith("guard: this engine has no such folder")
    made = planned(recipe(more="new_folder: true"), msgspec.structs.replace(host(), files=(first,)))
    assert [file.module for file in made.files] == [NAME]


def test_two_recipes_never_share_a_whole_file() -> None:
    later = applied(host(), planned(recipe(), host()))
    assert said(plan(recipe("other", content=b"{}\n"), later)) == (
        "overlap: recipes tuned and other have this file to themselves"
    )


def test_a_foreign_hand_on_it_is_seen_and_its_absence_closes_the_record() -> None:
    later = applied(host(), planned(recipe(), host()))
    (state,) = later.files
    foreign = msgspec.structs.replace(state, data=b"mine", sha256=sha256(b"mine"))
    survey = msgspec.structs.replace(later, files=(foreign,))
    assert said(plan(recipe(), survey)).startswith("foreign: ")
    forced = plan_revert(survey, recipe=None, force=True)
    assert isinstance(forced, Reverting) and forced.files[0].after_sha256 == ""
    gone = msgspec.structs.replace(later, files=host().files)
    back = plan_revert(gone, recipe=None, force=False)
    assert isinstance(back, NothingToRevert) and back.closes
    assert any("original files were put back" in note for note in planned(recipe(), gone).notes)


def test_a_replaced_file_that_is_gone_now_was_an_upgrade() -> None:
    one = recipe(more=f"replaces: [{sha256(b'old')}]")
    later = applied(host(b"old"), planned(one, host(b"old")))
    gone = msgspec.structs.replace(later, files=host().files)
    assert isinstance(plan_revert(gone, recipe=None, force=False), GoneByUpgrade)
    assert said(plan(one, gone)).startswith("missing: ")


def test_a_new_module_is_whole_python_and_is_probed() -> None:
    path = "sglang/srt/extra/__init__.py"
    made = planned(recipe(path=path, content=b"x = 1\n"), host(name=path))
    assert made.imports == ("sglang.srt.extra",)
    broken = plan(recipe(path=path, content=b"def f(:\n"), host(name=path))
    assert said(broken).startswith("unreadable: not Python")


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("vllm/a.json", "is not below sglang/"),
        ("sglang", "is not below sglang/"),
        ("/sglang/a", "is not below sglang/"),
        ("sglang/../a", "is no plain path"),
        ("sglang//a", "is no plain path"),
        ("sglang/a\nb", "is no plain path"),
        ("sglang/a b=[c].json", None),
    ],
)
def test_only_plain_paths_below_the_package_are_named(path: str, fault: str | None) -> None:
    assert path_fault(path, "sglang") == fault
    if fault and "\n" not in path:
        with pytest.raises(UsageError, match=r"is no"):
            recipe(path=path)


def test_a_source_that_is_not_there_and_a_path_named_twice_are_usage() -> None:
    text = HEAD.format(id="a", path=NAME, more="").replace("data/config.json", "data/confg.json")
    files = {"data/config.json": b"", "cases/there/case.yaml": CASE}
    with pytest.raises(UsageError, match=r"no file 'data/confg\.json'") as wrong:
        load_recipe({"recipe.yaml": text.encode(), **files})
    assert wrong.value.hint == "did you mean 'data/config.json'?"
    twice = HEAD.format(id="a", path=NAME, more="") + f'  - {{path: "{NAME}", source: data/config.json}}\n'
    with pytest.raises(UsageError, match="is listed twice"):
        load_recipe({"recipe.yaml": twice.encode(), **files})


def test_modules_and_paths_are_told_apart() -> None:
    names = ("sglang.a", "sglang/a.json", "sglang/b/c.py", "sglang/b/__init__.py")
    assert [module_of(name) for name in names] == ["sglang.a", None, "sglang.b.c", "sglang.b"]


def test_a_case_of_a_whole_file_passes_fails_and_refuses() -> None:
    one = recipe()
    assert describe(one)["whole_files"][0]["sha256"] == sha256(CONTENT)
    assert [result.ok for result in run_cases(one)] == [True]
    head = HEAD.format(id="a", path=NAME, more="").encode()
    other = {"recipe.yaml": head, "data/config.json": b"{}", "cases/a/case.yaml": CASE}
    (wrong,) = run_cases(load_recipe(other))
    told = f"what comes out has sha256 {sha256(b'{}')}, expected was {sha256(CONTENT)}"
    assert (wrong.ok, wrong.why) == (False, told)
    for files, ok in (
        ({"cases/a/case.yaml": CASE, "cases/a/before.json": b"{}"}, False),
        ({"cases/a/case.yaml": f'path: "{NAME}"\n'.encode(), "cases/a/after.json": CONTENT}, True),
        ({"cases/a/case.yaml": f'path: "{NAME}"\n'.encode(), "cases/a/after.json": b""}, False),
        (
            {
                "cases/a/case.yaml": f'path: "{NAME}"\nrefuses: another file is there\n'.encode(),
                "cases/a/before.json": b"{}",
            },
            True,
        ),
    ):
        text = HEAD.format(id="a", path=NAME, more="").encode()
        one = load_recipe({"recipe.yaml": text, "data/config.json": CONTENT, **files})
        assert [result.ok for result in run_cases(one)] == [ok]
    with pytest.raises(UsageError, match="does not say which") as wrong:
        load_recipe(
            {
                "recipe.yaml": text,
                "data/config.json": CONTENT,
                "cases/a/case.yaml": b"refuses: x\n",
                "cases/a/before.json": b"",
            }
        )
    assert wrong.value.hint == f"path: {NAME}"
