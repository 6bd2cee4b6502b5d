"""A router."""

from __future__ import annotations

import torch

from engine import expert_location_dispatch, gate


class TopKConfig:
    top_k: int


# Called by every layer.
def select_experts(router_logits, topk_config, *, layer_id=None, num_token_non_padded=None):
    correction_bias = topk_config.correction_bias
    router_logits, correction_bias = (
        expert_location_dispatch.transform_select_experts_inputs(router_logits, correction_bias)
    )
    use_grouped_topk = topk_config.grouped
    if use_grouped_topk:
        topk_weights, topk_ids = gate(router_logits, correction_bias)
    else:
        topk_weights = topk_ids = None
    return topk_weights, topk_ids
