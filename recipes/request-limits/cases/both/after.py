"""Neither limit is there."""


class SamplingParams:
    def normalize(self, tokenizer):
        # Process stop strings
        # >>> oeactl request-limits r1 output sha256:0000000000000000000000000000000000000000000000000000000000000000
        if self.max_new_tokens is None or self.max_new_tokens > 256:
            self.max_new_tokens = 256
        # <<< oeactl request-limits output
        # >>> oeactl request-limits r1 stops sha256:0000000000000000000000000000000000000000000000000000000000000000
        if isinstance(self.stop_strs, (list, tuple)) and len(self.stop_strs) > 4:
            raise ValueError("%d stop strings, and at most %d are allowed" % (len(self.stop_strs), 4))
        # <<< oeactl request-limits stops
        if self.stop_strs is None:
            self.stop_strs = []
