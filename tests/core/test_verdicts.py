"""What trials allow one to say: only of equal work on both sides, never by a statistic that failed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from math import log

import msgspec
import pytest

from oeactl.core.design import arrange, sweeps
from oeactl.core.experiment import Design, Failure
from oeactl.core.run import Arm, Plan, PlannedTrial, Trial
from oeactl.core.verdicts import is_finished, result_of, settled, verdicts
from tests.support.runs import SWEEP, a_plan, a_record, a_trial

NOISE = (0.004, -0.006, 0.002, 0.005, -0.003, 0.001, -0.002, 0.003, -0.004, 0.006, 0.0, -0.001)
Rate = Callable[[str, int, int], float]


def a_comparison(pairs: int = 4, arms: str = "AB", *, margin: float = 0.03, **changes: object) -> Plan:
    design = Design(
        pairs=pairs,
        seed=5,
        margin=margin,
        alpha=0.05,
        sweeps=sweeps(SWEEP, pairs, random.Random(5)),
    )
    return a_plan(
        what="ab",
        arms=tuple(Arm(name=name) for name in arms),
        design=msgspec.structs.replace(design, **changes),
        trials=tuple(
            PlannedTrial(
                name=slot.name,
                arm=slot.arm,
                order=slot.order,
                start="fresh",
                pair=slot.pair,
                block=slot.block,
            )
            for slot in arrange(tuple(arms), pairs, random.Random(5))
        ),
    )


def measured(plan: Plan, ratios: Mapping[str, float], *, spread: float = 1.0) -> list[Trial]:
    """Every trial of the plan at 400 tok/s times its arm's ratio and some noise."""
    assert plan.design is not None
    trials = []
    for planned in plan.trials:
        assert planned.pair is not None
        factor = ratios.get(planned.arm, 1.0) * (1 + spread * NOISE[(planned.order * 5) % len(NOISE)])
        points = plan.design.sweeps[planned.pair - 1].points
        trials.append(
            a_trial(
                name=planned.name,
                arm=planned.arm,
                order=planned.order,
                pair=planned.pair,
                block=planned.block,
                start="fresh",
                points=tuple(
                    a_record(at, point, tokens_per_s=400.0 * factor) for at, point in enumerate(points, 1)
                ),
            )
        )
    return trials


def changed(trials: list[Trial], name: str, **fields: object) -> list[Trial]:
    return [msgspec.structs.replace(t, **fields) if t.name == name else t for t in trials]


def of_arm(plan: Plan, arm: str, pair: int) -> str:
    return next(t.name for t in plan.trials if (t.arm, t.pair) == (arm, pair))


@pytest.mark.parametrize(
    ("ratio", "says", "material"),
    [
        (1.20, "improved", True),
        (1.025, "improved", False),
        (0.98, "regressed", False),
        (0.70, "regressed", True),
        (1.001, "equivalent", False),
    ],
)
def test_the_interval_earns_the_word(ratio: float, says: str, material: bool) -> None:
    plan = a_comparison()
    (found,) = verdicts(plan, measured(plan, {"B": ratio}))
    assert (found.says, found.material) == (says, material)
    assert found.effect is not None and found.effect.low and found.effect.high
    assert found.effect.low < found.effect.ratio < found.effect.high
    assert found.effect.ratio == pytest.approx(ratio, rel=0.01)
    assert found.effect.pairs == 4 and found.levels == (4, 16)
    assert found.smallest_effect is not None and found.smallest_effect < 0.05


def test_a_small_effect_in_much_noise_is_inconclusive_and_says_what_could_have_been_seen() -> None:
    plan = a_comparison(3)
    (found,) = verdicts(plan, measured(plan, {"B": 1.02}, spread=20.0))
    assert found.says == "inconclusive"
    assert found.smallest_effect is not None and found.smallest_effect > 0.1


@pytest.mark.parametrize("analysis", ["paired", "regression"])
def test_the_analysis_is_the_one_that_was_chosen_beforehand(analysis: str) -> None:
    plan = a_comparison(6, analysis=analysis)
    (found,) = verdicts(plan, measured(plan, {"B": 1.2}))
    assert found.says == "improved" and found.effect is not None
    assert found.effect.ratio == pytest.approx(1.2, rel=0.01)


def test_the_same_figure_every_time_gives_no_interval_and_no_verdict() -> None:
    plan = a_comparison()
    (found,) = verdicts(plan, measured(plan, {"B": 1.5}, spread=0.0))
    assert found.says == "inconclusive" and not found.material
    assert found.effect is not None and found.effect.low is None and found.effect.p is None
    assert found.effect.ratio == pytest.approx(1.5)
    assert not any(level.shown for level in found.by_level)


def test_one_pair_alone_says_nothing() -> None:
    plan = a_comparison(1)
    (found,) = verdicts(plan, measured(plan, {"B": 1.5}))
    assert found.says == "inconclusive" and found.effect is not None and found.effect.pairs == 1


def test_a_pair_whose_arm_did_not_start_is_left_out_and_named() -> None:
    plan = a_comparison()
    failure = Failure(kind="not started", what="it ended with code 1", first_error="CUDA out of memory")
    name = of_arm(plan, "B", 2)
    trials = changed(measured(plan, {"B": 1.2}), name, outcome="failed", points=(), failure=failure)
    (found,) = verdicts(plan, trials)
    assert found.says == "improved" and found.effect is not None and found.effect.pairs == 3
    assert found.reasons == (f"pair 2 is left out: {name} was not started: CUDA out of memory",)


