"""Run a program until the parent process closes the other end of standard input.

A killed worker cannot stop the programs that it started. But the kernel closes its end of the
pipe, and this process then terminates the program.
"""

import os
import signal
import subprocess
import sys
import threading
from types import FrameType


def main() -> int:
    """Run the program of the arguments and return its exit code."""
    process: subprocess.Popen[bytes] | None = None
    is_stopped = False

    def stop(*_: int | FrameType | None) -> None:
        nonlocal is_stopped
        is_stopped = True
        if process is not None:
            process.terminate()

    def until_let_go() -> None:
        while os.read(0, 1):
            pass
        stop()

    signal.signal(signal.SIGTERM, stop)
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    if is_stopped:  # while it was started
        process.terminate()
    threading.Thread(target=until_let_go, daemon=True).start()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
