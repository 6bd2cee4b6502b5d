"""A router."""

from __future__ import annotations

import torch

from engine import expert_location_dispatch, gate


def select_experts(
    hidden_states, router_logits, topk_config, *, layer_id=None, num_token_non_padded=None, info=None,
    dynamic_expert_bias=None, router_logits_partials=None,
):
    correction_bias = topk_config.correction_bias if dynamic_expert_bias is None else dynamic_expert_bias
    packed_topk = None

    (
        router_logits,
        correction_bias,
    ) = expert_location_dispatch.transform_select_experts_inputs(
        router_logits=router_logits, correction_bias=correction_bias, info=info
    )

    # The gate itself.
    if dynamic_expert_bias is not None:
        topk_weights, topk_ids = gate(router_logits, correction_bias)
    else:
        topk_weights, topk_ids, packed_topk = gate(router_logits, None)

    topk_ids, topk_weights = expert_location_dispatch.post(topk_ids, topk_weights)
    return topk_weights, topk_ids, packed_topk
