"""Screens that draw a run: on a terminal, as plain lines, as JSON lines."""
