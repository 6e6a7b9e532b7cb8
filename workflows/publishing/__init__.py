"""Publish a workflow: search attributes, summaries, notifications, signals to the parent, spans."""
