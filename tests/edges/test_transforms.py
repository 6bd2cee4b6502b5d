"""A recipe's own script passes the gates that any edit passes, and is never run unasked."""

from __future__ import annotations

import pytest

from oeactl.core.cases import run_cases
from oeactl.core.parameters import bind
from oeactl.core.plan import AlreadyApplied, Plan, Planned, make_plan
from oeactl.core.reasons import Refusal
from oeactl.core.recipe import Recipe, load_recipe
from oeactl.core.revert import Reverting, plan_revert
from oeactl.edges.transforms import ChildTransformer
from oeactl.errors import Refused, UsageError
from tests.support.surveys import HOLDER, after_write, survey_of

RECIPE = b"""\
id: doubled
revision: 1
title: Every constant of a table doubled
engine: {package: sglang}
parameters: {by: {type: int, default: 2}}
files: [{module: sglang.a, transform: transform.py}]
"""
SCRIPT = b"""\
import re
def transform(source, values):
    print("stray output")
    return re.sub(r"(?<== )[0-9]+", lambda m: str(int(m[0]) * values["by"]), source)
"""
BEFORE = "\ufeffa = 1\r\nb = 2  # ü\r\nc = None".encode()
AFTER = "\ufeffa = 3\r\nb = 6  # ü\r\nc = None".encode()


def recipe(script: bytes = SCRIPT, text: bytes = RECIPE) -> Recipe:
    return load_recipe(
        {
            "recipe.yaml": text,
            "transform.py": script,
            "cases/three/before.py": BEFORE,
            "cases/three/after.py": AFTER,
            "cases/three/case.yaml": b"set: {by: '3'}\n",
        }
    )


def plan(one: Recipe, before: bytes = BEFORE, *, limit_s: float = 60.0, **sets: str) -> Plan:
    bound = bind(one, sets, {}, ChildTransformer(limit_s))
    return make_plan(bound, survey_of({"sglang.a": before}), operation="o", applied_at="", applied_by=HOLDER)


def test_a_script_makes_the_new_text_which_is_taken_back_to_the_byte() -> None:
    made = plan(recipe(), by="3")
    assert isinstance(made, Planned)
    assert made.files[0].after == AFTER
    assert len(made.files[0].edits) == 1, "the lines that differ, not the whole file"
    survey = survey_of({"sglang.a": BEFORE})
    later = after_write(survey, {file.path: file.after for file in made.files}, made.layers_after)
    bound = bind(recipe(), {"by": "3"}, {}, ChildTransformer())
    again = make_plan(bound, later, operation="o", applied_at="", applied_by=HOLDER)
    assert isinstance(again, AlreadyApplied)
    back = plan_revert(later, recipe=None, force=False)
    assert isinstance(back, Reverting) and back.files[0].after == BEFORE


def test_it_is_not_run_unless_allowed() -> None:
    with pytest.raises(Refused, match="runs code of its own on this machine") as caught:
        bind(recipe(), {}, {})
    assert (caught.value.where, caught.value.hint) == ("transform.py", "read it, then --allow-code")
    with pytest.raises(Refused, match="runs code of its own"):
        run_cases(recipe())
    (result,) = run_cases(recipe(), ChildTransformer())
    assert result.ok, result


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (b"def transform(s, v): return 1\n", "it answered int, not str"),
        (b"def transform(s, v): return s[9]\ndef f(): return 1 / 0\nf()\n", "ZeroDivisionError"),
        (b"import os\ndef transform(s, v): return s + f'# {os.urandom(4)}'\n", "differently each time"),
        (b"import libcst, os\ndef transform(s, v): return os.environ['HOME']\n", "KeyError: 'HOME'"),
        (b"import time\ndef transform(s, v): time.sleep(60)\n", "did not end within 0.5 s"),
        (b"def transform(s, v): return s + 'def f(:\\n'\n", "not Python"),
        (b"def transform(s, v): return s + '\\nreturn 1\\n'\n", "does not compile"),
        (b"def transform(s, v): return s\n", "would change nothing here"),
        (b"def transform(s, v): return s + '\\udc80'\n", "the script failed"),
    ],
)
def test_what_a_script_does_wrong_is_a_refusal(script: bytes, said: str) -> None:
    limit_s = 0.5 if b"sleep" in script else 60.0
    made = plan(recipe(script), b"a = 1\n", limit_s=limit_s)
    assert isinstance(made, Refusal)
    assert said in made.reasons[0].what


@pytest.mark.parametrize(
    ("script", "said"),
    [(b"def f(:\n", "not Python"), (b"x = 1\n", "one function"), (b"def transform(s): pass\n", "one func")],
)
def test_what_is_no_script_does_not_load(script: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        recipe(script)


def test_a_transform_stands_alone() -> None:
    both = RECIPE.replace(b"py}", b"py, edits: [{id: a, op: append, code: x = 1}]}")
    with pytest.raises(UsageError, match="takes neither edits nor variants"):
        recipe(text=both)
    with pytest.raises(UsageError, match=r"no file 'transfrom\.py'"):
        recipe(text=RECIPE.replace(b"transform.py", b"transfrom.py"))
