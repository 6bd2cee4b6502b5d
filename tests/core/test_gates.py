"""Every gate: passes on a sound level, fires on its fault, and says "not measured" when it could not see."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from oeactl.core.evidence import Activation, Earlier, Gate, Target
from oeactl.core.gates import failures, judge, warnings
from oeactl.core.host import Process, ServerState
from oeactl.core.metrics import EngineLoad, Spread
from oeactl.core.telemetry import Foreign, Watched
from tests.support.answers import prose
from tests.support.levels import (
    DOWN,
    LEADER,
    UP,
    WORKER,
    a_card,
    a_client,
    a_measurement,
    a_point,
    a_watched,
    some_evidence,
    some_rows,
)

POINT = a_point(4)
COUNT = POINT.requests
TARGET = Target(
    module="sglang.srt.layers.moe.topk",
    path="/e/topk.py",
    expected_sha256="b" * 64,
    before_sha256="b" * 64,
    after_sha256="b" * 64,
)


def even(value: float) -> Spread:
    return Spread(min=value, mean=value, max=value)


def gate(name: str, **changes: Any) -> Gate:
    point = changes.pop("point", POINT)
    return next(one for one in judge(some_evidence(point, **changes)) if one.name == name)


def measured(**changes: Any) -> dict[str, Any]:
    return {"measurement": a_measurement(POINT, **changes)}


def rows(**changes: Any) -> dict[str, Any]:
    return {"requests": some_rows(POINT, **changes)}


def test_a_sound_level_is_valid_and_says_what_nobody_looked_at() -> None:
    gates = judge(some_evidence(POINT, targets=(TARGET,)))
    assert failures(gates) == ()
    assert warnings(gates) == ()
    unseen = {one.name for one in gates if one.outcome == "not_measured"}
    assert unseen == {"answers", "gpu_throttling", "gpu_foreign", "client"}
    assert all(one.reason for one in gates if one.outcome == "not_measured")


def test_the_same_gates_are_judged_whatever_happened() -> None:
    whole = judge(some_evidence(POINT))
    broken = judge(some_evidence(POINT, measurement=None, requests=None, failure="none succeeded"))
    assert [one.name for one in whole] == [one.name for one in broken]


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("completed", measured(completed=COUNT - 1, failed=1), f"{COUNT - 1} of {COUNT}"),
    ("completed", measured(requested=COUNT - 1, completed=COUNT - 1), f"{COUNT - 1} of {COUNT}"),
    ("completed", {"measurement": None, "failure": "none of 40 requests succeeded"}, "none of 40"),
    ("errors", rows(errors=("",) * (COUNT - 1) + ("Trace\nConnectionReset: gone",)), "ConnectionReset: gone"),
    ("output_lengths", rows(output_lens=(32,) * (COUNT - 1) + (31,)), f"1 of {COUNT} requests returned 31"),
    ("input_lengths", rows(input_lens=(64,) * (COUNT - 2) + (63, 63)), f"2 of {COUNT} requests were sent 63"),
    ("ttft", rows(ttfts_s=(0.0,) * 3 + (0.1,) * (COUNT - 3)), f"3 of {COUNT} requests never showed"),
    ("ttft", rows(ttfts_s=(float("nan"),) + (0.1,) * (COUNT - 1)), "1 of"),
    ("concurrency", measured(achieved_concurrency=3.5), "3.50 in flight on average, 4 asked"),
    ("cached_prompt", measured(cached_input_tokens=200), "of the prompt tokens came from the cache"),
    ("retokenized", measured(output_tokens_retokenized=0), "no text came back"),
    ("figures", measured(output_tokens_per_s=4000.0), "are not 4000.000 tok/s"),
    ("figures", measured(duration_s=0.0), "took 0.0 s"),
    ("figures", rows(output_lens=(32,) * (COUNT - 1) + (0,)), "requests add up to"),
    ("flush", {"flushed": False}, "did not confirm"),
    ("same_server", {"after": DOWN}, "pid 700 before the level and gone after"),
    ("same_server", {"before": DOWN}, "gone before the level and pid 700 after"),
    ("alive_after", {"token_after": False, "token_problem": "HTTP 503"}, "HTTP 503"),
    ("source", {"targets": (msgspec.structs.replace(TARGET, after_sha256="c" * 64),)}, "journal"),
    (
        "source",
        {"targets": (msgspec.structs.replace(TARGET, expected_sha256=None, after_sha256="c" * 64),)},
        "changed while the level ran",
    ),
    (
        "activation",
        {"activations": (Activation(recipe="oea", digest="d", outcome="fail", reason="bypassed"),)},
        "oea: bypassed",
    ),
    ("output_lengths", rows(asked_lens=(32,) * (COUNT - 1) + (16,)), f"1 of {COUNT} requests returned 32"),
    (
        "answers",
        {"dataset": "natural", **rows(generated_texts=("over and " * 40,) * COUNT)},
        f"{COUNT} of {COUNT} sampled answers repeat one block",
    ),
    (
        "answers",
        {"dataset": "natural", **rows(generated_texts=("",) * COUNT, sampled=(0, 20))},
        "none of 2 sampled answers has any text",
    ),
    (
        "gpu_throttling",
        {"watched": a_watched(a_card(0), a_card(3, throttled={"power cap": 0.31}))},
        "power cap on GPU 3 in 31% of the samples; a lower clock that holds: nvidia-smi -lgc",
    ),
    (
        "gpu_throttling",
        {"watched": a_watched(a_card(throttled={"software thermal slowdown": 0.01, "power cap": 0.01}))},
        "software thermal slowdown on GPU 0 in 1% of the samples",
    ),
    (
        "gpu_foreign",
        {"watched": a_watched(foreign=(Foreign(card=1, used=True, pid=4711, mib=23000, name="python"),))},
        "pid 4711 (python) is on GPU 1, 23,000 MiB",
    ),
    ("client", {"client": a_client(busiest_core=0.95)}, "it was the bottleneck: 95% of a core"),
    ("client", {"client": a_client(lag_mean_ms=0.9)}, "0.90 ms late on average"),
]


@pytest.mark.parametrize(("name", "fault", "says"), FAULTS)
def test_a_fault_voids_the_level_with_its_reason(name: str, fault: dict[str, Any], says: str) -> None:
    found = gate(name, **fault)
    assert found.outcome == "fail"
    assert says in found.reason
    assert f"{name}: {found.reason}" in failures(judge(some_evidence(POINT, **fault)))


def test_a_worker_that_counts_experts_is_measured_with_a_warning() -> None:
    seen = Activation(recipe="oea", digest="d", outcome="pass", reason="taken", kinds=("eager", "experts"))
    found = gate("activation", activations=(seen,))
    assert (found.outcome, found.warning) == ("pass", True)
    assert "taken; it counts experts (OEACTL_EXPERTS=1)" in found.reason
    quiet = gate("activation", activations=(msgspec.structs.replace(seen, kinds=("eager",)),))
    assert (quiet.outcome, quiet.warning) == ("pass", False)


UNSEEN: list[tuple[str, dict[str, Any]]] = [
    ("errors", {"requests": None}),
    ("output_lengths", {"requests": None}),
    ("input_lengths", {"requests": None}),
    ("ttft", {"requests": None}),
    ("concurrency", measured(achieved_concurrency=None)),
    ("cached_prompt", measured(cached_input_tokens=None)),
    ("retokenized", measured(output_tokens_retokenized=None)),
    ("flush", {"flushed": None}),
    ("warm_up", {"warm_up_rates": ()}),
    ("same_server", {"before": ServerState(recorded=None, listener=None), "after": DOWN}),
    ("alive_after", {"token_after": None}),
    ("source", {"targets": ()}),
    ("answers", {"dataset": "random-ids"}),
    ("answers", {"dataset": "natural", "requests": None}),
    ("answers", {"dataset": "natural", **rows(generated_texts=("brief",) * COUNT)}),
    ("client", {"client": None}),
    ("output_lengths", {"eos_ignored": False, **rows(output_lens=(32,) * (COUNT - 1) + (7,))}),
    ("input_lengths", {"input_exact": False, **rows(input_lens=(60,) * COUNT)}),
    (
        "activation",
        {"activations": (Activation(recipe="oea", digest="d", outcome="not_measured", reason="compiled"),)},
    ),
]


@pytest.mark.parametrize(("name", "blind"), UNSEEN)
def test_what_could_not_be_seen_is_not_measured_and_voids_nothing(name: str, blind: dict[str, Any]) -> None:
    found = gate(name, **blind)
    assert found.outcome == "not_measured"
    assert found.reason
    assert not any(line.startswith(f"{name}:") for line in failures(judge(some_evidence(POINT, **blind))))


def test_arrivals_are_judged_by_the_bound_that_held_them_back() -> None:
    point = msgspec.structs.replace(POINT, rate=8.0)
    assert gate("concurrency", point=point, **measured(achieved_concurrency=1.5)).outcome == "pass"
    held = gate("concurrency", point=point, **measured(achieved_concurrency=3.9))
    assert (held.outcome, "held back by the bound of 4" in held.reason) == ("fail", True)


def test_a_level_of_a_duration_has_as_many_requests_as_were_sent() -> None:
    point = msgspec.structs.replace(POINT, duration_s=10.0)
    assert gate("completed", point=point, **measured(requested=7, completed=7)).outcome == "pass"
    assert gate("completed", point=point, **measured(requested=7, completed=6, failed=1)).outcome == "fail"


def test_a_server_that_was_still_getting_faster_warns() -> None:
    found = gate("warm_up", warm_up_rates=(1187.0, 5000.0, 11174.0), warmed_up=False)
    assert (found.outcome, found.warning) == ("pass", True)
    assert "still getting faster after 3 bursts: 1,187 -> 5,000 -> 11,174 tok/s" in found.reason


def test_where_the_client_does_not_tell_the_server_s_counters_do() -> None:
    def told(share: float) -> Watched:
        return a_watched(engine=EngineLoad(samples=9, cached_share=share))

    hit = gate("cached_prompt", watched=told(0.3), **measured(cached_input_tokens=None))
    assert (hit.outcome, "30.0% of the prompt tokens came from the cache, by the" in hit.reason) == (
        "fail",
        True,
    )
    assert gate("cached_prompt", watched=told(0.0), **measured(cached_input_tokens=None)).outcome == "pass"
    assert gate("cached_prompt", watched=told(0.3)).outcome == "pass"  # the answers themselves come first


@pytest.mark.parametrize(("factor", "says"), [(0.7, "30% less time"), (1.5, "50% more time")])
def test_a_level_that_was_not_steady_itself_warns(factor: float, says: str) -> None:
    """The first wave does not count: it waits for all prefills at once."""
    ttfts = (9.0,) * 4 + (0.06,) * (COUNT - 4)
    gaps = tuple((0.01 * (factor if index >= 22 else 1.0),) * 30 for index in range(COUNT))
    evened = tuple(gap[0] * 6 for gap in gaps)  # as much a request, in proportion
    uneven = rows(ttfts_s=(9.0,) * 4 + evened[4:], itls_s=gaps)
    found = gate("warm_up", **uneven)
    assert (found.outcome, found.warning, says in found.reason) == ("pass", True, True), found.reason
    even_gaps = ((0.01,) * 30,) * COUNT
    assert not gate("warm_up", **rows(ttfts_s=ttfts, itls_s=even_gaps)).warning
    several = rows(asked_lens=tuple(32 + index % 2 for index in range(COUNT)), itls_s=gaps)
    assert not gate("warm_up", **several).warning


def test_a_shared_prefix_is_meant_to_come_from_the_cache() -> None:
    found = gate("cached_prompt", dataset="shared-prefix", **measured(cached_input_tokens=1200))
    assert (found.outcome, "which this workload is about" in found.reason) == ("pass", True)


def test_a_client_that_kept_up_passes_also_where_there_are_no_gaps_to_compare_with() -> None:
    assert gate("client", client=a_client()).outcome == "pass"
    assert gate("client", client=a_client(), **measured(itl_ms=None)).outcome == "pass"
    blurred = gate("client", client=a_client(lag_p99_ms=9.0))
    assert (blurred.outcome, blurred.warning) == ("pass", True)


def test_a_client_that_tells_its_cpu_alone_is_judged_by_that_alone() -> None:
    mute = a_client(lag_mean_ms=None, lag_p99_ms=None, lag_max_ms=None)
    found = gate("client", client=mute)
    assert (found.outcome, "does not tell" in found.reason) == ("pass", True)


def test_too_few_requests_a_stream_leave_the_concurrency_unjudged_but_say_so() -> None:
    point = a_point(16, requests=64)
    found = gate(
        "concurrency",
        point=point,
        measurement=a_measurement(point, achieved_concurrency=13.0),
        requests=some_rows(point),
    )
    assert (found.outcome, found.warning) == ("not_measured", True)


def test_the_ramp_down_of_ten_requests_a_stream_does_not_void_a_perfect_client() -> None:
    """Streams out of step: the last latency has half of them in flight on average, 10 / 10.5."""
    point = a_point(64)
    ideal = 64 * 10 / 10.5
    found = gate(
        "concurrency",
        point=point,
        measurement=a_measurement(point, achieved_concurrency=ideal),
        requests=some_rows(point),
    )
    assert found.outcome == "pass"


def test_the_few_equal_prompts_of_a_real_vocabulary_do_not_void() -> None:
    tokens = POINT.requests * POINT.input_len
    assert gate("cached_prompt", **measured(cached_input_tokens=int(tokens * 0.017))).outcome == "pass"
    assert gate("cached_prompt", **measured(cached_input_tokens=int(tokens * 0.03))).outcome == "fail"


def test_a_retokenized_count_that_is_off_warns_and_does_not_void() -> None:
    tokens = POINT.requests * POINT.output_len
    found = gate("retokenized", **measured(output_tokens_retokenized=int(tokens * 1.2)))
    assert (found.outcome, found.warning) == ("pass", True)
    assert "+20%" in found.reason


@pytest.mark.parametrize(
    "after",
    [
        ServerState(recorded=Process(pid=700, start_ticks=9999, boot_id="boot"), listener=None),
        ServerState(recorded=Process(pid=700, start_ticks=9000, boot_id="next boot"), listener=None),
        ServerState(recorded=Process(pid=701, start_ticks=9000, boot_id="boot"), listener=None),
    ],
)
def test_a_server_of_the_same_pid_but_another_start_is_another_server(after: ServerState) -> None:
    assert gate("same_server", after=after).outcome == "fail"


def test_a_worker_that_was_replaced_voids_though_the_leader_stayed() -> None:
    other = msgspec.structs.replace(WORKER, start_ticks=12000)
    assert gate("same_server", after=msgspec.structs.replace(UP, workers=(other,))).outcome == "fail"


def test_a_server_that_we_did_not_start_is_known_by_who_listens() -> None:
    foreign = ServerState(recorded=None, listener=LEADER, healthy=True)
    assert gate("same_server", before=foreign, after=foreign).outcome == "pass"


def looking_back(*before: Earlier, **changes: Any) -> dict[str, Any]:
    return {"earlier": before, "watched": a_watched(a_card(0)), **changes}


def like_before(*, same_arm: bool = True, **changes: Any) -> Earlier:
    return Earlier(same_arm=same_arm, watched=a_watched(a_card(0, **changes)))


def test_a_lone_trial_is_compared_with_none() -> None:
    names = {one.name for one in judge(some_evidence(POINT))}
    assert names.isdisjoint({"gpu_band", "answers_shift"})


BAND: list[tuple[Earlier, str]] = [
    (like_before(sm_mhz=even(2100)), "SM clock of GPU 0 was 1,980 MHz, and 2,100 in the trials before"),
    (like_before(memory_mhz=even(2619)), "memory clock of GPU 0 was 3,201 MHz"),
    (like_before(temperature_c=even(57)), "temperature of GPU 0 was 46 C, and 57 in the trials before"),
    (like_before(power_w=even(520)), "power of GPU 0 was 402 W, and 520 in the trials before"),
]


@pytest.mark.parametrize(("before", "says"), BAND)
def test_a_card_out_of_the_run_s_own_band_voids_the_level(before: Earlier, says: str) -> None:
    found = gate("gpu_band", **looking_back(before))
    assert (found.outcome, says in found.reason) == ("fail", True), found.reason


def test_a_card_within_the_band_passes_and_another_arm_may_draw_other_power() -> None:
    near = like_before(sm_mhz=even(1985), temperature_c=even(50), power_w=even(410))
    assert gate("gpu_band", **looking_back(near)).outcome == "pass"
    other_arm = like_before(same_arm=False, power_w=even(520))
    assert gate("gpu_band", **looking_back(other_arm)).outcome == "pass"
    odd = like_before(sm_mhz=even(1200))
    assert gate("gpu_band", **looking_back(near, odd, near)).outcome == "pass"  # the median counts


def test_a_card_seen_a_few_times_is_not_held_to_the_band() -> None:
    few = a_watched(a_card(0, samples=4, sm_mhz=even(1000)))
    assert gate("gpu_band", **looking_back(like_before(), watched=few)).outcome == "not_measured"
    assert (
        gate("gpu_band", **looking_back(like_before(samples=4, sm_mhz=even(2100)))).outcome == "not_measured"
    )


def test_the_power_cap_in_a_single_sample_of_a_short_level_warns() -> None:
    once = a_watched(a_card(0, samples=5, throttled={"power cap": 0.2}))
    found = gate("gpu_throttling", watched=once)
    assert (found.outcome, found.warning) == ("pass", True)
    twice = a_watched(a_card(0, samples=5, throttled={"power cap": 0.4}))
    assert gate("gpu_throttling", watched=twice).outcome == "fail"


def test_the_first_trial_and_cards_that_tell_nothing_have_no_band() -> None:
    assert gate("gpu_band", **looking_back()).outcome == "not_measured"
    assert gate("gpu_band", **looking_back(like_before(), watched=None)).outcome == "not_measured"
    mute = a_card(0, sm_mhz=None, memory_mhz=None, temperature_c=None, power_w=None)
    assert gate("gpu_band", **looking_back(like_before(), watched=a_watched(mute))).outcome == "pass"


def shifted(*, texts: tuple[str, ...], before: tuple[str, ...], **changes: Any) -> Gate:
    fields: dict[str, Any] = {"dataset": "natural", **rows(generated_texts=texts)}
    return gate(
        "answers_shift", **{**fields, **looking_back(Earlier(same_arm=False, texts=before)), **changes}
    )


def test_an_arm_whose_answers_are_of_another_kind_is_void() -> None:
    found = shifted(texts=prose(COUNT, seed=1, mixed=True), before=prose(32, seed=2))
    assert found.outcome == "fail"
    assert "of the pairs have the answer of this arm newer than one of the first arm" in found.reason


def test_an_arm_that_answers_otherwise_but_alike_passes() -> None:
    assert shifted(texts=prose(COUNT, seed=1), before=prose(32, seed=2)).outcome == "pass"


def test_where_there_is_nothing_to_compare_with_a_shift_is_not_measured() -> None:
    texts, before = prose(COUNT, seed=1), prose(32, seed=2)
    assert shifted(texts=texts, before=()).outcome == "not_measured"
    assert shifted(texts=texts, before=before[:4]).outcome == "not_measured"
    assert shifted(texts=texts, before=before, is_first_arm=True).outcome == "not_measured"
    assert shifted(texts=texts, before=before, dataset="random-ids").outcome == "not_measured"
    assert shifted(texts=texts, before=before, requests=None).outcome == "not_measured"


BLIND: list[tuple[Watched | None, int, str]] = [
    (None, 8, "the cards were not watched"),
    (None, 0, "no GPU on this host"),
    (a_watched(cards=(), unseen={"cards": "no nvidia-smi here"}), 8, "no nvidia-smi here"),
    (a_watched(cards=(), unseen={"host": "the connection broke"}), 8, "the connection broke"),
    (a_watched(cards=()), 8, "the cards were not seen"),
]


@pytest.mark.parametrize("name", ["gpu_throttling", "gpu_foreign"])
@pytest.mark.parametrize(("seen", "gpus", "says"), BLIND)
def test_cards_that_were_not_seen_are_not_called_unthrottled_or_free(
    name: str, seen: Watched | None, gpus: int, says: str
) -> None:
    found = gate(name, watched=seen, gpus=gpus)
    assert (found.outcome, found.reason) == ("not_measured", says)


@pytest.mark.parametrize("name", ["gpu_throttling", "gpu_foreign"])
def test_cards_on_which_nothing_was_amiss_pass(name: str) -> None:
    found = gate(name, watched=a_watched())
    assert (found.outcome, found.warning) == ("pass", False)


def test_cards_that_do_not_say_why_their_clocks_are_low_are_not_measured() -> None:
    found = gate("gpu_throttling", watched=a_watched(a_card(throttled=None)))
    assert (found.outcome, "do not say" in found.reason) == ("not_measured", True)


def test_a_short_power_cap_warns_and_one_on_a_card_of_no_server_does_not_matter() -> None:
    found = gate("gpu_throttling", watched=a_watched(a_card(throttled={"power cap": 0.04})))
    assert (found.outcome, found.warning) == ("pass", True)
    idle = a_card(1, used=False, throttled={"software thermal slowdown": 1.0})
    assert gate("gpu_throttling", watched=a_watched(a_card(0), idle)).outcome == "pass"


def test_a_server_whose_processes_no_driver_shows_leaves_strangers_untold() -> None:
    cards = (a_card(0, used=None), a_card(1, used=None))
    assert gate("gpu_foreign", watched=a_watched(*cards, foreign=None)).outcome == "not_measured"


def test_a_stranger_on_a_card_of_no_server_only_warns() -> None:
    other = Foreign(card=3, used=False, pid=4711, mib=None, name="train.py")
    found = gate("gpu_foreign", watched=a_watched(foreign=(other,)))
    assert (found.outcome, found.warning) == ("pass", True)
    assert found.reason.endswith("pid 4711 (train.py) is on GPU 3")
