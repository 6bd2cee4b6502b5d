"""SGLang 0.5.8 to 0.5.20. Needs: router_logits, correction_bias, topk_config, layer_id,
num_token_non_padded."""

router_logits, correction_bias, _oea_share = _oea.route(
    router_logits, correction_bias, topk_config, layer=layer_id, non_padded=num_token_non_padded
)
