"""Neither limit is there."""


class SamplingParams:
    def normalize(self, tokenizer):
        # Process stop strings
        if self.stop_strs is None:
            self.stop_strs = []
