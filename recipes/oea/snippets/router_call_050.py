"""SGLang 0.5.0 to 0.5.7. Needs: router_logits, correction_bias, topk_config, num_token_non_padded.

The router does not know its layer: the note of the attention that ran last is taken for it."""

router_logits, correction_bias, _oea_share = _oea.route(
    router_logits, correction_bias, topk_config, non_padded=num_token_non_padded
)
