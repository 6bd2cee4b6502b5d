"""Attention."""

from __future__ import annotations

from engine import backend


class RadixAttention:
    def __init__(self, layer_id):
        self.layer_id = layer_id

    def forward(self, q, k, v, forward_batch, save_kv_cache=True, **kwargs):
        if k is not None:
            assert v is not None
        return backend(forward_batch).forward(q, k, v, self, forward_batch, save_kv_cache, **kwargs)
