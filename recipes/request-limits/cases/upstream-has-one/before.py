"""The engine has a limit on stop strings: only the other edit is made."""

MAX_STOP_COUNT = 32


class SamplingParams:
    def normalize(self, tokenizer):
        """Normalize."""
        check(self.stop_strs, MAX_STOP_COUNT)
