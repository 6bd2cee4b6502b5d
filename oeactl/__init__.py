"""oeactl: change a remote engine's source by recipes, prove it live, measure it, put it back."""

__version__ = "0.1.0"
