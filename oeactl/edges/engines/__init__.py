"""What an engine answers, and where."""
