"""Decide the next step of a run or a single call, without any effect outside the workflow."""
