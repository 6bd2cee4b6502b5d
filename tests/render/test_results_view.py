"""Results on a terminal: every figure with its unit, whole on any width, and void levels named as such."""

from __future__ import annotations

import io
import json

import msgspec
import pytest

from oeactl.core.compare import differences
from oeactl.core.load import Cell
from oeactl.core.matrix import by_context
from oeactl.core.results import analyse
from oeactl.core.run import Listing, PointRecord, Run, Skipped, SteadyRate
from oeactl.core.saturation import Goodput, Saturation
from oeactl.core.telemetry import Watched
from oeactl.render.results import (
    comparison_document,
    comparison_view,
    level_table,
    listing_document,
    listing_view,
    run_document,
    run_view,
)
from oeactl.render.watched import watched_table
from tests.core.test_verdicts import a_comparison, measured
from tests.support.runs import AT, RUN_ID, SWEEP, a_plan, a_record, a_run, a_trial


def shown(view: object, width: int = 100) -> str:
    from rich.console import Console

    stream = io.StringIO()
    Console(file=stream, width=width, highlight=False, no_color=True).print(view)
    return stream.getvalue()


def valid_points(*rates: float) -> tuple[PointRecord, ...]:
    return tuple(
        a_record(index, point, tokens_per_s=rate)
        for index, (point, rate) in enumerate(zip(SWEEP.points, rates, strict=True), start=1)
    )


def run_of(*rates: float, label: str = "oea") -> Run:
    run = a_run(points=valid_points(*rates), path=f"/results/{label}")
    return msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, label=label))


def test_the_table_has_level_throughput_latency_and_validity_with_units() -> None:
    lines = shown(level_table(a_trial(), width=100)).splitlines()
    assert lines[0].split() == [
        "tokens",
        "output",
        "tok/s",
        *("TTFT", "ms") * 2,
        *("TPOT", "ms") * 2,
        "experts",
    ]
    assert lines[1].split() == [
        "level",
        "in/out",
        "tok/s",
        "per",
        "GPU",
        "mean",
        "p99",
        "mean",
        "p99",
        "a",
        "step",
        "valid",
    ]
    assert lines[2].split() == ["4", "64/32", "400.0", "200.0", "60.0", "90.0", "8.00", "12.00", "9.8", "yes"]
    assert lines[3].split() == ["16", "64/32", *"-------", "void:", "completed"]


def test_figures_stand_right_under_their_heads() -> None:
    lines = shown(level_table(a_trial(points=valid_points(99.5, 12345.6)), width=100)).splitlines()
    end = lines[2].index("99.5") + len("99.5")
    assert lines[3][:end].endswith("12,345.6")
    assert lines[0][:end].endswith("output")


@pytest.mark.parametrize("width", [200, 80, 60, 50, 40, 32])
def test_on_any_width_no_line_breaks_and_throughput_and_validity_stay(width: int) -> None:
    lines = shown(level_table(a_trial(points=valid_points(400.0, 1000.0)), width=width), width).splitlines()
    assert len(lines) == 4
    assert all(len(line) <= width for line in lines)
    assert "…" not in "".join(lines)
    assert lines[3].split()[0] == "16" and "1,000.0" in lines[3] and lines[3].rstrip().endswith("yes")


def test_without_gpus_there_is_no_column_of_dashes() -> None:
    points = tuple(
        msgspec.structs.replace(point, output_tokens_per_s_per_gpu=None) for point in valid_points(1.0, 2.0)
    )
    assert "GPU" not in shown(level_table(a_trial(points=points), width=100))


def test_what_host_cards_and_engine_did_stands_below_the_levels() -> None:
    lines = shown(watched_table(a_trial(), width=120)).splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["4", "3.9", "0.1", "4.0", "9%", "3,712", "18%", "1,980", "402", "47"]
    ]
    assert "accept" not in lines[0]
    narrow = shown(watched_table(a_trial(), width=40), 40).splitlines()
    assert all(len(line) <= 40 for line in narrow)


