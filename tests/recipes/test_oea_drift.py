"""Recipe oea on real files that drifted, at every place it names: counted, and none missed in silence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec
import pytest

from oeactl.core.changes import changes
from oeactl.core.parameters import bind
from oeactl.core.plan import Planned
from oeactl.core.reasons import Refusal
from tests.recipes.test_oea_plan import RECIPE, plan, sources
from tests.support.drift import drifted, foreign, named
from tests.support.surveys import after_write, sha256, survey_of
from tests.support.wheels import EVERY_RELEASE

SEEN = ("0.4.10.post2", "0.5.9", "0.5.23")
"""``make compat`` drifts every release, the default tests some of different shapes."""
VERSIONS = [
    pytest.param(version, marks=pytest.mark.network if version in SEEN else pytest.mark.compat)
    for version in EVERY_RELEASE
]


@dataclass
class Found:
    """count: of every way of drifting. missed: edited all the same. unnamed: refused without saying where."""

    count: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)


def drift(version: str) -> Found:
    found = Found()
    files = sources(version)
    bound = bind(RECIPE, {}, {"num_experts_per_tok": 8})
    for file in RECIPE.files:
        data = files[file.module]
        variant = changes(bound, file, data, where="", version=version, python=None).variant
        for one in drifted(file, variant, data):
            made = plan({**files, file.module: one.data}, version="0.0.0")
            found.count[one.name.rpartition(": ")[2]] += 1
            if isinstance(made, Planned) and one.must_refuse:
                found.missed.append(f"{version} {one.name}")
            for reason in made.reasons if isinstance(made, Refusal) else ():
                if not named(reason):
                    found.unnamed.append(f"{version} {one.name}: {reason.what}")
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_no_drift_is_missed_in_silence(version: str) -> None:
    found = drift(version)
    assert found.missed == [] and found.unnamed == []
    assert found.count.total() >= 18 and len(found.count) >= 7, found.count


@pytest.mark.network
@pytest.mark.parametrize("version", ["0.5.9", "0.5.23"])
def test_another_hand_on_the_patched_files_is_always_seen(version: str) -> None:
    survey = survey_of(sources(version), version=version)
    made = plan(survey)
    assert isinstance(made, Planned)
    patched = after_write(survey, {file.path: file.after for file in made.files}, made.layers_after)
    count = 0
    for at, file in enumerate(made.files):
        for data in list(foreign(file.before, file.after))[::12]:
            states = list(patched.files)
            states[at] = msgspec.structs.replace(states[at], data=data, sha256=sha256(data))
            found = plan(msgspec.structs.replace(patched, files=tuple(states)))
            assert isinstance(found, Refusal), data
            assert {reason.kind for reason in found.reasons} <= {"foreign", "damaged"}
            count += 1
    assert count >= 15
