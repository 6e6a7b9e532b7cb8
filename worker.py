"""Start the worker from a checkout: `python worker.py` is `holdfast worker`."""

import sys
from pathlib import Path

# Python puts the folder of a script first on `sys.path`. This one holds `activities`, `workflows`
# and other names that belong to a user's project.
ROOT = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT]

from holdfast.hosting.process_exit import exit_process  # noqa: E402
from holdfast.hosting.worker import main  # noqa: E402

if __name__ == "__main__":
    exit_process(main())
