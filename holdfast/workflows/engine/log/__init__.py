"""The append-only log of a run, its compressed pages, and its spans."""
