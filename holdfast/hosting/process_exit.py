"""Stop a worker: gracefully at the first signal, at once at the second one."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, NoReturn

from holdfast.runtime.connection_errors import TemporalConnectionError
from holdfast.validation.problems import FixableError

STOPPED: Final = 0
WRONG_SETUP: Final = 2
UNREACHABLE: Final = 3

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# In addition to the time that activities have to finish, and to react to their cancellation.
PATIENCE = timedelta(seconds=10)
CUT_OFF: Final = 1


async def run_until_stopped(
    work: Coroutine[Any, Any, None],
    graceful: timedelta,
    abandon: Callable[[], None],
    *,
    is_supervised: bool = False,
) -> None:
    """Run the work until it ends or a signal cancels it.

    A tool can ignore its cancellation, and block the process for ever. So after `graceful` and
    `PATIENCE`, or at a second signal, `abandon` is called and the process ends, with code 1. With a
    supervisor, a second signal is the first one again, sent to each process of a service as well.
    """
    task = asyncio.create_task(work)

    def stop() -> None:
        if task.cancelling():
            if is_supervised:
                return
            cut_off()
        task.cancel()
        timer = threading.Timer((graceful + PATIENCE).total_seconds(), cut_off)
        timer.daemon = True
        timer.start()

    def cut_off() -> NoReturn:
        print_error("holdfast: a part of the process did not stop in time and was ended")
        try:
            abandon()
        finally:
            os._exit(CUT_OFF)

    # What its parent lets it ignore, such as `nohup`, does not stop it.
    for number in (each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        return


def print_error(text: str) -> None:
    """Print to standard error, if it can be written: its reader may have ended."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def exit_process(code: int) -> NoReturn:
    """End the process without Python's own clean-up.

    The SDK's core has threads of its own. If one is still processing the server's last answer, it
    sometimes aborts a Python that is shutting down.
    """
    for stream in (sys.stdout, sys.stderr):
        # A user's module has replaced or closed it, or its disk is full.
        with suppress(AttributeError, ValueError, OSError):
            stream.flush()
    os._exit(code)


class StartError(Exception):
    """A worker that cannot start for several problems; each line is one, and what to do.

    A single problem is a `FixableError`.
    """

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def exit_code(error: StartError | FixableError) -> int:
    is_unreachable = isinstance(error, TemporalConnectionError) and not error.in_settings
    return UNREACHABLE if is_unreachable else WRONG_SETUP
