"""The engine has a limit on stop strings: only the other edit is made."""

MAX_STOP_COUNT = 32


class SamplingParams:
    def normalize(self, tokenizer):
        """Normalize."""
        # >>> oeactl request-limits r1 output sha256:0000000000000000000000000000000000000000000000000000000000000000
        if self.max_new_tokens is None or self.max_new_tokens > 4096:
            self.max_new_tokens = 4096
        # <<< oeactl request-limits output
        check(self.stop_strs, MAX_STOP_COUNT)
