class _OeaConfig:
    """What later releases keep in a TopKConfig."""

    def __init__(self, **fields):
        for name, value in fields.items():
            setattr(self, name, value)
