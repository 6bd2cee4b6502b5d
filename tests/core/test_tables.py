"""Runs as tables: a row for everything, void and failed included, and the same columns whatever there is."""

from __future__ import annotations

import json
from datetime import datetime

import msgspec

from oeactl.core.experiment import Failure
from oeactl.core.results import analyse
from oeactl.core.run import Arm, Listing, Run, Skipped
from oeactl.core.tables import Table, points, tables
from tests.core.test_verdicts import a_comparison, measured
from tests.support.runs import AT, OEA, a_run

KINDS = {"text": str, "integer": int, "number": int | float, "flag": bool, "time": datetime}


def a_listing() -> Listing:
    plan = a_comparison()
    trials = measured(plan, {"B": 1.2})
    trials[-1] = msgspec.structs.replace(
        trials[-1],
        points=(),
        outcome="failed",
        failure=Failure(kind="not started", what="x", first_error="E: y"),
    )
    compared = Run(path="/c", plan=plan, trials=tuple(trials), analysis=analyse(plan, tuple(trials), AT))
    return Listing(
        path="/results",
        runs=(a_run(), compared),
        skipped=(Skipped(path="/results/runs/2026/x/plan.json", why="not whole JSON: cut"),),
    )


def by_name(listing: Listing) -> dict[str, list[dict[str, object]]]:
    return {
        table.name: [dict(zip([c.name for c in table.columns], row, strict=True)) for row in table.rows]
        for table in tables(listing)
    }


def test_every_run_arm_trial_level_gate_and_verdict_is_a_row() -> None:
    found = by_name(a_listing())
    assert [row["what"] for row in found["runs"]] == ["bench", "ab"]
    assert [(row["arm"], row["build"]) for row in found["arms"][1:]] == [("A", "pristine"), ("B", "pristine")]
    assert len(found["trials"]) == 1 + 8
    assert len(found["points"]) == 2 + 7 * 2
    assert {row["gate"] for row in found["gates"]} >= {"completed", "warm_up"}
    (verdict,) = found["verdicts"]
    assert (verdict["arm"], verdict["against"]) == ("B", "A")
    assert verdict["ratio"] is not None
    assert found["skipped"][0]["why"] == "not whole JSON: cut"


def test_each_card_of_a_level_that_was_watched_is_a_row() -> None:
    found = by_name(a_listing())
    cards = [row for row in found["cards"] if row["run_id"] == a_run().plan.run_id][:2]
    assert [(row["concurrency"], row["card"], row["used"]) for row in cards] == [(4, 0, True), (4, 1, True)]
    card, level = found["cards"][0], found["points"][0]
    assert (card["sm_mhz_mean"], card["power_w_max"], card["throttled"]) == (1980, 431, "")
    assert (level["kv_used_tokens_max"], level["kv_available_tokens_min"], level["queue_s"]) == (
        384,
        3712,
        0.004,
    )
    assert (level["accept_length"], level["steady_tokens_per_s"]) == (None, None)
    assert found["points"][1]["kv_total_tokens"] is None


def test_what_is_void_or_failed_is_a_row_that_says_why() -> None:
    found = by_name(a_listing())
    good, void = found["points"][:2]
    assert (good["valid"], good["output_tokens_per_s"]) == (True, 400.0)
    assert (void["valid"], void["output_tokens_per_s"]) == (False, None)
    assert "none of 160 requests" in str(void["reasons"])
    assert (found["trials"][-1]["failure"], found["trials"][-1]["first_error"]) == ("not started", "E: y")
    assert json.loads(str(good["recipes"])) == [["oea", 1, {"k0": 2, "min_tokens": 2}]]


def test_a_value_is_of_its_columns_kind_or_null_and_the_columns_are_always_there() -> None:
    empty = Listing(path="", runs=())
    for table, nothing in zip(tables(a_listing()), tables(empty), strict=True):
        assert table.columns == nothing.columns and nothing.rows == ()
        assert len({column.name for column in table.columns}) == len(table.columns)
        for row in table.rows:
            for column, value in zip(table.columns, row, strict=True):
                assert value is None or isinstance(value, KINDS[column.kind]), (column, value)
                assert column.kind == "flag" or not isinstance(value, bool), column


def test_secrets_in_an_arms_launch_are_not_told() -> None:
    run = a_run()
    arm = Arm(name="A", recipes=(OEA,), args=("--api-key", "sk-123"), env={"HF_TOKEN": "hf_123", "X": "1"})
    plan = msgspec.structs.replace(run.plan, arms=(arm,))
    listing = Listing(path="", runs=(msgspec.structs.replace(run, plan=plan),))
    (row,) = by_name(listing)["arms"]
    assert "sk-123" not in str(row) and "hf_123" not in str(row)
    assert json.loads(str(row["env"])) == {"HF_TOKEN": "***", "X": "1"}


def test_no_column_is_a_word_that_sql_keeps_for_itself() -> None:
    """``SELECT pair, restart FROM points`` needs no quotes."""
    kept = {"order", "group", "user", "table", "end", "all", "when", "limit", "offset", "check", "default"}
    assert not kept & {column.name for table in tables(Listing(path="", runs=())) for column in table.columns}


def test_the_levels_are_a_table_by_themselves() -> None:
    found: Table = points([a_run()])
    assert found.name == "points" and len(found.rows) == 2