def test_an_arm_that_never_ran_is_void_with_its_reasons() -> None:
    plan = a_comparison(2)
    trials = measured(plan, {})
    for pair in (1, 2):
        failure = Failure(kind="not started", what="it ended with code 1")
        trials = changed(trials, of_arm(plan, "B", pair), outcome="failed", points=(), failure=failure)
    (found,) = verdicts(plan, trials)
    assert (found.says, found.effect, len(found.reasons)) == ("void", None, 2)


def test_nothing_measured_yet_is_void() -> None:
    (found,) = verdicts(a_comparison(), [])
    assert (found.says, found.reasons) == ("void", ("no pair was measured",))


def test_a_level_that_is_void_on_one_side_of_one_pair_drops_from_both_in_all() -> None:
    plan = a_comparison()
    trials = measured(plan, {"B": 1.2})
    name = of_arm(plan, "B", 3)
    trial = next(t for t in trials if t.name == name)
    points = [
        msgspec.structs.replace(p, valid=False, reasons=("same_server: gone",))
        if p.point.concurrency == 16
        else p
        for p in trial.points
    ]
    (found,) = verdicts(plan, changed(trials, name, points=tuple(points)))
    assert found.levels == (4,) and found.says == "improved"
    assert found.effect is not None and found.effect.pairs == 4
    assert "pair 3 lacks level 16 (void: same_server: gone)" in found.reasons
    assert "level 16 is left out: it does not hold in every pair" in found.reasons
    by_level = {level.concurrency: level.effect for level in found.by_level}
    assert by_level[16] is not None and by_level[16].pairs == 3


@pytest.mark.parametrize(("field", "says"), [("tokens", "output tokens"), ("prompts", "prompts")])
def test_only_equal_completed_work_is_compared(field: str, says: str) -> None:
    plan = a_comparison(2)
    trials = measured(plan, {"B": 1.2})
    spoilt = []
    for trial in trials:
        if trial.arm == "B":
            points = []
            for point in trial.points:
                assert point.measurement is not None
                fewer = msgspec.structs.replace(point.measurement, output_tokens=7)
                points.append(
                    msgspec.structs.replace(point, measurement=fewer)
                    if field == "tokens"
                    else msgspec.structs.replace(point, workload_sha256="99" * 32)
                )
            trial = msgspec.structs.replace(trial, points=tuple(points))
        spoilt.append(trial)
    (found,) = verdicts(plan, spoilt)
    assert found.says == "void" and says in found.reasons[0]


def test_several_arms_share_the_error_and_their_intervals_are_wider() -> None:
    two, four = a_comparison(4, "AB"), a_comparison(4, "ABCD")
    (alone,) = verdicts(two, measured(two, {"B": 1.2}))
    found = verdicts(four, measured(four, {"B": 1.2, "C": 0.8}))
    assert [one.arm for one in found] == ["B", "C", "D"]
    assert [one.says for one in found][:2] == ["improved", "regressed"]
    assert alone.effect is not None and alone.effect.confidence == 0.95
    assert all(one.effect and one.effect.confidence == pytest.approx(1 - 0.05 / 3) for one in found)


def test_levels_are_corrected_for_their_number() -> None:
    plan = a_comparison()
    (found,) = verdicts(plan, measured(plan, {"B": 1.2}))
    for level in found.by_level:
        assert level.effect is not None and level.effect.p is not None and level.p_adjusted is not None
        assert level.p_adjusted > level.effect.p
        assert level.effect.confidence == 0.975 and level.shown


def test_an_attempt_that_was_cut_short_is_no_result_and_its_repetition_is() -> None:
    plan = a_comparison(2)
    trials = measured(plan, {"B": 1.2})
    cut = msgspec.structs.replace(trials[0], outcome="interrupted", points=())
    again = msgspec.structs.replace(trials[0], name=f"{trials[0].name}-2")
    assert not is_finished(cut)
    assert result_of(plan.trials[0], [cut]) is None
    assert result_of(plan.trials[0], [cut, again]) == again
    (found,) = verdicts(plan, [cut, again, *trials[1:]])
    assert found.effect is not None and found.effect.pairs == 2


def test_a_look_ends_the_run_only_when_every_arm_is_decided() -> None:
    plan = a_comparison(4, "ABC")
    both = verdicts(plan, measured(plan, {"B": 1.2, "C": 0.8}))
    one = verdicts(plan, measured(plan, {"B": 1.2}))
    assert settled(both) and not settled(one) and not settled(())


def test_the_ratio_is_the_geometric_mean_over_pairs() -> None:
    plan = a_comparison(2)
    trials = measured(plan, {"B": 1.1})
    (found,) = verdicts(plan, trials)
    rates = {(t.arm, t.pair): t.points[0].measurement for t in trials}
    logs = []
    for pair in (1, 2):
        a, b = rates["A", pair], rates["B", pair]
        assert a is not None and b is not None
        logs.append(log(b.output_tokens_per_s / a.output_tokens_per_s))
    assert found.effect is not None
    assert log(found.effect.ratio) == pytest.approx(sum(logs) / 2)
