"""What an engine's /metrics come to: ranks that say the same count once, what is not there is None."""

from __future__ import annotations

from typing import Any

from oeactl.core.metrics import Metric, engine_load


def one(name: str, value: float, **labels: str) -> Metric:
    return Metric(name=name, labels=labels, value=value)


def test_ranks_of_one_model_say_the_same_and_data_parallel_ones_add_up() -> None:
    sample = [
        one("sglang:num_running_reqs", 4 + int(dp), tp_rank=tp, dp_rank=dp) for dp in "01" for tp in "0123"
    ]
    load = engine_load([sample], {})
    assert load is not None and load.running is not None
    assert (load.running.mean, load.samples) == (9.0, 1)
    assert (load.waiting, load.kv_used_tokens, load.kv_total_tokens, load.queue_s) == (None,) * 4


def test_the_queue_s_time_is_that_of_the_requests_which_left_it_meanwhile() -> None:
    samples = [
        [one("sglang:queue_time_seconds_sum", total), one("sglang:queue_time_seconds_count", count)]
        for total, count in ((100.0, 50.0), (103.0, 56.0), (112.0, 60.0))
    ]
    load = engine_load(samples, {})
    assert load is not None and load.queue_s == 1.2


def test_nobody_left_the_queue_or_the_server_began_anew_is_no_waiting_time() -> None:
    def queue(total: float, count: float) -> list[Metric]:
        return [one("sglang:queue_time_seconds_sum", total), one("sglang:queue_time_seconds_count", count)]

    assert engine_load([queue(5.0, 2.0), queue(5.0, 2.0)], {}) is None
    assert engine_load([queue(5.0, 2.0), queue(1.0, 1.0)], {}) is None
    assert engine_load([queue(5.0, 2.0)], {}) is None


def test_the_room_for_tokens_is_what_the_server_says_of_itself_where_its_metrics_do_not() -> None:
    info: dict[str, Any] = {"internal_states": [{"memory_usage": {"token_capacity": 1000}}] * 2}
    load = engine_load([[one("sglang:num_used_tokens", 500.0)]], info)
    assert load is not None and load.kv_total_tokens == 2000
    assert load.kv_available_tokens is not None and load.kv_available_tokens.min == 1500
    assert load.kv_share is not None and load.kv_share.max == 0.25
    older = engine_load([], {"max_total_num_tokens": 4096, "internal_states": [{}]})
    assert older is not None and (older.kv_total_tokens, older.kv_used_tokens) == (4096, None)
    assert engine_load([], {"models": []}) is None


def test_newer_servers_tell_what_is_used_free_and_could_be_freed() -> None:
    sample = [
        one("sglang:kv_used_tokens", 300.0),
        one("sglang:num_used_tokens", 310.0),
        one("sglang:kv_available_tokens", 500.0),
        one("sglang:kv_evictable_tokens", 200.0),
        one("sglang:max_total_num_tokens", 1000.0),
    ]
    load = engine_load([sample], {})
    assert load is not None and load.kv_used_tokens is not None and load.kv_available_tokens is not None
    assert (load.kv_used_tokens.mean, load.kv_available_tokens.mean) == (300.0, 700.0)


def test_vllm_tells_a_share_of_blocks_and_counts_of_drafts() -> None:
    blocks = one("vllm:cache_config_info", 1.0, block_size="16", num_gpu_blocks="100", engine="0")
    samples = [
        [
            blocks,
            one("vllm:num_requests_running", 8.0, engine="0"),
            one("vllm:num_requests_waiting", 1.0, engine="0"),
            one("vllm:kv_cache_usage_perc", 0.5, engine="0"),
            one("vllm:spec_decode_num_drafts_total", drafts),
            one("vllm:spec_decode_num_accepted_tokens_total", accepted),
        ]
        for drafts, accepted in ((10.0, 20.0), (20.0, 35.0))
    ]
    load = engine_load(samples, {})
    assert load is not None and load.kv_used_tokens is not None and load.kv_share is not None
    assert (load.kv_total_tokens, load.kv_used_tokens.mean, load.kv_share.mean) == (1600, 800.0, 0.5)
    assert load.accept_length == 2.5


def test_vllm_s_newer_count_of_tokens_comes_before_blocks() -> None:
    room = one(
        "vllm:cache_config_info", 1.0, block_size="16", num_gpu_blocks="100", kv_cache_size_tokens="900"
    )
    load = engine_load([[room, one("vllm:num_requests_running", 1.0)]], {})
    assert load is not None and load.kv_total_tokens == 900
    unknown = one("vllm:cache_config_info", 1.0, block_size="16", num_gpu_blocks="None")
    load = engine_load([[unknown, one("vllm:num_requests_running", 1.0)]], {})
    assert load is not None and load.kv_total_tokens is None


def test_cached_prompt_tokens_are_those_that_came_meanwhile() -> None:
    prompts = [[one("sglang:prompt_tokens_total", total)] for total in (1000.0, 1500.0, 2000.0)]
    load = engine_load(prompts, {})
    assert load is None  # SGLang counts them from the first one on: none there is not 0
    prompts[1].append(one("sglang:cached_tokens_total", 40.0, cache_source="device"))
    prompts[2].append(one("sglang:cached_tokens_total", 60.0, cache_source="device"))
    prompts[2].append(one("sglang:cached_tokens_total", 40.0, cache_source="host"))
    load = engine_load(prompts, {})
    assert load is not None and load.cached_share == 0.1
    vllm = [
        [one("vllm:prefix_cache_queries_total", queries), one("vllm:prefix_cache_hits_total", 7.0)]
        for queries in (10.0, 20.0)
    ]
    load = engine_load(vllm, {})
    assert load is not None and load.cached_share == 0.0


def test_without_metrics_a_drafting_server_tells_its_accept_length_since_its_start() -> None:
    info = {"internal_states": [{"avg_spec_accept_length": 2.5}, {"avg_spec_accept_length": 3.5}]}
    load = engine_load([], info)
    assert load is not None and (load.accept_length, load.running) == (3.0, None)
    gauge = engine_load([[one("sglang:spec_accept_length", 2.0)]], info)
    assert gauge is not None and gauge.accept_length == 2.0
