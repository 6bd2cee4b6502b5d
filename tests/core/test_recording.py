"""The records of quality: how a recording is named and which may be compared."""

from __future__ import annotations

import msgspec
import pytest

from oeactl.core.prompts import PROMPTS, prompts_sha256
from oeactl.core.recording import Floor, Recording, Settings, check_comparable
from oeactl.core.results import moment
from oeactl.core.run import RawFile
from oeactl.errors import UsageError
from tests.core.test_attachments import agreement
from tests.support.runs import AT, OEA, a_trial


def a_recording(**changes: object) -> Recording:
    trial = a_trial()
    recording = Recording(
        recording_id="20261130T021500Z-oea-1f3a9c2e",
        label="oea",
        created_at=moment(AT),
        ended_at=moment(AT + 90),
        oeactl_version="0.1.0",
        host="@local",
        api="sglang",
        settings=Settings(
            prompts=32, prompts_sha256="ab" * 32, output_len=48, top_logprobs=5, passes=3, concurrency=16
        ),
        model=trial.model,
        floors=(Floor(condition="alone", agreement=agreement(1.0)),),
        answers=RawFile(sha256="cd" * 32, bytes=4711),
        engine=trial.engine,
        pid=700,
        start_ticks=9000,
        recipes=(OEA,),
        activations=trial.activations,
    )
    return msgspec.structs.replace(recording, **changes)


def test_a_recording_names_its_build() -> None:
    assert a_recording().build == "oea (k0=2, min_tokens=2) on sglang 0.5.20"
    assert a_recording(recipes=()).build == "pristine on sglang 0.5.20"
    assert a_recording(recipes=(), engine=None).build == "oea", "of a URL only the label is known"


def test_what_else_differs_is_said() -> None:
    one = a_recording(recording_id="one", recipes=())
    assert check_comparable((one,), a_recording()) == ()
    assert check_comparable((one,), a_recording(host="lab")) == ("the host differs: @local and lab",)
    (same,) = check_comparable((one,), a_recording(recipes=()))
    assert "same build" in same


def test_a_baseline_of_two_builds_is_refused() -> None:
    one, two = a_recording(recording_id="one", recipes=()), a_recording(recording_id="two")
    with pytest.raises(UsageError, match="two builds"):
        check_comparable((one, two), a_recording())


def test_the_prompts_are_many_and_have_not_changed() -> None:
    """Whoever changes one makes every recording before incomparable, and changes this hash."""
    assert len(PROMPTS) == len(set(PROMPTS)) == 32
    assert prompts_sha256(PROMPTS)[:16] == "bf1043b25c556afc"