def test_what_could_not_be_seen_is_said_once_with_its_reason() -> None:
    unseen = {"metrics": "/metrics was answered 404", "cards": "no nvidia-smi here"}
    seen = Watched(samples=3, seconds=2.0, unseen=unseen)
    points = tuple(msgspec.structs.replace(point, watched=seen) for point in valid_points(1.0, 2.0))
    text = shown(run_view(a_run(points=points), width=200), 200)
    said = "metrics (/metrics was answered 404; sglang has them with --enable-metrics)"
    assert text.count(f"not seen: cards (no nvidia-smi here), {said}") == 1
    assert "not seen" not in shown(run_view(a_run(), width=200), 200)


def test_where_nobody_looked_there_is_no_table_of_what_was_seen() -> None:
    blind = tuple(msgspec.structs.replace(point, watched=None) for point in valid_points(1.0, 2.0))
    assert watched_table(a_trial(points=blind), width=100) is None
    nothing = tuple(
        msgspec.structs.replace(point, watched=Watched(samples=0, seconds=0.0)) for point in blind
    )
    assert watched_table(a_trial(points=nothing), width=100) is None


def test_the_steady_rate_stands_beside_the_whole() -> None:
    points = tuple(
        msgspec.structs.replace(point, steady=SteadyRate(duration_s=3.0, output_tokens_per_s=431.5))
        for point in valid_points(400.0, 400.0)
    )
    row = shown(level_table(a_trial(points=points), width=120)).splitlines()[2].split()
    assert row[2:4] == ["400.0", "431.5"]


def test_a_run_is_shown_with_what_it_measured_why_levels_are_void_and_where_it_lies() -> None:
    text = shown(run_view(a_run(), width=100), 200)
    assert "oea (k0=2, min_tokens=2) on sglang 0.5.20, tiny" in text
    assert "level 16 is void: completed: none of 160 requests succeeded" in text
    assert "not measured: answers, client" in text
    assert text.rstrip().endswith("/results/run")


@pytest.mark.parametrize("outcome", ["interrupted", "server_lost", "unfinished"])
def test_a_run_that_did_not_end_says_how_far_it_came(outcome: str) -> None:
    run = a_run(points=valid_points(400.0, 800.0)[:1], outcome=outcome, outcome_reason="because")
    assert f"{outcome.replace('_', ' ')} (because): 1 of 2 levels" in shown(run_view(run, width=100))


def test_a_warning_is_said_once_with_its_levels() -> None:
    def warned(point: PointRecord) -> PointRecord:
        gates = tuple(
            msgspec.structs.replace(gate, warning=True, reason="off by 20%")
            if gate.name == "retokenized"
            else gate
            for gate in point.gates
        )
        return msgspec.structs.replace(point, gates=gates)

    points = tuple(warned(point) for point in valid_points(1.0, 2.0))
    text = shown(run_view(a_run(points=points), width=100))
    assert text.count("off by 20%") == 1
    assert "retokenized, level 4, 16: off by 20%" in text


def test_two_runs_stand_side_by_side_with_their_ratio() -> None:
    before, after = run_of(400.0, 500.0, label="pristine"), run_of(396.0, 725.0)
    lines = shown(comparison_view(before, after, width=120), 120).splitlines()
    heads = [line for line in lines if line.startswith("level")]
    assert heads and heads[0].split()[:4] == ["level", "tok/s", "tok/s", "tok/s"]
    row = next(line for line in lines if line.startswith("16") or line.lstrip().startswith("16 "))
    assert row.split()[:4] == ["16", "500.0", "725.0", "1.450"]
    assert any("not a verdict" in line for line in lines)
    assert [line for line in lines if line.startswith("/results/")] == ["/results/pristine", "/results/oea"]


def test_two_runs_of_one_label_can_be_told_apart() -> None:
    text = shown(comparison_view(run_of(1.0, 2.0), run_of(2.0, 3.0), width=120), 120)
    assert "oea (1)" in text and "oea (2)" in text
    named = shown(
        comparison_view(run_of(1.0, 2.0), run_of(2.0, 3.0), width=120, names=("before", "after")), 120
    )
    assert "before" in named and "(1)" not in named


@pytest.mark.parametrize("width", [120, 80, 60, 44])
def test_a_comparison_keeps_its_ratio_on_a_narrow_terminal(width: int) -> None:
    text = shown(
        comparison_view(run_of(400.0, 500.0, label="pristine"), run_of(4.0, 725.0), width=width), width
    )
    assert "1.450" in text and "ratio" in text and "…" not in text


