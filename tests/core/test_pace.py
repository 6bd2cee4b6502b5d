"""One line that says how a burst is going: what is fast now, not what was fast on the whole."""

from __future__ import annotations

import pytest

from oeactl.core.pace import Pace, clock


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (187.0, "3:07"), (3723.0, "1:02:03")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_the_rate_is_that_of_the_last_seconds() -> None:
    pace = Pace(100)
    for second in range(20):
        pace.line(float(second), over=second, failed=0, tokens=100 * second)
    line = ""
    for second in range(20, 27):
        line = pace.line(float(second), over=second, failed=0, tokens=1900 + 300 * (second - 19))
    assert line == "26 s, 300 tok/s now, about 1:14 left"


def test_at_the_beginning_nothing_is_guessed() -> None:
    pace = Pace(40)
    assert pace.line(0.5, over=0, failed=0, tokens=3) == "0 s"
    assert pace.line(1.0, over=0, failed=0, tokens=8) == "1 s"
    assert pace.line(2.0, over=0, failed=0, tokens=33) == "2 s, 20 tok/s now"


def test_before_the_first_wave_is_over_its_end_is_not_guessed() -> None:
    pace = Pace(160, streams=16)
    assert "left" not in pace.line(6.0, over=1, failed=0, tokens=32)
    assert pace.line(8.0, over=16, failed=0, tokens=512).endswith("about 1:12 left")


def test_failures_are_told_and_nothing_is_left_at_the_end() -> None:
    pace = Pace(4)
    pace.line(1.0, over=1, failed=1, tokens=0)
    assert pace.line(4.0, over=4, failed=2, tokens=0) == "4 s, 0 tok/s now, 2 failed"


def test_a_level_of_a_duration_ends_by_the_clock() -> None:
    pace = Pace(16, duration_s=60.0)
    pace.line(10.0, over=3, failed=0, tokens=0)
    assert pace.line(20.0, over=90, failed=0, tokens=1000) == "20 s, 100 tok/s now, about 40 s left"
    assert pace.line(61.0, over=99, failed=0, tokens=1000).endswith("about 0 s left")
