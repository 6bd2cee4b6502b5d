"""ab, aa, scan: each trial a fresh start of one build; failure is a row; the host is left as declared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from oeactl.core.experiment import Verdict
from oeactl.core.host import Holder, Launch, Layer, Process, Survey, SurveyRequest
from oeactl.core.load import Point, make_sweep
from oeactl.core.telemetry import Sample
from oeactl.errors import (
    ConnectionLost,
    Degraded,
    Interrupted,
    Locked,
    Refused,
    UsageError,
    VoidMeasurement,
)
from oeactl.flows.experiment import Concluded
from oeactl.flows.planning import ArmOrder
from tests.support.answers import prose
from tests.support.experiment_world import Experimenter, MeasuredEngine, patched_arm
from tests.support.site_world import PRISTINE, After, a_recipe, another_recipe, held, pending

CTRL_C = KeyboardInterrupt()
LOST = ConnectionLost("the connection ended before the command did", where="box")


@pytest.fixture
def ann(tmp_path: Path) -> Experimenter:
    return Experimenter(tmp_path / "results")


def verdict(done: Concluded) -> Verdict:
    assert done.run.analysis is not None
    (found,) = done.run.analysis.verdicts
    return found


def rows(done: Concluded) -> list[str]:
    """'A' or 'B' a trial, in the order they were taken."""
    return [trial.arm for trial in done.run.trials]


def left_pristine(ann: Experimenter, *, running: bool = True) -> None:
    assert ann.world.disk == PRISTINE
    assert (ann.world.journal.layers, ann.world.journal.lease) == ((), None)
    assert (ann.world.running is not None) == running
    if ann.world.running:
        assert ann.world.running.layers == ()


def test_a_faster_build_comes_out_improved_and_the_host_is_left_pristine(ann: Experimenter) -> None:
    done = ann.run()
    assert done.error is None
    found = verdict(done)
    assert (found.says, found.material) == ("improved", True)
    assert found.effect is not None and found.effect.ratio == pytest.approx(1.2, rel=0.02)
    left_pristine(ann)
    assert done.left == "pristine, the server up"
    assert done.run == ann.kept()


def test_every_trial_is_a_fresh_start_in_the_planned_order(ann: Experimenter) -> None:
    done = ann.run()
    assert rows(done) == [trial.arm for trial in done.run.plan.trials]
    assert all(trial.start == "fresh" and trial.outcome == "completed" for trial in done.run.trials)
    starts = [trial.server.pid for trial in done.run.trials]
    assert len(set(starts)) == 6
    assert all(trial.ready_s and trial.ready_s > 1000 for trial in done.run.trials)
    for trial in done.run.trials:
        assert bool(trial.recipes) == (trial.arm == "B")
        assert [a.outcome for a in trial.activations] == ["pass"] * len(trial.recipes)


def test_both_arms_of_a_pair_have_the_same_prompts_in_the_same_order_and_pairs_do_not(
    ann: Experimenter,
) -> None:
    done = ann.run()
    loads = {}
    for trial in done.run.trials:
        loads.setdefault(trial.pair, set()).add(tuple(point.point for point in trial.points))
    assert [len(load) for load in loads.values()] == [1, 1, 1]
    assert len({load for pair in loads.values() for load in pair}) == 3


def test_the_same_build_twice_is_never_called_faster(ann: Experimenter) -> None:
    done = ann.run(ArmOrder(), ArmOrder(), what="aa", margin=0.1)
    assert done.error is None
    assert verdict(done).says in ("equivalent", "inconclusive")
    assert not verdict(done).material
    assert "write patch" not in ann.world.asked


def test_the_plan_is_written_before_the_first_trial_and_names_what_was_decided(ann: Experimenter) -> None:
    ann.world.meets("start", CTRL_C)
    done = ann.run(pairs=4, margin=0.05, analysis="regression")
    plan = ann.kept().plan
    assert done.run.trials == () and plan == done.run.plan
    assert plan.design is not None
    assert (plan.design.pairs, plan.design.margin, plan.design.analysis) == (4, 0.05, "regression")
    assert len(plan.design.sweeps) == 4 and len(plan.trials) == 8
    assert plan.arms[1].recipes[0].digest


def test_what_an_arm_changes_and_how_its_server_is_begun_is_kept_with_the_run(ann: Experimenter) -> None:
    ann.run()
    kept = ann.kept()
    (change,) = kept.changes
    (file,) = change.files
    patched = {target.after_sha256 for t in kept.trials if t.arm == "B" for target in t.targets}
    assert (change.arm, {file.after_sha256}) == ("B", patched)
    assert "\n+y = 4\n" in change.diff and change.recipes[0].files == a_recipe().sources
    launches = {t.arm: t.server.launch for t in kept.trials}
    assert launches["A"] == launches["B"] and launches["A"] is not None
    assert launches["A"].argv == ann.world.launches[0].argv


def test_nothing_is_done_without_a_yes(ann: Experimenter) -> None:
    before = ann.world.running
    ann.world.answer = False
    with pytest.raises(Interrupted):
        ann.run()
    assert ann.world.running is before and ann.world.disk == PRISTINE
    assert ann.store.list().runs == ()


def test_one_question_is_asked_and_it_says_what_is_to_come(ann: Experimenter) -> None:
    ann.run()
    (asked,) = [line for line in ann.world.asked if line.startswith("ask")]
    assert "restart it up to 7 times" in asked and "leave it pristine" in asked


def test_only_planning_looks_and_writes_nothing(ann: Experimenter) -> None:
    held(ann)
    prepared = ann.prepare(only=True)
    assert len(prepared.plan.trials) == 6
    assert set(ann.world.asked) <= {"survey", "state"}
    assert ann.store.list().runs == ()


def test_it_may_be_left_patched(ann: Experimenter) -> None:
    done = ann.run(leave="patched")
    assert ann.world.running is not None
    assert [layer.recipe for layer in ann.world.running.layers] == ["trial"]
    assert [layer.recipe for layer in ann.world.journal.layers] == ["trial"]
    assert done.left.startswith("trial (size=4)")


def test_a_server_that_was_down_is_down_at_the_end(tmp_path: Path) -> None:
    ann = Experimenter(tmp_path / "results", running=False)
    done = ann.run()
    assert done.error is None
    left_pristine(ann, running=False)


def test_recipes_that_were_on_the_host_come_off_and_the_question_says_so(ann: Experimenter) -> None:
    ann.patch(8, recipe=another_recipe())
    ann.world.asked.clear()
    done = ann.run()
    assert done.error is None
    (asked,) = [line for line in ann.world.asked if line.startswith("ask")]
    assert "take other off" in asked
    left_pristine(ann)


def test_each_arm_is_started_once_before_the_first_pair_and_that_counts_for_nothing(
    ann: Experimenter,
) -> None:
    done = ann.run(warm=True)
    assert [trial.name for trial in done.run.trials][:2] == ["000-A", "000-B"]
    assert [trial.pair for trial in done.run.trials] == [None, None, 1, 1, 2, 2, 3, 3]
    assert verdict(done).effect is not None and verdict(done).effect.pairs == 3  # type: ignore[union-attr]
    assert done.run.analysis is not None
    assert [arm.trials for level in done.run.analysis.levels for arm in level.arms] == [3] * 4


def test_a_first_run_penalty_never_becomes_a_verdict(ann: Experimenter) -> None:
    """The first start of each build is slow, as with empty compile caches."""
    seen: set[bool] = set()
    first: dict[int, float] = {}

    def factor(layers: tuple[Layer, ...]) -> float:
        if ann.world.starts not in first:
            first[ann.world.starts] = 1.0 if bool(layers) in seen else 0.6
            seen.add(bool(layers))
        return first[ann.world.starts]

    ann.world.factor = factor
    done = ann.run(warm=True, margin=0.1)
    assert verdict(done).says in ("equivalent", "inconclusive")
    assert verdict(done).effect.ratio == pytest.approx(1.0, rel=0.02)  # type: ignore[union-attr]


def test_a_first_run_penalty_without_a_warm_up_is_left_out_and_named(ann: Experimenter) -> None:
    """Compiling makes the first start of each build a third slower; the caches tell which ones compiled."""
    ann.world.factor, ann.world.penalty = lambda layers: 1.0, 0.66
    done = ann.run(margin=0.1, pairs=4)
    first = [trial for trial in done.run.trials if trial.pair == 1]
    assert first[0].caches is not None and first[0].caches.cold
    found = verdict(done)
    assert found.says in ("equivalent", "inconclusive") and not found.material
    assert found.effect is not None and found.effect.pairs == 3
    assert found.effect.ratio == pytest.approx(1.0, rel=0.02)
    assert found.reasons[0].startswith("pair 1 is left out: cold compilation caches: 00")


def test_warm_starts_are_recorded_as_warm_and_all_pairs_count(ann: Experimenter) -> None:
    ann.world.penalty = 0.66
    done = ann.run(warm=True)
    assert [trial.caches.cold for trial in done.run.trials if trial.caches] == [True, True] + [False] * 6
    assert verdict(done).effect.pairs == 3  # type: ignore[union-attr]
    assert verdict(done).effect.ratio == pytest.approx(1.2, rel=0.02)  # type: ignore[union-attr]
    assert ann.world.wiped == 0


def test_wiped_caches_make_every_start_cold_and_all_pairs_count(ann: Experimenter) -> None:
    ann.world.penalty = 0.66
    done = ann.run(warm=True, caches="wipe")
    assert [trial.pair for trial in done.run.trials] == [1, 1, 2, 2, 3, 3], (
        "a start to warm up is for nothing"
    )
    assert all(trial.caches and trial.caches.held == 0 and trial.caches.cold for trial in done.run.trials)
    assert ann.world.wiped == 6
    assert verdict(done).effect.pairs == 3  # type: ignore[union-attr]
    assert verdict(done).effect.ratio == pytest.approx(1.2, rel=0.02)  # type: ignore[union-attr]
    (asked,) = [line for line in ann.world.asked if line.startswith("ask")]
    assert "empty the compilation caches each time" in asked


def test_a_plan_to_wipe_is_not_taken_up_where_nothing_can_be_wiped_any_more(ann: Experimenter) -> None:
    ann.world.meets("measured", None, CTRL_C)
    ann.run(caches="wipe")
    wiped = ann.world.wiped
    ann.site = replace(ann.site, caches=None)
    with pytest.raises(UsageError, match="cannot be emptied"):
        ann.resume()
    assert ann.world.wiped == wiped


def test_caches_that_are_not_seen_are_neither_wiped_nor_called_warm(ann: Experimenter) -> None:
    ann.site = replace(ann.site, caches=None)
    with pytest.raises(UsageError, match="not seen"):
        ann.run(caches="wipe")
    prepared = ann.prepare(only=True)
    assert any("not seen" in note for note in prepared.foreseen.notes)
    assert all(trial.caches is None for trial in ann.run().run.trials)


def test_an_arm_that_does_not_start_is_a_row_and_is_not_tried_a_third_time(ann: Experimenter) -> None:
    ann.world.breaks = bool
    done = ann.run(pairs=4)
    assert isinstance(done.error, VoidMeasurement) and done.error.exit_code == 8
    failed = [trial for trial in done.run.trials if trial.arm == "B"]
    assert len(failed) == 2
    assert all(trial.failure and trial.failure.kind == "not started" for trial in failed)
    assert failed[0].failure is not None
    assert failed[0].failure.first_error == "ValueError: patched badly"
    assert verdict(done).says == "void"
    left_pristine(ann)


def test_an_arm_whose_change_is_bypassed_is_a_row(ann: Experimenter) -> None:
    ann.world.shows = "loaded"
    done = ann.run(pairs=2)
    failed = [trial.failure for trial in done.run.trials if trial.arm == "B"]
    assert all(failure and failure.kind == "not active" for failure in failed)
    assert done.error is not None and done.error.exit_code == 8


def test_of_four_arms_one_with_a_bad_flag_and_one_that_dies_two_are_measured_and_two_classified(
    ann: Experimenter,
) -> None:
    ann.world.refuses_launch = lambda launch: "--nonsense" in launch.argv

    def dies(layers: tuple[Layer, ...], point: Point) -> bool:
        return bool(layers) and layers[0].parameters["size"] == 9

    ann.world.dies = dies
    ann.world.log = ("starting", "torch.OutOfMemoryError: CUDA out of memory", "bye")
    done = ann.run(ArmOrder(), patched_arm(4), ArmOrder(args=("--nonsense",)), patched_arm(9), what="scan")
    assert done.error is not None and done.error.exit_code == 8
    assert done.run.analysis is not None
    said = {one.arm: one.says for one in done.run.analysis.verdicts}
    assert said == {"B": "improved", "C": "void", "D": "void"}
    failures = {t.arm: t.failure for t in done.run.trials if t.failure}
    assert failures["C"] is not None and failures["D"] is not None
    assert (failures["C"].kind, failures["D"].kind) == ("not started", "lost under load")
    assert failures["C"].first_error == "error: unrecognized arguments: --nonsense"
    assert failures["D"].first_error == "torch.OutOfMemoryError: CUDA out of memory"
    left_pristine(ann)


def test_arguments_and_environment_of_an_arm_reach_its_server_and_no_other(ann: Experimenter) -> None:
    arm = ArmOrder(args=("--max-running-requests", "64"), env={"NCCL_ALGO": "Ring"})
    done = ann.run(ArmOrder(), arm, what="scan", pairs=2)
    with_it = ["--max-running-requests" in launch.argv for launch in ann.world.launches]
    assert with_it[:4] == [trial.arm == "B" for trial in done.run.trials]
    assert [launch.env.get("NCCL_ALGO") for launch in ann.world.launches if "64" in launch.argv] == [
        "Ring"
    ] * 2
    if len(with_it) > 4:
        assert not with_it[4]


def reporting(ann: Experimenter, more: dict[str, object]) -> None:
    """The servers of arms with an argument of their own report ``more`` than the others."""
    info = dict(ann.world.info)

    class Telling(MeasuredEngine):
        def info(self) -> dict[str, object]:
            launched = ann.world.launches[-1].argv if ann.world.launches else ()
            return {**info, **(more if "--page-size" in launched else {})}

    ann.site = replace(ann.site, engine=Telling(ann.world))


class Answers:
    """Somebody who answers each question in turn."""

    def __init__(self, *answers: bool) -> None:
        self._answers = list(answers)

    def confirm(self, question: str) -> bool:
        return self._answers.pop(0)


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_arm_that_differs_in_more_than_was_meant_is_a_question(
    ann: Experimenter, warm: bool, seed: int
) -> None:
    """Whichever arm comes first, and whether or not a start was spent to warm up."""
    reporting(ann, {"page_size": 4, "attention_backend": "other"})
    wide = ArmOrder(args=("--page-size", "4"))
    done = ann.run(ArmOrder(), wide, what="scan", warm=warm, seed=seed, pairs=2)
    assert done.error is None
    asked = [line for line in ann.world.asked if line.startswith("ask")]
    assert len(asked) == 2 and "attention_backend" in asked[1] and "page_size" not in asked[1]


def test_a_no_to_what_was_not_meant_ends_the_run_and_leaves_the_host_in_order(ann: Experimenter) -> None:
    reporting(ann, {"attention_backend": "other"})
    ann.site = replace(ann.site, prompt=Answers(True, False))
    done = ann.run(ArmOrder(), ArmOrder(args=("--page-size", "4")), what="scan", warm=True)
    assert isinstance(done.error, Interrupted)
    assert len(done.run.trials) == 2
    left_pristine(ann)


def test_what_was_meant_is_told_and_not_asked(ann: Experimenter) -> None:
    reporting(ann, {"page_size": 4})
    done = ann.run(ArmOrder(), ArmOrder(args=("--page-size", "4")), what="scan", pairs=2)
    assert done.error is None
    assert len([line for line in ann.world.asked if line.startswith("ask")]) == 1


def test_in_what_the_arms_are_begun_differently_is_known_before_the_start(ann: Experimenter) -> None:
    prepared = ann.prepare(
        ArmOrder(),
        ArmOrder(args=("--page-size", "4"), env={"NCCL_ALGO": "Ring"}),
        ArmOrder(args=("--page-size=8",)),
        what="scan",
        only=True,
    )
    told = {one.name: one.values for one in prepared.foreseen.launch}
    assert told == {"--page-size": (None, "4", "8"), "NCCL_ALGO": (None, "Ring", None)}
    assert ann.prepare(only=True).foreseen.launch == ()


def test_two_arms_that_are_one_build_are_refused(ann: Experimenter) -> None:
    alike = (ArmOrder(args=("--page-size", "4")), ArmOrder(args=("--page-size=4",)))
    with pytest.raises(UsageError, match="arms B and C are the same build"):
        ann.prepare(ArmOrder(), *alike, what="scan")
    with pytest.raises(UsageError, match="arms A and B are the same build"):
        ann.prepare(patched_arm(), patched_arm(), what="scan")


@pytest.mark.parametrize(
    ("budget_s", "arms", "warm", "pairs"),
    [
        (3 * 3600, 2, True, 7),  # 18 restarts of 600 s: 2 to warm up, 1 at the end, 7 pairs
        (3 * 3600, 2, False, 8),
        (3 * 3600, 4, True, 3),
        (4200, 2, True, 2),
    ],
)
def test_a_budget_picks_the_number_of_pairs(
    ann: Experimenter, budget_s: float, arms: int, warm: bool, pairs: int
) -> None:
    orders = (ArmOrder(), *(patched_arm(size) for size in range(4, 3 + arms)))
    prepared = ann.prepare(*orders, budget_s=budget_s, trial_s=600.0, warm=warm, what="scan", only=True)
    assert prepared.plan.design is not None
    assert (prepared.plan.design.pairs, prepared.plan.design.budget_s) == (pairs, budget_s)
    takes_s = 600.0 * (len(prepared.plan.trials) + 1)
    assert takes_s <= budget_s < takes_s + 600.0 * arms


def test_a_budget_that_holds_no_two_pairs_or_of_unknown_trials_is_refused(ann: Experimenter) -> None:
    with pytest.raises(UsageError, match="holds no two pairs") as small:
        ann.prepare(budget_s=1800, trial_s=600.0)
    assert "--budget 50m" in (small.value.hint or "")
    with pytest.raises(UsageError, match="not known") as unknown:
        ann.prepare(budget_s=1800)
    assert "--trial-takes" in (unknown.value.hint or "")


def test_a_budget_is_met_by_what_past_trials_took(ann: Experimenter) -> None:
    first = ann.run()
    took = [(t.ended_at - t.started_at).total_seconds() for t in first.run.trials if t.ended_at]
    prepared = ann.prepare(budget_s=12 * max(took), only=True)
    assert prepared.plan.design is not None and prepared.plan.design.pairs == 5


def test_a_level_that_hangs_is_a_void_row_and_the_others_go_on(ann: Experimenter) -> None:
    stuck = "it took longer than 300 s and was ended"
    ann.world.fails = lambda layers, point: stuck if layers and point.concurrency == 16 else None
    done = ann.run()
    assert done.error is not None and done.error.exit_code == 8
    found = verdict(done)
    assert (found.says, found.levels) == ("improved", (4,))
    assert any("level 16" in reason for reason in found.reasons)
    void = [point for t in done.run.trials for point in t.points if not point.valid]
    assert len(void) == 3 and all(stuck in point.reasons[0] for point in void)
    left_pristine(ann)


@pytest.mark.parametrize("step", ["stop", "write", "start", "ready", "complete", "measured", "warm-up"])
@pytest.mark.parametrize("at", [0, 3])
def test_ctrl_c_at_any_step_keeps_what_is_finished_and_leaves_the_host_as_declared(
    ann: Experimenter, step: str, at: int
) -> None:
    ann.world.meets(step, *[None] * at, CTRL_C)
    done = ann.run()
    assert isinstance(done.error, Interrupted) and done.error.exit_code == 130
    assert done.error.hint == f"oeactl run resume {done.run.plan.run_id}"
    left_pristine(ann)
    assert done.run == ann.kept()


@pytest.mark.parametrize("step", ["stop", "write", "start", "ready", "complete", "measured", "warm-up"])
@pytest.mark.parametrize("at", [1, 4])
def test_a_run_cut_short_goes_on_with_its_next_trial_and_ends_as_if_it_never_was(
    ann: Experimenter, step: str, at: int
) -> None:
    ann.world.meets(step, *[None] * at, CTRL_C)
    first = ann.run()
    finished = {trial.name: trial for trial in first.run.trials if trial.outcome == "completed"}
    kept = {path.name: path.read_bytes() for path in (Path(first.run.path) / "trials").iterdir()}
    done = ann.resume()
    assert done.error is None
    assert verdict(done).says == "improved"
    assert verdict(done).effect.pairs == 3  # type: ignore[union-attr]
    assert all(trial in done.run.trials for trial in finished.values())
    assert len([trial for trial in done.run.trials if trial.outcome == "completed"]) == 6
    after = {path.name: path.read_bytes() for path in (Path(first.run.path) / "trials").iterdir()}
    assert all(after[name] == data for name, data in kept.items())
    left_pristine(ann)


def test_a_lost_connection_ends_the_run_and_the_host_is_still_put_in_order_if_it_can(
    ann: Experimenter,
) -> None:
    ann.world.meets("measured", None, None, After(LOST))
    done = ann.run()
    assert done.error is LOST
    assert [trial.outcome for trial in done.run.trials][-1] == "failed"
    left_pristine(ann)
    again = ann.resume()
    assert again.error is None and verdict(again).says == "improved"


def test_a_host_that_cannot_be_left_in_order_is_said_with_what_to_do(ann: Experimenter) -> None:
    seed = next(s for s in range(20) if ann.prepare(only=True, seed=s).plan.trials[-1].arm == "B")
    ann.world.meets("stop", *[None] * 6, LOST)
    done = ann.run(seed=seed)
    assert isinstance(done.error, Degraded) and done.error.exit_code == 7
    assert "run resume" in (done.error.hint or "")
    again = ann.resume()
    assert again.error is None
    left_pristine(ann)


def test_a_killed_client_is_taken_up_from_what_lies_on_the_disk(ann: Experimenter) -> None:
    """The process is gone in the middle of a trial: no tidying up, the lease and the patch still there."""

    class Killed(BaseException):
        pass

    ann.world.meets("measured", *[None] * 3, Killed())
    for step in ("survey", "state", "stop", "settle"):
        ann.world.meets(step)
    with pytest.raises(Killed):
        kill(ann)
    before = ann.kept()
    assert [trial.outcome for trial in before.trials] == ["completed", "unfinished"]
    done = ann.resume()
    assert done.error is None and verdict(done).says == "improved"
    names = [trial.name for trial in done.run.trials]
    assert names.count("002-B-2") + names.count("002-A-2") == 1
    left_pristine(ann)


def test_a_host_that_was_rebooted_in_between_is_taken_up_too(ann: Experimenter) -> None:
    """The client was cut off; the machine came back with files, journal and lease, and no server."""

    class Killed(BaseException):
        pass

    ann.world.meets("measured", *[None] * 5, Killed())
    with pytest.raises(Killed):
        kill(ann)
    ann.world.running, ann.world.proofs = None, ()
    ann.world.time += 900.0
    done = ann.resume()
    assert done.error is None and verdict(done).says == "improved"
    assert verdict(done).effect.pairs == 3  # type: ignore[union-attr]
    left_pristine(ann)


def kill(ann: Experimenter) -> None:
    """Run until Killed, and let nothing be put in order afterwards."""
    from oeactl.flows import experiment

    prepared = ann.prepare()
    run = experiment._Run(ann.site, ann.driver, ann.store, prepared)
    ann.store.begin(prepared.plan)
    run._guarded()


def test_a_finished_run_is_resumed_without_a_start_or_a_question(ann: Experimenter) -> None:
    ann.run()
    ann.world.asked.clear()
    done = ann.resume()
    assert done.error is None and verdict(done).says == "improved"
    assert not {"stop", "start", "write patch", "write revert"} & set(ann.world.asked)
    assert not any(line.startswith("ask") for line in ann.world.asked)
    left_pristine(ann)


def test_a_run_is_not_taken_up_on_another_engine(ann: Experimenter) -> None:
    ann.world.meets("measured", None, CTRL_C)
    ann.run()
    ann.world.edit(PRISTINE + b"# upgraded\n")
    with pytest.raises(Refused, match="another change now"):
        ann.resume()


def test_somebody_elses_lease_ends_it_before_anything_is_begun(ann: Experimenter) -> None:
    held(ann)
    with pytest.raises(Locked):
        ann.run()
    assert ann.store.list().runs == ()
    assert ann.world.disk == PRISTINE


def test_the_lease_is_held_through_restarts_of_any_length_and_given_back(ann: Experimenter) -> None:
    holders: list[Holder | None] = []
    steps = ann.world.step

    def watching(name: str, effect: object, text: str = "") -> object:
        if name in ("start", "stop", "measured"):
            lease = ann.world.journal.lease
            holders.append(lease.holder if lease and ann.world.time < lease.until else None)
        return steps(name, effect, text)  # type: ignore[arg-type]

    ann.world.step = watching  # type: ignore[method-assign]
    ann.run()
    assert holders and all(holder == ann.site.holder for holder in holders)
    assert ann.world.journal.lease is None


def test_what_was_cut_short_before_is_put_in_order_first(ann: Experimenter) -> None:
    ann.world.note(pending=pending())
    assert ann.run().error is None
    assert "recover" in ann.world.asked


def test_looks_end_a_run_that_is_decided(ann: Experimenter) -> None:
    done = ann.run(pairs=6, looks=True)
    assert done.error is None
    assert verdict(done).says == "improved" and len(done.run.trials) == 6
    assert verdict(done).effect.confidence == pytest.approx(0.981)  # type: ignore[union-attr]
    assert len(done.run.plan.trials) == 12
    assert ann.resume().run.trials == done.run.trials


def test_looks_do_not_end_a_run_that_is_not_decided(ann: Experimenter) -> None:
    ann.world.factor = lambda layers: 1.0
    done = ann.run(pairs=4, looks=True)
    assert len(done.run.trials) == 8


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pairs": 1}, "one pair"),
        ({"pairs": 11, "looks": True}, "looks"),
        ({"pairs": 2, "analysis": "regression"}, "six restarts"),
    ],
)
def test_a_plan_that_could_say_nothing_is_refused(
    ann: Experimenter, changes: dict[str, object], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        ann.run(**changes)
    assert ann.world.asked == []


def test_a_wrong_value_is_said_before_the_host_is_contacted(ann: Experimenter) -> None:
    from oeactl.flows.build import Wanted
    from tests.support.site_world import a_recipe

    arm = ArmOrder(wanted=(Wanted(recipe=a_recipe(), sets={"sizes": "4"}),))
    with pytest.raises(UsageError, match="no parameter"):
        ann.run(ArmOrder(), arm)
    assert ann.world.asked == []


def test_past_runs_tell_the_time_and_the_noise_of_the_next(ann: Experimenter) -> None:
    first = ann.prepare(only=True)
    assert (
        first.foreseen.trial_s is None
        and first.plan.design is not None
        and first.plan.design.known_sd is None
    )
    ann.run(pairs=4)
    second = ann.prepare(only=True)
    assert second.foreseen.trial_s is not None and second.foreseen.trial_s == pytest.approx(1240, abs=60)
    assert second.foreseen.trial_s_from == "past trials here"
    assert second.plan.design is not None and second.plan.design.known_sd is not None
    assert 0.001 < second.plan.design.known_sd < 0.02
    other = ann.prepare(
        only=True, sweep=first.plan.design.sweeps[0].__class__(points=first.plan.sweep.points[:1], seed=1)
    )
    assert other.foreseen.trial_s is None
    assert ann.prepare(only=True, trial_s=99.0).foreseen.trial_s == 99.0


def test_a_container_that_went_down_with_its_server_is_begun_before_its_files_are_changed(
    ann: Experimenter,
) -> None:
    asked: list[str] = []
    site = ann.site
    survey, start = site.files.survey, site.server.start  # type: ignore[union-attr]

    def looked(request: SurveyRequest) -> Survey:
        return msgspec.structs.replace(survey(request), at_rest=ann.world.running is None)

    def begun(launch: Launch) -> Process:
        asked.append("start")
        return start(launch)

    site.files.survey = looked  # type: ignore[method-assign]
    site.server.start = begun  # type: ignore[method-assign,union-attr]
    ann.world.dies = lambda layers, point: not layers and point.concurrency == 16
    done = ann.run(pairs=2)
    assert not [t for t in done.run.trials if t.failure and t.failure.kind == "not written"]
    assert len(asked) > len(done.run.trials)
    left_pristine(ann)


@pytest.mark.parametrize("manager", ["commands", "docker"])
def test_arguments_that_would_have_no_effect_are_refused(ann: Experimenter, manager: str) -> None:
    server = msgspec.structs.replace(ann.site.host.server, manager=manager)
    ann.site = replace(ann.site, host=msgspec.structs.replace(ann.site.host, server=server))
    with pytest.raises(UsageError, match="launch"):
        ann.run(ArmOrder(), ArmOrder(args=("--page-size", "4")), what="scan")


def natural(ann: Experimenter) -> Concluded:
    sweep = msgspec.structs.replace(make_sweep((4,), input_len=64, output_len=32, seed=42), dataset="natural")
    return ann.run(sweep=sweep, pairs=3)


def test_an_arm_that_answers_something_else_than_the_first_is_void(ann: Experimenter) -> None:
    """However fast it is, and though each of its answers looks like text."""

    def texts(point: Point) -> tuple[str, ...]:
        assert ann.world.running is not None
        return prose(point.requests, seed=point.seed, mixed=bool(ann.world.running.layers))

    ann.world.texts = texts
    done = natural(ann)
    judged = [
        (trial.arm, gate.outcome)
        for trial in done.run.trials
        for gate in trial.points[0].gates
        if gate.name == "answers_shift"
    ]
    assert {outcome for arm, outcome in judged if arm == "A"} == {"not_measured"}
    first_b = [arm for arm, _ in judged].index("A") and 1  # a B before any A has nothing to be compared with
    assert {outcome for arm, outcome in judged[first_b:] if arm == "B"} == {"fail"}
    assert isinstance(done.error, VoidMeasurement)


def test_an_arm_that_answers_in_kind_is_compared_and_passes(ann: Experimenter) -> None:
    ann.world.texts = lambda point: prose(point.requests, seed=point.seed + ann.world.starts)
    done = natural(ann)
    assert done.error is None
    found = {g.outcome for t in done.run.trials for g in t.points[0].gates if g.name == "answers_shift"}
    assert found == {"not_measured", "pass"}


class _Clocked:
    """ports.Telemetry of one card, whose clock the test knows by the start."""

    def __init__(self, ann: Experimenter) -> None:
        self._world = ann.world
        self.mhz: dict[int, int] = {}

    @contextmanager
    def watching(self, own: Sequence[int]) -> Iterator[_Clocked]:
        yield self

    def between(self, begin: float, end: float) -> tuple[Sample, ...]:
        mhz = self.mhz.get(self._world.starts, 1980)
        one = Sample(at=begin, fields=("index", "uuid", "clocks.sm"), cards=(("0", "GPU-0", str(mhz)),))
        return (one,) * 5

    def why(self) -> dict[str, str]:
        return {}


def test_a_trial_at_another_clock_than_those_before_it_is_void(ann: Experimenter) -> None:
    clocked = _Clocked(ann)
    clocked.mhz[4] = 1740
    ann.site = replace(ann.site, telemetry=clocked)
    done = ann.run()
    void = [trial.name for trial in done.run.trials if not all(point.valid for point in trial.points)]
    assert [trial.order for trial in done.run.trials if trial.name in void] == [4]
    reasons = [line for trial in done.run.trials for point in trial.points for line in point.reasons]
    assert set(reasons) == {"gpu_band: SM clock of GPU 0 was 1,740 MHz, and 1,980 in the trials before"}
