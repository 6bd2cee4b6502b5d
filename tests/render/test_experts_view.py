"""Distinct experts, as seen and as predicted, on a terminal."""

from __future__ import annotations

import pytest

from oeactl.core.experts import parse_counts, predict
from oeactl.core.routing import unseen
from oeactl.edges.hardware import hardware_names, read_hardware
from oeactl.errors import UsageError
from oeactl.render.experts import prediction_view, seen_view
from tests.render.test_results_view import shown
from tests.support.runs import some_experts


def test_what_is_seen_stands_beside_uniform_routing_and_what_is_not_says_why() -> None:
    text = shown(seen_view([some_experts(4), unseen(64, "at most 8 at once")], width=100))
    rows = [line.split() for line in text.splitlines()]
    assert ["4", "9.8", "8", "13", "128", "29.1"] in rows
    assert ["64", "-", "-", "-", "-", "-"] in rows
    assert "not measured: at most 8 at once" in text


def test_a_prediction_is_a_table_and_a_plot_that_rises_to_the_number_of_experts() -> None:
    made = predict(experts=256, top_k=8, k0=range(1, 9), batches=parse_counts("1..512", "b", doubling=True))
    lines = shown(prediction_view(made, width=80)).splitlines()
    assert ["64", "222.4", "56.7", "101.0", "135.6", "162.6", "183.6", "199.9", "212.6", "222.4"] in [
        line.split() for line in lines
    ]
    plot = [line for line in lines if "|" in line]
    assert plot[0].startswith("  256 |") and plot[0].rstrip().endswith("*")
    assert plot[-1].startswith("    0 |*")


def test_what_a_prediction_leaves_out_is_said_under_it() -> None:
    uniform = predict(experts=4, top_k=2, k0=(1,), batches=(4,))
    recorded = predict(
        experts=4, top_k=2, k0=(1,), batches=(4,), shares=[[1.0, 1.0, 0.0, 0.0]], source="recorded in x"
    )
    texts = [shown(prediction_view(made, width=120)) for made in (uniform, recorded)]
    assert ["real routing is skewed" in text for text in texts] == [True, False]
    assert ["k0 columns run high" in text for text in texts] == [False, True]


@pytest.mark.parametrize("width", [20, 31, 40, 80])
def test_no_line_is_wider_than_the_terminal_and_what_has_no_room_is_named(width: int) -> None:
    """The plot as well; the k0 that saves least gives way first."""
    made = predict(experts=256, top_k=8, k0=range(1, 9), batches=(1, 64, 512))
    lines = shown(prediction_view(made, width=width), width=width + 40).splitlines()
    drawn = [line for line in lines if "k0=" in line or " |" in line or " +" in line or "512" in line]
    assert max(len(line) for line in drawn if "no room" not in line) <= width
    assert bool([line for line in drawn if " |" in line]) == (width > 30)
    head = next(line for line in lines if "routed" in line)
    missing = [f"k0={k0}" for k0 in range(1, 9) if f"k0={k0}" not in head]
    assert missing == [f"k0={k0}" for k0 in range(9 - len(missing), 9)]
    assert not missing or f"no room for {', '.join(missing)}" in " ".join(lines)


def test_the_hardware_that_comes_along_shows_its_arithmetic() -> None:
    """28 ms to read every expert once: the figure that the routing's own specification states."""
    (name,) = hardware_names()
    entry = read_hardware(name)
    made = predict(experts=256, top_k=8, k0=(4,), batches=(64,), hardware=entry, baseline_tokens_per_s=1200)
    text = shown(prediction_view(made, width=120))
    for figure in ("21.2 MB", "5.44 GB", "28.4 ms", "24.7", "18.1", "k0=4: 1,371"):
        assert figure in text


def test_unknown_hardware_is_named_with_what_was_probably_meant() -> None:
    with pytest.raises(UsageError) as caught:
        read_hardware("glm-5-nvfp4-8x-rtx-pro-600")
    assert caught.value.hint == "did you mean 'glm-5-nvfp4-8x-rtx-pro-6000'?"
