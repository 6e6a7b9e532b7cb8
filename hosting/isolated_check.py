"""Other people's modules, imported to be checked: nobody hears them, and they are not waited for.

A module may print on whatever way, begin threads that go on printing, close the streams, fork, or
take for ever. What the check says goes past all of it.
"""

import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final, NamedTuple, NoReturn, TextIO

from holdfast.hosting.startup_errors import WRONG_SETUP

FAILED: Final = 1
# Where standard output and error led; nothing in a process that a module forks. That has nothing to
# say, and whoever reads what the check says would wait for its end, too.
_kept: list[TextIO] = []


class CheckAnswer(NamedTuple):
    """What a check came to: its exit code, and what it says on standard output and error."""

    code: int
    out: str = ""
    err: str = ""


def guarded(
    work: Callable[[], CheckAnswer],
    timeout: timedelta,
    out_of_time: Callable[[traceback.StackSummary], CheckAnswer],
    clean: Callable[[str], str],
) -> int:
    """Do the work and say what it came to, and end the process if it is not done in time.

    Standard output and error lead nowhere from here on, also afterwards.

    Args:
        work: what may print, and take for ever.
        timeout: how long it may take.
        out_of_time: is given the stack of the main thread, and says what is the matter.
        clean: takes out of a text what nobody is to read, whatever it came to.

    Returns:
        the exit code.
    """
    _silence()
    main_thread = threading.get_ident()

    def end() -> NoReturn:
        _say(out_of_time(traceback.extract_stack(sys._current_frames()[main_thread])), clean)
        os._exit(WRONG_SETUP)

    timer = threading.Timer(timeout.total_seconds(), end)
    timer.daemon = True
    timer.start()
    try:
        answer = work()
    except Exception:
        answer = CheckAnswer(FAILED, err=traceback.format_exc())
    timer.cancel()
    _say(answer, clean)
    return answer.code


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        stream.flush()
        kept = os.dup(number)
        _kept.append(os.fdopen(kept, "w", encoding=stream.encoding, errors="backslashreplace"))
        os.dup2(nowhere, number)
    os.close(nowhere)


def _say(answer: CheckAnswer, clean: Callable[[str], str]) -> None:
    for stream, text in zip(_kept, (answer.out, answer.err), strict=False):
        with suppress(BrokenPipeError):  # nobody listens any more
            stream.write(clean(text))
            stream.flush()
    _let_go()


def _let_go() -> None:
    for stream in _kept:
        with suppress(BrokenPipeError):
            stream.close()
    _kept.clear()


os.register_at_fork(after_in_child=_let_go)
