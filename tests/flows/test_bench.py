"""bench: what is measured is kept, what is void says why, and nothing is patched or restarted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from oeactl.core.burst import PointMeasured, PointRequest
from oeactl.core.host import (
    ExpertCount,
    Holder,
    Lease,
    Pending,
    ServerState,
)
from oeactl.core.load import Targets
from oeactl.core.matrix import by_context
from oeactl.core.run import Run
from oeactl.errors import (
    ConnectionLost,
    Degraded,
    Interrupted,
    Locked,
    Refused,
    Unreachable,
    UsageError,
    VoidMeasurement,
)
from oeactl.flows.bench import Order, bench
from oeactl.flows.site import Site
from tests.support.bench_world import MODULE, PATCHED, PRISTINE, PROOF, Bench, sweep
from tests.support.levels import DOWN, LEADER, UP, a_measurement, some_rows, spread


@pytest.fixture
def ready(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "results")


@pytest.fixture
def patched(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "results", patched=True)


def levels(run: Run) -> list[int]:
    return [point.point.concurrency for trial in run.trials for point in trial.points]


def test_a_sweep_that_went_well_is_valid_and_kept_as_it_was_returned(ready: Bench) -> None:
    done = ready.run(1, 4)
    assert done.error is None
    assert done.run == ready.kept()
    (trial,) = done.run.trials
    assert (trial.outcome, trial.start, levels(done.run)) == ("completed", "attached", [1, 4])
    assert all(point.valid and point.reasons == () for point in trial.points)
    assert [point.output_tokens_per_s_per_gpu for point in trial.points] == [50.0, 200.0]
    assert ready.told.warnings == []


def test_each_level_is_warmed_up_flushed_and_measured_in_this_order(ready: Bench) -> None:
    ready.run(1, 4)
    told = [line for line in ready.world.asked if line not in ("survey", "lease", "settle")]
    assert told == [
        *("warm-up 1", "flush", "measured 1", "complete 1"),
        *("warm-up 4", "flush", "measured 4", "complete 1"),
    ]


def test_no_two_bursts_share_their_prompts(ready: Bench) -> None:
    ready.run(1, 4)
    seeds = [request.seed for request in ready.driver.requests]
    assert len(set(seeds)) == 4


def test_the_run_says_what_it_measured(ready: Bench) -> None:
    (trial,) = ready.run(4).run.trials
    assert trial.engine.version == trial.driver.version == "0.5.20"
    assert (trial.model.path, trial.model.architectures) == ("/models/tiny", ("Glm4MoeForCausalLM",))
    assert (trial.server.pid, trial.server.gpus) == (LEADER.pid, 2)
    assert trial.clock_offset_s == 0.5
    assert [target.before_sha256 for target in trial.targets] == [PRISTINE]
    assert trial.targets[0].expected_sha256 is None
    assert len({point.workload_sha256 for point in trial.points}) == 1


def test_nothing_secret_is_kept_anywhere(ready: Bench, tmp_path: Path) -> None:
    words = (*ready.spec.argv, "--api-key", "very-secret", "--hf-token=very-secret", "--tp", "2")
    ready.spec = msgspec.structs.replace(ready.spec, argv=words)
    done = ready.run(4)
    launch = done.run.trials[0].server.launch
    assert launch is not None and launch.argv[-2:] == ("--tp", "2") and len(launch.argv) == len(words)
    assert done.run.trials[0].server.environment == {"OMP_NUM_THREADS": "1"}
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*.json"))
    assert b"very-secret" not in kept
    assert b"internal_states" not in kept


def test_a_pristine_server_s_run_is_labelled_so_and_a_patched_one_by_its_recipes(
    ready: Bench, tmp_path: Path
) -> None:
    assert ready.run(4).run.plan.label == "pristine"
    assert Bench(tmp_path / "other", patched=True).run(4).run.plan.label == "oea"
    ready.label = "My Try"
    assert ready.run(1).run.plan.run_id.endswith("-my-try-1f3a9c2e")


def test_the_number_of_gpus_in_hosts_yaml_comes_before_the_server_s_arguments(ready: Bench) -> None:
    ready.spec = msgspec.structs.replace(ready.spec, gpus=8)
    assert ready.run(8).run.trials[0].points[0].output_tokens_per_s_per_gpu == 100.0


def test_without_gpus_there_is_no_figure_per_gpu(ready: Bench) -> None:
    ready.world.info["device"] = "cpu"
    (point,) = ready.run(4).run.trials[0].points
    assert point.output_tokens_per_s_per_gpu is None


@pytest.mark.parametrize("state", [DOWN, msgspec.structs.replace(UP, healthy=False, health="HTTP 503")])
def test_a_server_that_is_not_up_is_exit_4_and_nothing_is_begun(
    ready: Bench, tmp_path: Path, state: ServerState
) -> None:
    ready.world.state = state
    with pytest.raises(Unreachable, match="not up") as refused:
        ready.run(1)
    assert refused.value.exit_code == 4
    assert refused.value.hint == "oeactl start --host box"
    assert state.health in refused.value.what
    assert not (tmp_path / "results").exists()


def test_a_host_without_a_server_entry_is_a_usage_error(ready: Bench) -> None:
    site = ready.site()
    bare = Site(**{**site.__dict__, "server": None, "engine": None})
    order = Order(sweep=sweep(1), token="0" * 8, modules=(MODULE,), oeactl_version="0")
    with pytest.raises(UsageError, match="no server"):
        bench(bare, ready.driver, ready.store, order)


def test_somebody_else_at_work_is_exit_5_and_nothing_is_begun(ready: Bench, tmp_path: Path) -> None:
    ready.world.taken_by = "ann@laptop"
    with pytest.raises(Locked, match="ann@laptop"):
        ready.run(1)
    assert not (tmp_path / "results").exists()
    assert "warm-up 1" not in ready.world.asked


def test_a_patch_left_half_done_is_exit_7(ready: Bench) -> None:
    pending = Pending(operation="op", kind="patch", started_at="2026-11-30T00:00:00Z")
    ready.world.journal = msgspec.structs.replace(ready.world.journal, pending=pending)
    with pytest.raises(Degraded, match="did not end"):
        ready.run(1)


def test_what_a_killed_bench_left_behind_does_not_stop_the_next(ready: Bench) -> None:
    """Its lease, which names a process of this machine that is gone; later only a folder to be cleared."""
    gone = Lease(
        operation="old", what="bench", holder=Holder(user="ann", host="laptop", pid=4), since=0, until=9e9
    )
    ready.world.journal = msgspec.structs.replace(ready.world.journal, lease=gone)
    with pytest.raises(Locked, match="ann@laptop is at work on this engine: bench"):
        ready.run(1)
    ready.alive, ready.world.leased = lambda pid: pid != 4, "old"
    assert ready.run(1).error is None
    left = Pending(operation="", kind="clear", started_at="2026-11-30T00:00:00Z")
    ready.world.journal = msgspec.structs.replace(ready.world.journal, lease=None, pending=left)
    assert ready.run(1).error is None


def test_the_lease_is_held_from_before_the_first_level_to_after_the_last(ready: Bench) -> None:
    ready.run(4)
    asked = [line for line in ready.world.asked if line != "survey"]
    assert (asked[0], asked[-1]) == ("lease", "settle")
    assert asked.count("lease") == 1


def test_the_lease_is_renewed_while_requests_come_back(ready: Bench) -> None:
    def long(request: PointRequest) -> None:
        ready.world.time += 100.0

    ready.driver.happens = {(1, "measured"): long, (4, "measured"): long}
    ready.run(1, 4)
    assert ready.world.asked.count("lease") == 3


def test_a_lease_that_somebody_took_over_ends_the_sweep_and_keeps_what_was_measured(ready: Bench) -> None:
    def lapse(request: PointRequest) -> None:
        ready.world.time += 1000.0
        ready.world.taken_by = "ann@laptop"

    ready.driver.happens[(4, "warm-up")] = lapse
    done = ready.run(1, 4)
    assert isinstance(done.error, Locked)
    assert levels(ready.kept()) == [1]


def test_the_lease_ends_with_ctrl_c_too(ready: Bench) -> None:
    def interrupt(request: PointRequest) -> None:
        raise KeyboardInterrupt

    ready.driver.happens[(1, "measured")] = interrupt
    ready.run(1)
    assert ready.world.leased is None


def test_a_lease_that_cannot_be_given_back_spoils_nothing(ready: Bench) -> None:
    ready.world.settles = False
    assert ready.run(1).error is None
    assert "ends by itself, in 15 minutes" in ready.told.warnings[0]


def no_success(request: PointRequest) -> PointMeasured:
    return PointMeasured(argv=("-m", "client"), failure="none of 40 requests succeeded", tail=("IndexError",))


def test_a_level_without_one_success_is_void_and_the_sweep_goes_on(ready: Bench) -> None:
    ready.driver.happens[(4, "measured")] = no_success
    done = ready.run(1, 4, 8)
    assert isinstance(done.error, VoidMeasurement)
    assert done.error.exit_code == 8
    assert "1 of 3 levels" in done.error.what
    assert [point.valid for point in ready.kept().trials[0].points] == [True, False, True]
    assert ready.kept().trials[0].points[1].tail == ("IndexError",)
    assert ready.told.warnings == ["level 4 is void: completed: none of 40 requests succeeded"]


def test_a_warm_up_that_failed_voids_the_level_without_measuring_it(ready: Bench) -> None:
    ready.driver.happens[(4, "warm-up")] = no_success
    done = ready.run(4)
    assert isinstance(done.error, VoidMeasurement)
    assert "measured 4" not in ready.world.asked
    (point,) = done.run.trials[0].points
    assert point.reasons == ("completed: the warm-up failed: none of 40 requests succeeded",)


def test_a_flush_refused_just_after_the_warm_up_is_asked_for_again(ready: Bench) -> None:
    ready.world.flushes = [False, False, True]
    done = ready.run(4)
    assert done.error is None
    warm_up = done.run.trials[0].points[0].warm_up
    assert warm_up is not None and (warm_up.flushed, warm_up.flush_attempts) == (True, 3)


def test_a_flush_that_is_never_confirmed_voids_the_level_without_measuring_it(ready: Bench) -> None:
    ready.world.flushes = [False] * 3
    done = ready.run(4)
    assert "measured 4" not in ready.world.asked
    (point,) = done.run.trials[0].points
    assert not point.valid
    assert {line.partition(":")[0] for line in point.reasons} == {"completed", "flush"}


def climbing(*rates: float) -> Callable[[PointRequest], PointMeasured]:
    """A server that compiles: each burst has its rate, and within each the first requests are the slowest."""
    left = list(rates)

    def happen(request: PointRequest) -> PointMeasured:
        point = msgspec.structs.replace(request.point, requests=request.requests)
        count = point.requests
        rows = some_rows(point, ttfts_s=tuple(0.1 * (count - n) for n in range(count)))
        return PointMeasured(
            argv=(), measurement=a_measurement(point, tokens_per_s=left.pop(0)), requests=rows
        )

    return happen


def test_a_server_that_still_compiles_is_warmed_up_until_its_rate_holds(ready: Bench) -> None:
    ready.driver.happens[(4, "warm-up")] = climbing(1187.0, 5000.0, 11000.0, 11174.0)
    done = ready.run(4)
    assert done.error is None
    warm_up = done.run.trials[0].points[0].warm_up
    assert warm_up is not None
    assert warm_up.rates == (1187.0, 5000.0, 11000.0, 11174.0)
    assert (warm_up.steady, warm_up.requests) == (True, 32)
    seeds = [request.seed for request in ready.driver.requests]
    assert len(set(seeds)) == len(seeds) == 5


def test_a_server_that_never_settles_is_measured_after_a_few_bursts_and_it_is_said(ready: Bench) -> None:
    ready.driver.happens[(4, "warm-up")] = climbing(*(100.0 * 2**n for n in range(9)))
    done = ready.run(4)
    assert done.error is None
    warm_up = done.run.trials[0].points[0].warm_up
    assert warm_up is not None and (warm_up.steady, len(warm_up.rates)) == (False, 8)
    assert ["warm_up" in note for note in ready.told.notes] == [True]


def test_a_sweep_ends_where_more_streams_bring_nothing(ready: Bench) -> None:
    def flat(request: PointRequest) -> PointMeasured:
        point = msgspec.structs.replace(request.point, requests=request.requests)
        slow = a_measurement(point, tokens_per_s=410.0, tpot_ms=spread(30.0))
        return PointMeasured(argv=(), measurement=slow, requests=some_rows(point))

    ready.driver.happens[(8, "measured")] = flat
    ready.sweep = msgspec.structs.replace(
        sweep(1, 4, 8, 16), until_saturated=True, targets=Targets(ttft_ms=100.0)
    )
    done = ready.run()
    assert done.error is None
    (trial,) = ready.kept().trials
    assert (trial.outcome, levels(done.run)) == ("completed", [1, 4, 8])
    assert trial.saturation is not None
    assert (trial.saturation.kind, trial.saturation.concurrency) == ("knee", 4)
    assert trial.points[0].goodput is not None and trial.points[0].goodput.share == 1.0


def test_ctrl_c_keeps_the_finished_levels_and_says_where(ready: Bench) -> None:
    def interrupt(request: PointRequest) -> None:
        raise KeyboardInterrupt

    ready.driver.happens[(8, "measured")] = interrupt
    done = ready.run(1, 4, 8)
    assert isinstance(done.error, Interrupted)
    assert done.error.exit_code == 130
    assert "2 of 3 levels are kept" in done.error.what
    assert done.error.where == done.run.path
    run = ready.kept()
    assert (run.trials[0].outcome, levels(run)) == ("interrupted", [1, 4])
    assert run.analysis is not None
    assert [arm.valid for level in run.analysis.levels for arm in level.arms] == [1, 1, 0]


def test_levels_are_on_disk_before_the_next_one_begins(ready: Bench) -> None:
    seen: list[list[int]] = []

    def look(request: PointRequest) -> None:
        seen.append(levels(ready.kept()))

    ready.driver.happens = {(n, "measured"): look for n in (1, 4, 8)}
    ready.run(1, 4, 8)
    assert seen == [[], [1], [1, 4]]


def test_a_server_that_dies_under_load_keeps_the_finished_levels(ready: Bench) -> None:
    def die(request: PointRequest) -> PointMeasured:
        ready.world.state = DOWN
        return no_success(request)

    ready.driver.happens[(4, "measured")] = die
    done = ready.run(1, 4, 8)
    assert isinstance(done.error, VoidMeasurement)
    assert done.error.what == "the server did not survive level 4; 1 of 3 levels are valid"
    (trial,) = ready.kept().trials
    assert (trial.outcome, levels(ready.kept())) == ("server_lost", [1, 4])
    assert [point.valid for point in trial.points] == [True, False]
    failed = {line.partition(":")[0] for line in trial.points[1].reasons}
    assert {"completed", "same_server", "alive_after"} <= failed


def test_a_server_that_was_replaced_in_between_voids_the_level(ready: Bench) -> None:
    def replace(request: PointRequest) -> None:
        other = msgspec.structs.replace(LEADER, pid=900)
        ready.world.state = msgspec.structs.replace(UP, recorded=other, listener=other)

    ready.driver.happens[(4, "measured")] = replace
    done = ready.run(4)
    assert "same_server" in str(done.run.trials[0].points[0].reasons)


def test_a_connection_that_breaks_keeps_the_finished_levels_and_is_the_error(ready: Bench) -> None:
    def cut(request: PointRequest) -> None:
        raise ConnectionLost("the connection broke", where="box")

    ready.driver.happens[(4, "measured")] = cut
    done = ready.run(1, 4)
    assert isinstance(done.error, ConnectionLost)
    assert f"1 of 2 levels are kept in {done.run.path}" in done.error.details
    assert (ready.kept().trials[0].outcome, levels(ready.kept())) == ("failed", [1])


def test_a_file_that_changed_underneath_voids_the_level(ready: Bench) -> None:
    def edit(request: PointRequest) -> None:
        ready.world.disk = "c" * 64

    ready.driver.happens[(4, "measured")] = edit
    done = ready.run(1, 4)
    points = done.run.trials[0].points
    assert [point.valid for point in points] == [True, False]
    assert "changed while the level ran" in points[1].reasons[0]


def test_a_patched_server_that_has_shown_its_branch_is_measured_as_patched(patched: Bench) -> None:
    done = patched.run(1, 4)
    assert done.error is None
    (trial,) = done.run.trials
    assert [recipe.recipe for recipe in trial.recipes] == ["oea"]
    assert trial.recipes[0].parameters == {"k0": 2, "min_tokens": 2}
    assert [(one.outcome, one.kinds) for one in trial.activations] == [("pass", ("eager",))]
    assert [proof.kind for proof in trial.proofs] == ["eager"]
    assert trial.targets[0].expected_sha256 == PATCHED
    assert not any(line.startswith("complete") and line != "complete 1" for line in patched.world.asked)


def test_what_is_on_the_host_is_kept_though_its_recipe_is_not_known_here(patched: Bench) -> None:
    (change,) = patched.run(1).run.changes
    assert (change.files[0].before_sha256, change.files[0].after_sha256) == (PRISTINE, PATCHED)
    assert "+y = 2" in change.diff and change.recipes == ()
    assert patched.kept().changes == (change,)


def test_a_patched_server_that_has_not_decoded_yet_is_made_to_before_level_1(patched: Bench) -> None:
    patched.world.proofs = ()
    patched.world.on_exercise = lambda: setattr(patched.world, "proofs", (PROOF,))
    assert patched.run(1).error is None


def test_a_patch_that_the_server_bypasses_voids_every_level(patched: Bench) -> None:
    patched.world.proofs = (msgspec.structs.replace(PROOF, kind="loaded"),)
    done = patched.run(1, 4)
    assert isinstance(done.error, VoidMeasurement)
    assert all("activation: oea" in str(point.reasons) for point in done.run.trials[0].points)


def test_a_server_that_still_runs_a_reverted_patch_voids_every_level(ready: Bench) -> None:
    ready.world.proofs = (PROOF,)
    done = ready.run(4)
    assert isinstance(done.error, VoidMeasurement)
    assert "the disk no longer has it" in done.run.trials[0].points[0].reasons[0]


def test_a_measured_burst_is_bounded_by_what_its_warm_up_took(ready: Bench) -> None:
    ready.run(4)
    warm_up, measured = ready.driver.requests
    assert warm_up.deadline_s == 3600.0
    took_s = 8 * 32 / 400.0
    assert measured.deadline_s == pytest.approx(300.0 + 5.0 * took_s * 40 / 8)


def test_the_raw_rows_lie_beside_the_run_under_their_hash(ready: Bench, tmp_path: Path) -> None:
    (point,) = ready.run(4).run.trials[0].points
    assert point.raw is not None
    found = [path.name for path in tmp_path.rglob("raw/*")]
    assert found == [f"{point.raw.sha256}.json.gz"]


def test_a_level_is_announced_with_what_it_sends(ready: Bench) -> None:
    ready.run(4)
    assert ready.told.steps == ["looking at box", "level 1 of 1: 4 at once, 64 tokens in, 32 out"]


def test_what_only_warns_is_said_and_does_not_void(ready: Bench) -> None:
    def odd(request: PointRequest) -> PointMeasured:
        point = request.point
        tokens = point.requests * point.output_len
        return PointMeasured(
            argv=(),
            measurement=a_measurement(point, output_tokens_retokenized=tokens * 2),
            requests=some_rows(point),
        )

    ready.driver.happens[(4, "measured")] = odd
    assert ready.run(4).error is None
    assert ready.told.notes == [
        "level 4: retokenized: the returned text tokenizes to +100% of the tokens counted"
    ]


def test_a_warning_is_said_at_the_first_level_that_has_it(ready: Bench) -> None:
    def odd(request: PointRequest) -> PointMeasured:
        point = request.point
        measurement = a_measurement(point, output_tokens_retokenized=1)
        return PointMeasured(argv=(), measurement=measurement, requests=some_rows(point))

    ready.driver.happens = {(n, "measured"): odd for n in (4, 8)}
    ready.run(1, 4, 8)
    assert [note.partition(": ")[0] for note in ready.told.notes] == ["level 4"]


def test_an_interrupted_sweep_goes_on_where_it_stopped(ready: Bench) -> None:
    def ctrl_c(request: PointRequest) -> PointMeasured:
        raise KeyboardInterrupt

    ready.driver.happens[(4, "measured")] = ctrl_c
    cut = ready.run(1, 4, 16)
    assert isinstance(cut.error, Interrupted)
    assert cut.error.hint == f"oeactl run resume {cut.run.plan.run_id}"
    ready.driver.happens, ready.driver.requests = {}, []
    done = ready.resume()
    assert done.error is None and done.run == ready.kept()
    assert {request.point.concurrency for request in ready.driver.requests} == {4, 16}
    assert [trial.name for trial in done.run.trials] == ["001-A", "001-A-2"]
    assert levels(done.run) == [1, 4, 16]
    assert [point.index for point in done.run.trials[1].points] == [2, 3]
    assert [level.arms[0].valid for level in done.run.analysis.levels] == [1, 1, 1]  # type: ignore[union-attr]


def test_a_killed_sweep_goes_on_as_well(ready: Bench) -> None:
    def killed(request: PointRequest) -> PointMeasured:
        raise SystemExit(9)

    ready.driver.happens[(4, "measured")] = killed
    with pytest.raises(SystemExit):
        ready.run(1, 4)
    ready.driver.happens = {}
    assert ready.kept().trials[0].outcome == "unfinished"
    assert ready.resume().error is None
    assert levels(ready.kept()) == [1, 4]


def test_a_level_that_the_server_did_not_survive_is_measured_again(ready: Bench) -> None:
    def dies(request: PointRequest) -> PointMeasured:
        ready.world.state = DOWN
        return PointMeasured(argv=(), failure="connection refused")

    ready.driver.happens[(4, "measured")] = dies
    lost = ready.run(1, 4, 16).error
    assert isinstance(lost, VoidMeasurement) and "run resume" in (lost.hint or "")
    with pytest.raises(Unreachable):
        ready.resume()
    ready.world.state, ready.driver.happens = UP, {}
    assert ready.resume().error is None
    assert [point.index for point in ready.kept().trials[1].points] == [2, 3]


def test_a_sweep_is_not_gone_on_with_on_another_build(ready: Bench) -> None:
    def ctrl_c(request: PointRequest) -> PointMeasured:
        raise KeyboardInterrupt

    ready.driver.happens[(4, "measured")] = ctrl_c
    ready.run(1, 4)
    ready.world.info["tp_size"] = 1
    with pytest.raises(Refused, match="the server's arguments: tp_size changed"):
        ready.resume()
    assert len(ready.kept().trials) == 1


def test_saturation_is_told_over_all_attempts(ready: Bench) -> None:
    def slow(request: PointRequest) -> PointMeasured:
        point = request.point
        measurement = a_measurement(point, tokens_per_s=102.0, tpot_ms=spread(30.0))
        return PointMeasured(argv=(), measurement=measurement, requests=some_rows(point))

    def ctrl_c(request: PointRequest) -> PointMeasured:
        raise KeyboardInterrupt

    ready.sweep = msgspec.structs.replace(sweep(1, 2, 4), until_saturated=True)
    ready.driver.happens[(2, "measured")] = ctrl_c
    ready.run()
    ready.driver.happens = {(2, "measured"): slow}
    found = ready.resume().run.trials[1]
    assert found.saturation is not None
    assert (found.saturation.kind, found.saturation.concurrency) == ("knee", 1)
    assert [point.point.concurrency for point in found.points] == [2]


def test_cells_without_room_are_not_sent_and_said(ready: Bench) -> None:
    ready.sweep = by_context(sweep(1, 4), (64, 512))
    ready.world.info["max_total_num_tokens"] = 1000
    done = ready.run()
    assert done.error is None
    sent = [(point.point.input_len, point.point.concurrency) for point in done.run.trials[0].points]
    assert sent == [(64, 1), (64, 4), (512, 1)]
    assert done.run.plan.sweep.skipped[0].needed_tokens == 4 * (512 + 32)
    assert [note for note in ready.told.notes if note.startswith("left out: context 512 at 4")]


def test_an_interrupted_matrix_goes_on_without_another_look_at_its_room(ready: Bench) -> None:
    def ctrl_c(request: PointRequest) -> PointMeasured:
        raise KeyboardInterrupt

    ready.sweep = by_context(sweep(1, 4), (64, 512))
    ready.driver.happens[(4, "measured")] = ctrl_c
    ready.run()
    ready.driver.happens = {}
    done = ready.resume()
    assert done.error is None
    assert [point.index for trial in done.run.trials for point in trial.points] == [1, 2, 3, 4]


def test_experts_are_seen_after_each_level_in_a_batch_of_its_size(ready: Bench) -> None:
    ready.experts = True
    asked = ready.world.asked
    ready.run(1, 4)
    assert asked.index("experts 1") > asked.index("measured 1")
    assert asked.index("measured 4") > asked.index("experts 1")
    (first, second) = ready.kept().trials[0].points
    assert first.experts is not None and second.experts is not None
    assert (first.experts.requests, second.experts.requests) == (1, 4)
    assert second.experts.distinct_mean == 2.0 and second.experts.experts == 4
    usage = ready.store.load_raw(ready.kept(), second.experts.counts_sha256 or "")
    assert b'"counts":[[0,64,64,0]]' in usage


def test_experts_are_not_looked_at_unless_asked_for(ready: Bench) -> None:
    ready.run(4)
    assert not [one for one in ready.world.asked if one.startswith("experts")]
    assert ready.kept().trials[0].points[0].experts is None


def test_a_server_that_cannot_show_its_experts_spoils_no_level(ready: Bench) -> None:
    ready.experts = True
    ready.world.routing = "release 0.5.6 does not return routed experts"
    benched = ready.run(4)
    (point,) = benched.run.trials[0].points
    assert point.valid and point.experts is not None
    assert point.experts.outcome == "not_measured"
    assert point.experts.reason.startswith(f"{ready.world.routing}; or OEACTL_EXPERTS=1 in server.env")


def test_where_the_engine_does_not_tell_the_workers_own_counters_do(patched: Bench) -> None:
    patched.experts = True
    patched.world.routing = "release 0.5.6 does not return routed experts"
    counts = {"4": {"1": ExpertCount(steps=2, before=(4, 4), after=(3, 3))}}

    def decoded() -> None:
        patched.world.proofs = (PROOF, msgspec.structs.replace(PROOF, kind="experts", counts=counts))

    patched.world.on_exercise = decoded
    patched.run(1, 4)
    one, four = (point.experts for point in patched.kept().trials[0].points)
    assert one is not None and one.outcome == "not_measured", "nothing decoded alone was counted"
    assert four is not None and (four.seen_by, four.distinct_mean) == ("counter", 3.0)
    assert four.counts_sha256 is None
    assert patched.kept().trials[0].activations[0].kinds == ("eager",)


@pytest.mark.parametrize("happens", [ConnectionLost("the connection broke"), KeyboardInterrupt()])
def test_what_happens_while_experts_are_looked_at_costs_no_level(
    ready: Bench, happens: BaseException
) -> None:
    ready.experts = True

    def broken() -> None:
        raise happens

    ready.world.on_experts = broken
    benched = ready.run(1, 4)
    interrupted = isinstance(happens, KeyboardInterrupt)
    assert isinstance(benched.error, Interrupted) is interrupted
    points = ready.kept().trials[0].points
    assert len(points) == (1 if interrupted else 2) and all(point.valid for point in points)
    assert points[0].experts is not None and points[0].experts.outcome == "not_measured"
