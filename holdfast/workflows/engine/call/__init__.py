"""One tool call: its stages, its outcome, its hooks."""
