"""The warm-up that proves a change: a busy server is asked again, a broken one is not waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from oeactl.core.host import Reply
from oeactl.flows.prove import exercise
from oeactl.ports import Failed
from tests.support.bench_world import TOKEN, Bench, FakeEngine

BUSY = Reply(status=503, body=b"prefill")


class BusyEngine(FakeEngine):
    """Answers ``busy`` completions with 503 before it answers all."""

    def __init__(self, bench: Bench, busy: int) -> None:
        super().__init__(bench.world)
        self._busy = busy
        self.asked: list[int] = []

    def complete(
        self, *, prompts: Sequence[Sequence[int]], output_len: int, concurrency: int
    ) -> tuple[Reply, ...]:
        self.asked.append(len(prompts))
        late = min(self._busy, len(prompts))
        self._busy -= late
        return (*(BUSY,) * late, *(TOKEN,) * (len(prompts) - late))


def run(tmp_path: Path, busy: int) -> tuple[Failed | None, list[int]]:
    bench = Bench(tmp_path)
    engine = BusyEngine(bench, busy)
    return exercise(replace(bench.site(), engine=engine), ()), engine.asked


def test_a_503_is_no_reason_to_roll_back(tmp_path: Path) -> None:
    assert run(tmp_path, 3) == (None, [8, 3])


def test_a_server_that_stays_busy_fails_in_the_end(tmp_path: Path) -> None:
    failed, asked = run(tmp_path, 1000)
    assert failed is not None and "8 of 8 warm-up completions failed: HTTP 503: prefill" in failed.why
    assert asked == [8] * 5
