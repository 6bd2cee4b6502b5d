"""The records of a run: what is refused on reading."""

from __future__ import annotations

import json
import re
from datetime import UTC

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oeactl.core.host import Value
from oeactl.core.results import (
    allowed_environment,
    analyse,
    clean_label,
    dump,
    finite,
    moment,
    parse,
    record,
    run_id,
)
from oeactl.core.run import AppliedRecipe, Plan, PointRecord, Trial
from tests.support.runs import AT, OEA, SWEEP, a_plan, a_record, a_trial


def test_a_level_kept_before_experts_were_recorded_is_read() -> None:
    body = json.loads(dump(a_record(1, SWEEP.points[0])))
    del body["experts"]
    assert parse(json.dumps(body).encode(), PointRecord).experts is None


def test_what_is_written_is_strict_sorted_json_with_aware_utc_times() -> None:
    text = dump(a_trial()).decode()
    body = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert list(body) == sorted(body)
    assert body["started_at"].endswith("Z")
    assert text.endswith("}\n")
    assert parse(dump(a_trial()), Trial) == a_trial()
    assert parse(dump(a_trial()), Trial).started_at.tzinfo == UTC


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_a_number_is_never_written(bad: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        dump(a_trial(clock_offset_s=bad))


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(dump(a_plan())), **fields}).encode()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (changed(schema_version=3), "schema_version 3 is newer than this oeactl, which reads 2"),
        (changed(schema_version=0), "schema_version 0"),
        (changed(schema_version=True), "schema_version True"),
        (changed(schema_version="1"), "schema_version '1'"),
        (changed(kind="trial"), "not a plan: its kind is 'trial'"),
        (changed(kind=["plan"]), "not a plan"),
        (changed(surprise=1), "surprise"),
        (changed(created_at="2026-11-30T02:15:00"), "created_at"),
        (changed(sweep=None), "sweep"),
        (dump(a_plan())[:-40], "not whole JSON"),
        (b"", "not whole JSON"),
        (b"<<<<<<< HEAD\n" + dump(a_plan()), "not whole JSON"),
        (b"[]", "not whole JSON"),
        (b"\xff\xfe", "not whole JSON"),
        (dump(a_plan()).replace(b'"seed": 42', b'"seed": NaN'), "not whole JSON"),
    ],
)
def test_what_is_not_a_whole_record_of_a_known_version_is_refused_in_one_line(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        parse(data, Plan)
    assert "\n" not in str(refused.value)


def test_a_level_by_itself_is_read_back_too() -> None:
    level = a_record(1, SWEEP.points[0])
    assert parse(dump(level), PointRecord) == level


def test_a_run_is_named_by_time_label_and_token() -> None:
    assert run_id(AT, "OEA k0=2", "1f3a9c2e") == "20261130T021500Z-oea-k0-2-1f3a9c2e"


@given(st.text())
def test_any_label_becomes_part_of_a_folder_name(label: str) -> None:
    clean = clean_label(label)
    assert clean and len(clean) <= 40
    assert set(clean) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert clean_label(clean) == clean


def test_of_the_environment_only_what_bears_on_speed_is_kept_and_no_secret() -> None:
    kept = allowed_environment(
        {
            "NCCL_P2P_LEVEL": "SYS",
            "OMP_NUM_THREADS": "1",
            "SGLANG_API_KEY": "not-a-real-key",
            "HF_TOKEN": "not-a-real-token",
            "HOME": "/root",
            "PATH": "/x",
            "PYTHONPATH": "/x",
        }
    )
    assert kept == {"NCCL_P2P_LEVEL": "SYS", "OMP_NUM_THREADS": "1", "PYTHONPATH": "/x"}


def test_numbers_that_json_lacks_become_their_names() -> None:
    assert finite({"a": [float("inf"), 1.5, {"b": float("nan")}], "c": None}) == {
        "a": ["inf", 1.5, {"b": "nan"}],
        "c": None,
    }


def test_a_value_of_the_wire_may_grow_without_growing_the_results() -> None:
    class Grown(Value, frozen=True, kw_only=True):
        recipe: str
        revision: int
        parameters: dict[str, int]
        digest: str
        args: tuple[str, ...]
        env: dict[str, str]
        news: str

    grown = Grown(
        recipe="oea", revision=1, parameters=OEA.parameters, digest=OEA.digest, args=(), env={}, news="x"
    )
    assert record(AppliedRecipe, grown) == OEA


def test_the_summary_counts_void_levels_and_averages_only_valid_ones() -> None:
    twice = msgspec.structs.replace(
        a_trial(),
        name="002-A",
        points=(a_record(1, SWEEP.points[0], tokens_per_s=500.0), a_record(2, SWEEP.points[1])),
    )
    levels = analyse(a_plan(), (a_trial(), twice), AT).levels
    (low,), (high,) = levels[0].arms, levels[1].arms
    assert (low.trials, low.valid, low.output_tokens_per_s) == (2, 2, 450.0)
    assert (high.trials, high.valid, high.output_tokens_per_s) == (2, 1, 400.0)


def test_a_level_that_is_void_everywhere_has_no_figure() -> None:
    (arm,) = analyse(a_plan(), (a_trial(),), AT).levels[1].arms
    assert (arm.valid, arm.output_tokens_per_s, arm.output_tokens_per_s_per_gpu) == (0, None, None)


def test_moments_are_aware_and_keep_milliseconds() -> None:
    assert moment(AT).isoformat() == "2026-11-30T02:15:00.250000+00:00"
