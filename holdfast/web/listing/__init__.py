"""The lists of pending approvals and of runs, and decisions on several calls."""
