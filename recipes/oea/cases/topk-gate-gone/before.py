"""The gate is no chain any more: what binds the weights next is not it, and a guess would weigh too late."""

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
    topk_weights, topk_ids = gate(router_logits, correction_bias)
    topk_ids, topk_weights = expert_location_dispatch.post(topk_ids, topk_weights)
    return topk_weights, topk_ids