def test_a_void_or_missing_level_has_no_ratio() -> None:
    whole, broken = run_of(400.0, 500.0), a_run()
    short = a_run(points=valid_points(400.0, 500.0)[:1])
    assert [level["ratio"] for level in comparison_document(whole, broken)["levels"]] == [1.0, None]
    assert [level["ratio"] for level in comparison_document(whole, short)["levels"]] == [1.0, None]
    names = ("before", "after")
    assert "before only" in shown(comparison_view(whole, short, width=120, names=names), 120)
    assert "void: after" in shown(comparison_view(whole, broken, width=120, names=names), 120)


def test_what_else_differs_between_two_runs_is_said() -> None:
    one = run_of(1.0, 2.0)
    trial = one.trials[0]
    other = msgspec.structs.replace(
        one,
        trials=(
            msgspec.structs.replace(
                trial,
                model=msgspec.structs.replace(trial.model, path="/other"),
                driver=msgspec.structs.replace(trial.driver, version="0.5.23"),
                server=msgspec.structs.replace(
                    trial.server, args={**trial.server.args, "tp_size": 4, "random_seed": 7}
                ),
            ),
        ),
    )
    assert differences(one, one) == ()
    assert differences(one, other) == ("the model", "the load client", "the server's arguments: tp_size")
    assert "they differ in the model" in shown(comparison_view(one, other, width=120), 120)


def test_two_comparisons_stand_arm_beside_arm_by_means_over_their_restarts() -> None:
    plan = a_comparison(2)
    one = Run(path="/results/1", plan=plan, trials=tuple(measured(plan, {"B": 1.2})))
    whole = Run(path="/results/2", plan=plan, trials=tuple(measured(plan, {"A": 1.1, "B": 1.1})))
    other = msgspec.structs.replace(whole, trials=whole.trials[:3])
    rows = comparison_document(one, other)["levels"]
    assert [(row["arm"], row["concurrency"]) for row in rows] == [("A", 4), ("A", 16), ("B", 4), ("B", 16)]
    assert sorted(tuple(row["restarts"]) for row in rows) == [(2, 1), (2, 1), (2, 2), (2, 2)]
    assert [row["ratio"] for row in rows] == pytest.approx([1.1, 1.1, 1.1 / 1.2, 1.1 / 1.2], rel=0.02)
    for width in (120, 60, 44):
        text = shown(comparison_view(one, other, width=width), width)
        assert text.count("oea (2) B: ") == 1 and "means over the restarts" in text
        assert f"{rows[-1]['ratio']:.3f}" in text and "…" not in text
    assert {row["arm"] for row in comparison_document(a_run(), other)["levels"]} == {"A"}, "a bench has one"


def listing() -> Listing:
    broken = Skipped(path="/results/runs/2026/x/plan.json", why="not whole JSON: truncated")
    part = Skipped(path="/results/run/trials/002-A.json", why="not a trial")
    run = msgspec.structs.replace(a_run(), skipped=(part,))
    return Listing(path="/results/runs", runs=(run,), skipped=(broken,))


def test_runs_are_listed_with_what_was_passed_over() -> None:
    text = shown(listing_view(listing(), width=120), 120)
    row = next(line for line in text.splitlines() if line.startswith(RUN_ID))
    assert row.split() == [RUN_ID, "@local", "bench", "4,16", "1/2", "completed"]
    assert "skipped /results/runs/2026/x/plan.json: not whole JSON: truncated" in text
    assert "skipped /results/run/trials/002-A.json: not a trial" in text


def test_an_empty_folder_says_so() -> None:
    assert "no runs in /results/runs" in shown(listing_view(Listing(path="/results/runs", runs=()), width=80))


def test_a_run_before_its_first_trial_can_be_shown() -> None:
    bare = Run(path="/results/run", plan=a_plan(), trials=())
    assert "/results/run" in shown(run_view(bare, width=80))
    assert "before its first trial" in shown(listing_view(Listing(path="/r", runs=(bare,)), width=120), 120)
    assert differences(bare, bare) == ()
    comparison_view(bare, a_run(), width=80)


