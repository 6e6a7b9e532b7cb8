"""What a test costs: cases that only `make test-slow` runs, and work that is counted.

Counted work is the same on every machine, however busy it is.
"""

import sys
from collections.abc import Callable, Container, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def some_of(names: Iterable[str], kept: Container[str]) -> list[Any]:
    """Return the names of cases for `parametrize`; those that are not kept are slow."""
    return [name if name in kept else pytest.param(name, marks=pytest.mark.slow) for name in names]


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
