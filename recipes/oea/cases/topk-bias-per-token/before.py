"""A router."""

from __future__ import annotations

import torch

from engine import expert_location_dispatch, gate


class TopKConfig:
    top_k: int


def select_experts(router_logits, topk_config, *, layer_id=None, num_token_non_padded=None, dynamic_expert_bias=None):
    correction_bias = dynamic_expert_bias
    router_logits, correction_bias = expert_location_dispatch.transform_select_experts_inputs(
        router_logits, correction_bias
    )
    if dynamic_expert_bias is not None:
        topk_weights, topk_ids = gate(router_logits, dynamic_expert_bias)
    else:
        topk_weights, topk_ids = gate(router_logits, correction_bias)
    return topk_weights, topk_ids
