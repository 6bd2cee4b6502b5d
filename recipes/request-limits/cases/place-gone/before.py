"""The parameters are normalized elsewhere."""


class SamplingParams:
    pass
