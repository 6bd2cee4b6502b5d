"""A router."""

import torch

from engine import expert_location_dispatch, gate


# >>> oeactl oea r1 router-support sha256:0000000000000000000000000000000000000000000000000000000000000000
# <<< oeactl oea router-support


# >>> oeactl oea r1 router-config sha256:0000000000000000000000000000000000000000000000000000000000000000
# <<< oeactl oea router-config


def select_experts(
    router_logits, top_k, use_grouped_topk, renormalize, topk_group=None, num_expert_group=None,
    num_fused_shared_experts=0, custom_routing_function=None, correction_bias=None, torch_native=False,
    num_token_non_padded=None,
):
    router_logits, correction_bias = (
        expert_location_dispatch.transform_select_experts_inputs(router_logits, correction_bias)
    )
    # >>> oeactl oea r1 router-call sha256:0000000000000000000000000000000000000000000000000000000000000000
    # <<< oeactl oea router-call
    if use_grouped_topk:
        topk_weights, topk_ids = gate(router_logits, correction_bias)
    else:
        topk_weights, topk_ids = gate(router_logits, None)
    # >>> oeactl oea r1 router-weights sha256:0000000000000000000000000000000000000000000000000000000000000000
    # <<< oeactl oea router-weights
    return topk_weights, topk_ids
