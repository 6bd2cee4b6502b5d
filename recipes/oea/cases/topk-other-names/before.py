"""A router."""

from __future__ import annotations

import torch

from engine import expert_location_dispatch, gate


class TopKConfig:
    top_k: int


def select_experts(router_logits, topk_config, *, layer_id=None, num_token_non_padded=None):
    shifted, correction_bias = expert_location_dispatch.transform_select_experts_inputs(
        router_logits, topk_config.correction_bias
    )
    topk_weights, topk_ids = gate(shifted, correction_bias)
    return topk_weights, topk_ids
