"""Whether the terminal shows the keys that are pressed.

Keys pressed while nothing is asked would be drawn into the middle of what moves.
"""

import contextlib
import os
import sys
import termios
from collections.abc import Iterator

_LOCAL_MODES = 3  # the place of the local modes among a terminal's attributes


@contextlib.contextmanager
def unechoed() -> Iterator[None]:
    """Do not show keys. Ctrl-C still interrupts."""
    with _echo(False):
        yield


@contextlib.contextmanager
def echoed() -> Iterator[None]:
    """Show keys again: a person is asked something."""
    with _echo(True):
        yield


@contextlib.contextmanager
def _echo(wanted: bool) -> Iterator[None]:
    if not _is_ours():
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    changed = termios.tcgetattr(terminal)
    changed[_LOCAL_MODES] = _with_echo(changed[_LOCAL_MODES], wanted)
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _is_ours() -> bool:
    """Whether standard input is a terminal, and this program not in its background: setting a
    terminal up from there would stop the program."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


def _with_echo(modes: int, wanted: bool) -> int:
    return modes | termios.ECHO if wanted else modes & ~termios.ECHO
