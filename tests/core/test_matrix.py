"""Contexts by concurrencies: which cells there are, and which have no room."""

from __future__ import annotations

import pytest

from oeactl.core.load import Sweep, make_sweep
from oeactl.core.matrix import by_context, capacity, parse_contexts, with_room
from oeactl.errors import UsageError


def a_matrix(contexts: str = "512,8k", *concurrencies: int) -> Sweep:
    sweep = make_sweep(concurrencies or (1, 64), output_len=256, seed=42)
    return by_context(sweep, parse_contexts(contexts))


def cells(sweep: Sweep) -> list[tuple[int, int]]:
    return [(point.input_len, point.concurrency) for point in sweep.points]


def test_contexts_are_lengths_in_tokens() -> None:
    assert parse_contexts("512, 8k,32K") == (512, 8192, 32768)


@pytest.mark.parametrize("text", ["", "8q", "0", "1k,1024", "8k,", "-1", "k"])
def test_what_is_no_context_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_contexts(text)


def test_cells_come_context_by_context_with_prompts_of_their_own() -> None:
    sweep = a_matrix()
    assert cells(sweep) == [(512, 1), (512, 64), (8192, 1), (8192, 64)]
    assert len({point.seed for point in sweep.points} | {point.warmup_seed for point in sweep.points}) == 8


def test_a_cell_is_the_same_load_as_the_level_alone() -> None:
    (alone,) = make_sweep((64,), input_len=8192, output_len=256, seed=42).points
    assert alone in a_matrix().points


def test_cells_without_room_are_left_out_with_what_is_short() -> None:
    sweep = with_room(a_matrix(), {"max_total_num_tokens": 500_000, "dp_size": 1})
    assert cells(sweep) == [(512, 1), (512, 64), (8192, 1)]
    (cell,) = sweep.skipped
    assert cell.needed_tokens == 64 * (8192 + 256)
    assert cell.described == (
        "context 8192 at 64: needs 540,672 tokens, the KV cache has 500,000 (40,672 short)"
    )


def test_ranks_hold_their_tokens_each() -> None:
    assert capacity({"max_total_num_tokens": 500_000, "dp_size": 2}) == 1_000_000
    assert with_room(a_matrix(), {"max_total_num_tokens": 500_000, "dp_size": 2}).skipped == ()


def test_a_request_that_is_too_long_is_left_out_at_any_level() -> None:
    sweep = with_room(a_matrix(), {"context_length": 8192, "max_total_num_tokens": 1 << 30})
    assert cells(sweep) == [(512, 1), (512, 64)]
    assert [cell.limit for cell in sweep.skipped] == ["the longest request"] * 2


def test_a_server_that_does_not_say_is_taken_at_any_size() -> None:
    assert capacity({"max_total_num_tokens": None}) is None
    assert with_room(a_matrix(), {}).skipped == ()


def test_a_lone_context_of_a_plain_sweep_is_never_left_out() -> None:
    sweep = make_sweep((64,), input_len=8192)
    assert with_room(sweep, {"max_total_num_tokens": 1}) == sweep


def test_no_cell_left_is_an_error() -> None:
    with pytest.raises(UsageError, match="no cell fits: context 512 at 1: needs 768 tokens"):
        with_room(a_matrix(), {"max_total_num_tokens": 100})


def test_a_matrix_is_not_also_something_else() -> None:
    with pytest.raises(UsageError):
        by_context(make_sweep((1, 2), until_saturated=True), (512,))
    with pytest.raises(UsageError, match="more than 256"):
        by_context(make_sweep(range(1, 60)), (1, 2, 3, 4, 5))
