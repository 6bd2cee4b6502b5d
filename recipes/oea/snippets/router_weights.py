"""Right after the first top-level statement that binds topk_weights: the gate has chosen.

Only a softmax without renormalization has a share: over a smaller menu its scores come out too large. Packed
ids (0.5.14 on) hold the weights as they were, and are given up then; other releases do not know the name.
Counting is for a person who asked for it (OEACTL_EXPERTS=1): it waits for the device."""

if _oea_share is not None:
    topk_weights, packed_topk = (topk_weights * _oea_share).to(topk_weights.dtype), None
if _oea.counting:
    _oea.count(topk_ids)
