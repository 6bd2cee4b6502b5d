"""Right after the gate of SGLang 0.4.6 to 0.4.10, whose native one takes no bias.

So ties of zero are broken row by row there: where the menu ran out, every row is given the first one's filling."""

if _oea_share is not None:
    topk_weights = (topk_weights * _oea_share).to(topk_weights.dtype)
if torch_native and router_logits is not _oea_logits:
    topk_ids = torch.where(topk_weights == 0, topk_ids[:1], topk_ids)
if _oea.counting:
    _oea.count(topk_ids)
