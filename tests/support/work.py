"""The work of a piece of code, counted: the same on every machine, however busy it is."""

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(most_calls: int, doing: Callable[[], T]) -> T:
    """Return what a function returns, if it calls functions at most so often.

    Raises:
        AssertionError: it does more.
    """
    events = 0

    def count(*_: object) -> None:
        nonlocal events
        events += 1

    sys.setprofile(count)
    try:
        done = doing()
    finally:
        sys.setprofile(None)
    assert events <= 2 * most_calls, f"{events // 2} calls of functions"
    return done
