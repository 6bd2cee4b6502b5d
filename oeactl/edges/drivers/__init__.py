"""Who drives the load."""
