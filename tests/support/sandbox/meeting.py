"""Where a run, in the middle of its work, waits for what a test does meanwhile."""

import threading

# Less than the SDK takes a workflow for one that hangs.
PATIENCE_SECONDS = 1.8

here = threading.Event()
go_on = threading.Event()
go_on.set()


def meet() -> bool:
    """Report that the run is in the middle of its work, and wait; whether it may continue."""
    here.set()
    return go_on.wait(PATIENCE_SECONDS)
