"""Kill the pytest process that started this program, and its descendants, when its time is over.

Each line of standard input, `SECONDS REASON`, sets the time that is left; 0 is without a limit. A
process of its own sees it pass also where pytest's main thread is blocked in C with the
interpreter's lock: no signal handler and no other thread of Python can run there.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

# For pytest to print the stacks of its threads.
_STACKS_SECONDS = 10


def main() -> None:
    """Read limits until standard input ends with the pytest process."""
    pytest, reason = os.getppid(), ""

    def expire(*_: object) -> None:
        print(f"\nwatchdog: {reason}: killing process {pytest}", file=sys.stderr)
        _kill(pytest)

    signal.signal(signal.SIGALRM, expire)
    for line in sys.stdin:
        seconds, _, reason = line.strip().partition(" ")
        signal.setitimer(signal.ITIMER_REAL, float(seconds))


def _kill(pytest: int) -> None:
    # A stopped process starts no other one, so that none is missed.
    stopped = {pytest}
    _send(signal.SIGSTOP, stopped)
    while found := _descendants(pytest) - stopped:
        _send(signal.SIGSTOP, found)
        stopped |= found
    _send(signal.SIGKILL, stopped - {pytest})
    # pytest's own handler of this signal prints the stacks.
    _send(signal.SIGABRT, {pytest})
    _send(signal.SIGCONT, {pytest})
    deadline = time.monotonic() + _STACKS_SECONDS
    while os.getppid() == pytest:
        if time.monotonic() > deadline:
            _send(signal.SIGKILL, {pytest})
        time.sleep(0.01)


def _send(number: signal.Signals, processes: set[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def _descendants(root: int) -> set[int]:
    """Return the living descendants of a process but this one; none on a system without `/proc`."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name of the program, in brackets, may have any bytes.
            state, parent = stat.read_bytes().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                parents[int(stat.parent.name)] = int(parent)
    found = {root}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root, os.getpid()}


if __name__ == "__main__":
    main()
