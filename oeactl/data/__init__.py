"""Data that comes with oeactl, read by edges."""
