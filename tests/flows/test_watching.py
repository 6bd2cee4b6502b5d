"""The host is watched while a level is measured: what is kept of it, what it voids, what it may not cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oeactl.core.burst import PointMeasured, PointRequest
from oeactl.core.metrics import Metric
from oeactl.core.telemetry import MOST_KEPT, Holder, Sample, thinned
from oeactl.errors import VoidMeasurement
from tests.support.bench_world import Bench, FakeTelemetry
from tests.support.cards import H200, SW_THERMAL
from tests.support.levels import WORKER, a_measurement, some_rows

FIELDS = ("index", "uuid", "clocks.sm", "clocks_event_reasons.active", "power.draw")


@pytest.fixture
def ready(tmp_path: Path) -> Bench:
    made = Bench(tmp_path / "results")
    made.telemetry = FakeTelemetry(made.world)
    return made


def a_sample(heard_at: float, *, reasons: str = "0x0000000000000000", running: float = 3.0) -> Sample:
    return Sample(
        at=heard_at + 0.25,
        heard_at=heard_at,
        cpu_busy=0.25,
        fields=FIELDS,
        cards=(("0", "GPU-0", H200["clocks.sm"], reasons, "[N/A]"),),
        holders=(Holder(uuid="GPU-0", pid=WORKER.pid, mib=70000, name="sglang", kin=True, job=False),),
        metrics=(Metric(name="sglang:num_running_reqs", labels={}, value=running),),
    )


def busy(ready: Bench, *, reasons: str = "0x0000000000000000") -> None:
    """The level's load is on from 10 to 20 s; before it the cards are idle and slow."""

    telemetry = ready.telemetry
    assert telemetry is not None

    def level(request: PointRequest) -> PointMeasured | None:
        begun = ready.world.time
        for second in range(30):
            on = 10 <= second <= 20
            running = 4.0 if on else 0.0
            telemetry.samples.append(
                a_sample(begun + second, reasons=reasons if on else "0x0000000000000001", running=running)
            )
        ready.driver.loaded = (begun + 10, begun + 20)
        ready.world.time = begun + 30
        return PointMeasured(
            argv=(), measurement=a_measurement(request.point), requests=some_rows(request.point)
        )

    ready.driver.happens[(4, "measured")] = level


def test_only_the_seconds_of_the_load_are_summed_up(ready: Bench) -> None:
    busy(ready)
    done = ready.run(4)
    assert done.error is None
    (point,) = done.run.trials[0].points
    seen = point.watched
    assert seen is not None and seen.engine is not None and seen.engine.running is not None
    assert (seen.samples, seen.seconds, seen.engine.running.min) == (11, 10.0, 4.0)
    assert seen.clock_offset_s == done.run.trials[0].clock_offset_s == 0.25
    assert (seen.cards[0].used, seen.cards[0].throttled, seen.cards[0].power_w) == (True, {}, None)
    gates = {gate.name: gate.outcome for gate in point.gates}
    assert gates["gpu_throttling"] == gates["gpu_foreign"] == "pass"


def test_the_samples_are_kept_beside_the_run_and_can_be_read_again(ready: Bench) -> None:
    busy(ready)
    run = ready.run(4).run
    raw = run.trials[0].points[0].watched_raw
    assert raw is not None
    rows = json.loads(ready.store.load_raw(ready.kept(), raw.sha256))
    assert len(rows) == 11
    assert rows[0]["cards"] == [["0", "GPU-0", "1980", "0x0000000000000000", "[N/A]"]]


def test_a_long_level_keeps_no_more_than_its_bound_evenly() -> None:
    kept = thinned([a_sample(float(second)) for second in range(4 * MOST_KEPT)])
    assert len(kept) == MOST_KEPT
    assert kept[1].heard_at - kept[0].heard_at == 4


def test_heat_while_the_load_was_on_voids_the_level(ready: Bench) -> None:
    busy(ready, reasons=SW_THERMAL)
    done = ready.run(4)
    assert isinstance(done.error, VoidMeasurement)
    (point,) = done.run.trials[0].points
    assert point.reasons == ("gpu_throttling: software thermal slowdown on GPU 0 in 100% of the samples",)


def test_the_cards_are_known_by_the_server_that_is_up_and_watched_to_the_end(ready: Bench) -> None:
    ready.run(1, 4)
    asked = [line for line in ready.world.asked if line not in ("survey", "lease", "settle")]
    assert (asked[0], asked[-1]) == ("watch [700]", "unwatch")


def test_a_host_that_could_not_be_watched_costs_no_level(ready: Bench) -> None:
    assert ready.telemetry is not None
    ready.telemetry.said = {"host": "the connection broke"}
    done = ready.run(4)
    assert done.error is None
    (point,) = done.run.trials[0].points
    assert point.watched is not None and (point.watched.samples, point.watched_raw) == (0, None)
    gates = {gate.name: (gate.outcome, gate.reason) for gate in point.gates}
    assert gates["gpu_throttling"] == ("not_measured", "the connection broke")
