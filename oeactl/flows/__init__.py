"""The story of each command, a page each; asks ports, lets the core decide."""
