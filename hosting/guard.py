"""Other people's modules, imported to be checked: they print nowhere, and do not take for ever."""

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NoReturn

from hosting.errors import WRONG_SETUP

_STREAMS = (1, 2)


@contextmanager
def guarded(
    timeout: timedelta, out_of_time: Callable[[traceback.StackSummary], None]
) -> Iterator[None]:
    """Let nothing be printed, on whatever way, and end the process if it is not done in time.

    Args:
        timeout: how long it may take.
        out_of_time: is given the stack of the main thread, and says what is the matter.
    """
    with _silenced() as speak:

        def end() -> NoReturn:
            frame = sys._current_frames()[threading.main_thread().ident or 0]
            speak()
            out_of_time(traceback.extract_stack(frame))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(WRONG_SETUP)

        timer = threading.Timer(timeout.total_seconds(), end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


@contextmanager
def _silenced() -> Iterator[Callable[[], None]]:
    """Point standard output and error nowhere; what is given points them back."""
    _flush()
    kept = [os.dup(number) for number in _STREAMS]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in _STREAMS:
        os.dup2(nowhere, number)
    os.close(nowhere)

    def speak() -> None:
        for number, stream in zip(_STREAMS, kept, strict=True):
            os.dup2(stream, number)

    try:
        yield speak
    finally:
        _flush()
        speak()
        for stream in kept:
            os.close(stream)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
