"""What SGLang returns for return_routed_experts, and the figures made of it."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence

import pytest

from oeactl.core.host import ExpertCount, ProofFile
from oeactl.core.routing import (
    RoutedRequest,
    batch_prompts,
    counted,
    pooled,
    size_of,
    summarise,
    why_unseen,
)

PROMPT = 2


def request(steps: Sequence[Sequence[Sequence[int]]]) -> RoutedRequest:
    """One request with these experts in its decode steps, [step][layer][slot], after two of prompt."""
    layers, slots = len(steps[0]), len(steps[0][0])
    prompt = [[[7] * slots] * layers] * PROMPT
    flat = [expert for token in [*prompt, *steps] for layer in token for expert in layer]
    data = struct.pack(f"<{len(flat)}i", *flat)
    return RoutedRequest(
        prompt_tokens=PROMPT, output_tokens=len(steps) + 1, experts=base64.b64encode(data).decode()
    )


DENSE = (0, 0)
ONE = request([(DENSE, (1, 2)), (DENSE, (1, 3))])
TWO = request([(DENSE, (2, 4)), (DENSE, (3, 1))])


def test_distinct_experts_are_counted_a_step_and_layer_without_prompt_and_dense_layers() -> None:
    seen, usage = summarise([ONE, TWO], layers=2, experts=8)
    assert seen.outcome == "measured" and seen.top_k == 2 and seen.decode_steps == 2
    (layer,) = seen.layers
    assert (layer.layer, layer.distinct_min, layer.distinct_max) == (1, 2, 3)
    assert seen.distinct_mean == layer.distinct_mean == 2.5
    assert usage is not None and usage.layers == (1,)
    assert usage.counts == ((0, 3, 2, 2, 1, 0, 0, 0),)
    assert sum(usage.shares()[0]) == pytest.approx(usage.top_k)


def test_padded_slots_are_no_experts() -> None:
    seen, usage = summarise([request([((5, -1),)])], layers=1, experts=8)
    assert seen.distinct_mean == 1.0
    assert usage is not None and sum(usage.counts[0]) == 1


def test_an_answer_that_does_not_fit_is_not_measured_with_the_reason() -> None:
    for bad, says in (
        (RoutedRequest(prompt_tokens=2, output_tokens=3, experts="!!"), "base64"),
        (RoutedRequest(prompt_tokens=2, output_tokens=9, experts=ONE.experts), "do not fit"),
        (RoutedRequest(prompt_tokens=2, output_tokens=3, experts=""), "do not fit"),
    ):
        seen, usage = summarise([ONE, bad], layers=2, experts=8)
        assert seen.outcome == "not_measured" and says in seen.reason and usage is None


def test_a_capture_of_nothing_but_zeros_is_not_measured() -> None:
    seen, _ = summarise([request([(DENSE, DENSE)])], layers=2, experts=8)
    assert seen.outcome == "not_measured" and "nothing was captured" in seen.reason


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ({"version": "0.5.6"}, "release 0.5.6"),
        ({"enable_return_routed_experts": False}, "--enable-return-routed-experts"),
        ({"enable_return_routed_experts": True, "max_running_requests": 8}, "at most 8"),
    ],
)
def test_a_server_that_cannot_tell_says_why(info: dict[str, object], says: str) -> None:
    assert says in (why_unseen(info, 16) or "")


def test_a_server_that_can_tell_has_no_excuse() -> None:
    assert why_unseen({"enable_return_routed_experts": True, "max_running_requests": 64}, 16) is None


def test_prompts_are_the_same_ones_each_time_and_within_the_vocabulary() -> None:
    prompts = batch_prompts(32, 16, 512, seed=5)
    assert prompts == batch_prompts(32, 16, 512, seed=5) != batch_prompts(32, 16, 512, seed=6)
    assert len(set(prompts)) == 32
    assert {10 <= token < 512 for prompt in prompts for token in prompt} == {True}


def test_the_size_of_a_model_is_in_its_configuration_under_any_of_the_names() -> None:
    assert size_of({"num_hidden_layers": 3, "n_routed_experts": 128}) == (3, 128)
    assert size_of({"num_experts": 64}) == (None, 64)
    assert size_of({}) == (None, None)


def test_recordings_of_one_model_add_up_and_of_two_do_not() -> None:
    _, one = summarise([ONE], layers=2, experts=8)
    _, two = summarise([TWO], layers=2, experts=8)
    _, both = summarise([ONE, TWO], layers=2, experts=8)
    _, other = summarise([ONE], layers=2, experts=9)
    assert one and two and other
    assert pooled([one, two]) == both
    for wrong in ([one, other], []):
        with pytest.raises(ValueError, match=r"recorded|different"):
            pooled(wrong)


CONFIG = {"num_hidden_layers": 3, "n_routed_experts": 64, "num_experts_per_tok": 8}


def count(steps: int, *after: int) -> ExpertCount:
    """What OEA left of twice as many."""
    return ExpertCount(steps=steps, before=tuple(2 * one for one in after), after=after)


def counter(pid: int, counts: dict[str, dict[str, ExpertCount]], kind: str = "experts") -> ProofFile:
    return ProofFile(
        kind=kind,  # type: ignore[arg-type]
        recipe="oea",
        digest="d" * 64,
        parameters={},
        file="/x/topk.py",
        pid=pid,
        start_ticks=1,
        counts=counts,
    )


def test_a_worker_s_counter_tells_of_the_steps_counted_meanwhile_alone() -> None:
    before = [counter(1, {"4": {"1": count(2, 60, 60), "2": count(2, 60, 60)}})]
    after = [
        counter(1, {"4": {"1": count(5, 60, 60, 10, 12, 14), "2": count(4, 60, 60, 20, 20)}}),
        counter(2, {"4": {"1": count(1, 16)}, "3": {"1": count(9, 50)}}),
        counter(1, {"4": {"1": count(1, 1)}}, kind="eager"),
    ]
    seen = counted(before, after, requests=4, config=CONFIG)
    assert seen is not None and seen.outcome == "measured" and seen.seen_by == "counter"
    assert [(one.layer, one.distinct_min, one.distinct_max) for one in seen.layers] == [
        (1, 10, 16),
        (2, 20, 20),
    ]
    assert [one.distinct_mean for one in seen.layers] == [13.0, 20.0] and seen.distinct_mean == 16.5
    assert seen.routed_mean == pytest.approx(2 * (10 + 12 + 14 + 16 + 20 + 20) / 6)
    assert (seen.decode_steps, seen.experts, seen.top_k) == (2, 64, 8)


def test_a_counter_that_saw_no_such_batch_tells_nothing() -> None:
    same = [counter(1, {"4": {"1": count(2, 60, 60)}})]
    assert counted(same, same, requests=4, config=CONFIG) is None
    assert counted([], same, requests=5, config=CONFIG) is None
    assert counted([], [], requests=4, config=CONFIG) is None


def test_a_counter_begun_anew_is_believed_whole() -> None:
    then, now = (counter(1, {"4": {"1": one}}) for one in (count(9, 60), count(1, 30)))
    seen = counted([then], [now], requests=4, config=CONFIG)
    assert seen is not None and seen.distinct_mean == 30
