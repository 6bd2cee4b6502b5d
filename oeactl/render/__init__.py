"""Values to terminal, JSON, Markdown."""