def test_the_documents_are_plain_json() -> None:
    run = a_run()
    whole = json.loads(json.dumps(run_document(run), allow_nan=False))
    assert whole["trials"][0]["points"][0]["measurement"]["output_tokens_per_s"] == 400.0
    assert whole["analysis"]["made_at"].endswith("Z")
    (entry,) = json.loads(json.dumps(listing_document(listing())))["runs"]
    assert (entry["levels_planned"], entry["levels_measured"], entry["levels_valid"]) == (2, 2, 1)
    assert entry["outcomes"] == ["completed"]
    assert len(listing_document(listing())["skipped"]) == 2
    assert analyse(run.plan, run.trials, AT).levels


def test_goodput_and_the_level_that_is_the_last_to_pay_are_shown() -> None:
    points = tuple(
        msgspec.structs.replace(
            point, goodput=Goodput(requests=9, share=0.9, requests_per_s=1.5, output_tokens_per_s=9)
        )
        for point in valid_points(400.0, 410.0)
    )
    found = Saturation(kind="queueing", concurrency=4, reason="TTFT grows")
    run = a_run(points=points)
    run = msgspec.structs.replace(run, trials=(msgspec.structs.replace(run.trials[0], saturation=found),))
    text = shown(run_view(run, width=140), width=140)
    assert "1.50 (90%)" in text
    assert "saturated by queueing, not by a knee, level 4 is the last that pays: TTFT grows" in text


def a_matrix() -> Run:
    """Contexts 64 and 512 at 4 and 16: one cell void, one left out."""
    sweep = by_context(SWEEP, (64, 512))
    *points, big = sweep.points
    cell = Cell(
        concurrency=big.concurrency,
        input_len=big.input_len,
        output_len=big.output_len,
        limit="the KV cache",
        needed_tokens=8704,
        available_tokens=8000,
    )
    sweep = msgspec.structs.replace(sweep, points=tuple(points), skipped=(cell,))
    faults = ("", "", "refused")
    records = tuple(
        a_record(index, point, tokens_per_s=100.0 * index, fault=fault)
        for index, (point, fault) in enumerate(zip(points, faults, strict=True), start=1)
    )
    run = a_run(points=records, path="/results/m")
    return msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, sweep=sweep))


def test_a_matrix_is_shown_as_a_grid() -> None:
    lines = shown(run_view(a_matrix(), width=100)).splitlines()
    at = next(index for index, line in enumerate(lines) if line.split() == ["tokens", "at", "4", "at", "16"])
    assert lines[at + 1].split() == ["64", "100.0", "200.0"]
    assert lines[at + 2].split() == ["512", "void", "no", "room"]
    told = "left out: context 512 at 16: needs 8,704 tokens, the KV cache has 8,000 (704 short)"
    assert told in [line.rstrip() for line in lines]
    assert any(line.startswith("level 4 at context 512 is void") for line in lines)


def test_a_grid_that_does_not_fit_is_left_out_and_nothing_is_cut() -> None:
    lines = shown(run_view(a_matrix(), width=20), width=200).splitlines()
    assert not [line for line in lines if line.split()[:2] == ["tokens", "at"]]
    assert any(line.startswith("left out: context 512 at 16") for line in lines)


def test_a_sweep_gone_on_with_is_one_table_that_names_its_attempts() -> None:
    first, second = valid_points(100.0, 180.0)
    run = a_run(points=(first,))
    before = msgspec.structs.replace(run.trials[0], outcome="interrupted", outcome_reason="Ctrl-C")
    server = msgspec.structs.replace(before.server, start_ticks=1)
    after = msgspec.structs.replace(
        before, name="001-A-2", outcome="completed", outcome_reason="", points=(second,), server=server
    )
    text = shown(run_view(msgspec.structs.replace(run, trials=(before, after)), width=100))
    assert text.count("TTFT") == 2 and "100.0" in text and "180.0" in text
    assert "level 4: at 02:15 UTC, on another start of the server" in text
    assert "interrupted" not in text


def test_a_sweep_that_never_saturated_says_what_was_still_gained() -> None:
    run = run_of(100.0, 180.0)
    sweep = msgspec.structs.replace(SWEEP, until_saturated=True)
    run = msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, sweep=sweep))
    text = shown(run_view(run, width=100))
    assert "not saturated: at the last level, 16, a doubling still gains +34.2%" in text
