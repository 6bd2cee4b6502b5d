"""The original engine over time: which trials count, when the newest left the band, and what is new since."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from oeactl.core.history import Series, history
from oeactl.core.metrics import Spread
from oeactl.core.results import moment
from oeactl.core.run import Arm, PointRecord, Run
from tests.core.test_verdicts import a_comparison, measured
from tests.support.levels import a_card, a_watched
from tests.support.runs import AT, OEA, SWEEP, a_plan, a_record, a_trial

USUAL = (400.0, 404.0, 398.0, 401.0)


def a_bench(day: int, rate: float, **changes: Any) -> Run:
    """A pristine server, benched."""
    run_id = f"202612{day:02d}T021500Z-bench-{day:08x}"
    points = tuple(a_record(at, point, tokens_per_s=rate) for at, point in enumerate(SWEEP.points, 1))
    at = moment(AT) + timedelta(days=day)
    made = {"run_id": run_id, "recipes": (), "points": points, "started_at": at, **changes}
    return Run(
        path=f"/{run_id}", plan=a_plan(run_id=run_id, arms=(Arm(name="A"),)), trials=(a_trial(**made),)
    )


def series_of(*runs: Run) -> Series:
    (found,) = history(runs, "@local")
    return found


def days(*rates: float, **last: Any) -> tuple[Run, ...]:
    """A bench a day; last: what was otherwise on the last one."""
    *before, newest = rates
    return (*(a_bench(day, rate) for day, rate in enumerate(before, 1)), a_bench(9, newest, **last))


def test_a_run_is_one_baseline_oldest_first() -> None:
    found = series_of(*reversed(days(*USUAL)))
    assert [round(one.output_tokens_per_s) for one in found.baselines] == [400, 404, 398, 401]
    assert [one.run_id[:8] for one in found.baselines] == ["20261201", "20261202", "20261203", "20261209"]


def test_a_usual_day_stays_in_the_band_and_nothing_is_suspected() -> None:
    found = series_of(*days(*USUAL, 402.0, engine=msgspec.structs.replace(a_trial().engine, version="9.9")))
    assert found.low is not None and found.high is not None and found.low < 402 < found.high
    assert not found.left and found.suspects == ()


def test_the_band_is_the_prediction_interval_of_students_t() -> None:
    """Worked by hand for 3 baselines e^6 * (0.99, 1, 1.01): t(2) = 4.3027."""
    from math import exp, log

    logs = [6 + log(factor) for factor in (0.99, 1.0, 1.01)]
    mean = sum(logs) / 3
    sd = (sum((one - mean) ** 2 for one in logs) / 2) ** 0.5
    half = 4.302653 * sd * (4 / 3) ** 0.5
    found = series_of(*days(*map(exp, logs), 400.0))
    assert found.low == pytest.approx(exp(mean - half), rel=1e-6)
    assert found.high == pytest.approx(exp(mean + half), rel=1e-6)


@pytest.mark.parametrize("rate", [300.0, 500.0])
def test_a_day_outside_is_told_with_what_is_new(rate: float) -> None:
    trial = a_trial()
    found = series_of(
        *days(
            *USUAL,
            rate,
            engine=msgspec.structs.replace(trial.engine, version="0.5.21"),
            host=msgspec.structs.replace(
                trial.host, gpus=({**trial.host.gpus[0], "driver_version": "590.2"},)
            ),
            server=msgspec.structs.replace(
                trial.server, args={"tp_size": 2, "page_size": 64, "random_seed": 5}
            ),
        )
    )
    assert found.left
    told = {one.what: (one.before, one.now) for one in found.suspects}
    assert told["GPU driver"] == ("580.1", "590.2")
    assert told["engine version"] == ("0.5.20", "0.5.21")
    assert told["argument page_size"] == ("none", "64")
    assert set(told) == {"GPU driver", "engine version", "argument page_size"}


def test_a_clock_that_is_lower_under_load_than_ever_before_is_a_suspect() -> None:
    def watched_at(mhz: float) -> tuple[PointRecord, ...]:
        cards = (a_card(0, sm_mhz=Spread(min=mhz, mean=mhz, max=mhz)),)
        return tuple(
            msgspec.structs.replace(a_record(at, point, tokens_per_s=300.0), watched=a_watched(*cards))
            for at, point in enumerate(SWEEP.points, 1)
        )

    usual = a_card(0).sm_mhz
    assert usual is not None
    (found,) = series_of(*days(*USUAL, 300.0, points=watched_at(1200.0))).suspects
    assert (found.what, found.before, found.now) == (
        "SM clock under load",
        f"{usual.mean:,.0f} MHz",
        "1,200 MHz",
    )
    assert series_of(*days(*USUAL, 300.0, points=watched_at(usual.mean * 1.005))).suspects == ()
    unseen = tuple(msgspec.structs.replace(point, watched=None) for point in watched_at(1.0))
    assert series_of(*days(*USUAL, 300.0, points=unseen)).suspects == ()


def test_what_an_earlier_run_had_too_is_no_suspect() -> None:
    newer = msgspec.structs.replace(a_trial().host, kernel="6.2")
    *before, newest = days(*USUAL, 300.0, host=newer)
    before[1] = a_bench(2, 404.0, host=newer)
    assert series_of(*before, newest).suspects == ()


def test_too_few_or_equal_baselines_make_no_band() -> None:
    assert series_of(*days(400.0, 404.0, 100.0)).low is None
    assert series_of(*days(400.0, 400.0, 400.0, 100.0)).low is None
    assert not series_of(*days(400.0, 404.0, 100.0)).left


def test_old_days_beyond_the_last_twenty_no_longer_count() -> None:
    old = [a_bench(day, 100.0 + day) for day in range(1, 6)]
    late = [a_bench(day, 400.0 + day % 3) for day in range(6, 27)]
    found = series_of(*old, *late)
    assert len(found.baselines) == 26
    assert found.low is not None and found.low > 390


def test_patched_changed_void_unfinished_and_other_hosts_trials_are_no_baseline() -> None:
    wide = a_bench(5, 401.0)
    wide = msgspec.structs.replace(
        wide, plan=msgspec.structs.replace(wide.plan, arms=(Arm(name="A", args=("--page-size", "4")),))
    )
    others = (
        a_bench(1, 300.0, recipes=(OEA,)),
        a_bench(2, 300.0, outcome="interrupted"),
        a_bench(3, 300.0, points=(a_record(1, SWEEP.points[0], fault="no token"),)),
        a_bench(4, 300.0, host=msgspec.structs.replace(a_trial().host, name="lab")),
        wide,
    )
    assert history(others, "@local") == ()
    assert len(series_of(*others, a_bench(9, 400.0)).baselines) == 1


def test_a_comparison_gives_its_arm_a_and_no_warm_up() -> None:
    plan = a_comparison()
    arms = (plan.arms[0], Arm(name="B", recipes=(OEA,)))
    plan = msgspec.structs.replace(plan, arms=arms)
    trials = [
        msgspec.structs.replace(trial, recipes=(OEA,) if trial.arm == "B" else ())
        for trial in measured(plan, {"B": 1.5})
    ]
    warm = msgspec.structs.replace(trials[0], name="000-A", arm="A", recipes=(), pair=None, order=-1)
    (baseline,) = series_of(Run(path="/c", plan=plan, trials=(warm, *trials))).baselines
    assert baseline.trials == 4
    assert baseline.output_tokens_per_s == pytest.approx(400, rel=0.01)


def test_another_model_client_or_load_is_a_series_of_its_own_and_the_newest_stands_last() -> None:
    other = msgspec.structs.replace(a_trial().model, config_sha256="99" * 32, served_name="other")
    found = history((a_bench(3, 50.0, model=other), a_bench(1, 400.0), a_bench(2, 401.0)), "@local")
    assert [series.load.model for series in found] == ["tiny", "other"]
    assert [len(series.baselines) for series in found] == [2, 1]
