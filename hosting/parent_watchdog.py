"""Runs a program for as long as somebody holds the other end of standard input.

A worker that is killed can stop nothing any more. But its end of the pipe is closed all the same,
and then the program that it started is asked to end.
"""

import os
import signal
import subprocess
import sys
import threading
from types import FrameType


def main() -> int:
    """Run the program of the arguments and return its exit code."""
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)

    def stop(*_: int | FrameType | None) -> None:
        process.terminate()

    def until_let_go() -> None:
        while os.read(0, 1):
            pass
        stop()

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=until_let_go, daemon=True).start()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
