"""The only I/O."""
