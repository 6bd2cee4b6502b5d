class _OeaNote:
    """What a layer's attention last ran for, left for the router of the same layer.

    mode: "DECODE" or "TARGET_VERIFY" when every row is a token being generated, else None.
    why: what keeps such a batch out all the same.
    """

    layer = mode = why = None

    def leave(self, layer, batch):
        mode, ranks = batch.forward_mode, batch.global_num_tokens_gpu
        self.layer, self.mode, self.why = layer, None, None
        if mode.is_decode() or mode.is_target_verify():
            self.mode = mode.name
            if mode.is_decode() and batch.spec_info is not None:
                self.why = "a draft model decodes"
            elif ranks is not None and ranks.numel() > 1:
                self.why = "ranks of data-parallel attention may differ in mode"

    def take(self, layer):
        """(mode, why) of this layer, once: a second router, or a layer without attention, finds nothing."""
        left, mode, why = self.layer, self.mode, self.why
        self.layer = self.mode = self.why = None
        if left is None or layer not in (None, left):
            return None, "the layer's attention left no note of its mode"
        return mode, why


_oea_note = _OeaNote()
