"""How a server is started, watched and stopped."""
