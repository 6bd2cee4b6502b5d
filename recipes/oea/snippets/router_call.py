"""SGLang 0.5.22 on. Needs: router_logits, correction_bias, topk_config, layer_id, num_token_non_padded,
dynamic_expert_bias, router_logits_partials."""

router_logits, correction_bias, _oea_share = _oea.route(
    router_logits,
    correction_bias,
    topk_config,
    layer=layer_id,
    non_padded=num_token_non_padded,
    per_token=dynamic_expert_bias if router_logits_partials is None else router_logits_partials,
)
