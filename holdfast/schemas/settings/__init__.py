"""Data models of a worker's settings files."""
