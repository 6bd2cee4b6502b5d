"""SGLang 0.4.6 to 0.4.10. Needs: router_logits, correction_bias, top_k, use_grouped_topk, topk_group,
num_expert_group, renormalize, num_fused_shared_experts, custom_routing_function, torch_native,
num_token_non_padded."""

_oea_logits = router_logits
router_logits, correction_bias, _oea_share = _oea.route(
    router_logits,
    correction_bias,
    _OeaConfig(
        top_k=top_k,
        use_grouped_topk=use_grouped_topk,
        topk_group=topk_group,
        num_expert_group=num_expert_group,
        renormalize=renormalize,
        num_fused_shared_experts=num_fused_shared_experts,
        custom_routing_function=custom_routing_function,
        torch_native=torch_native,
    ),
    non_padded=num_token_non_padded,
)
