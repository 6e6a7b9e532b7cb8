"""How much is checked at a time: Temporal takes a workflow that thinks for two seconds for dead.

What strangers wrote is checked in steps, each of which takes some ten microseconds at most. They
are counted, and not timed: a replay comes to the same end. `bounded` gives what is done inside of
it one allowance. What happens in one workflow task uses one `SharedWorkBudget`, which its shell
says.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from holdfast.validation.regex import Pattern, PatternRefused, pattern

MAX_CHECKS = 50_000
# What a workflow task does on its own, and what decisions that come in it take besides.
MAX_CHECKS_IN_TASK = 80_000
MAX_CHECKS_OF_DECISIONS = 20_000
# Schemas within schemas, for which Python has room on its stack.
MAX_NESTED_CHECKS = 200
# What a search takes: its pattern is made ready, and then it goes through the text.
_STEPS_READY_A_CHECK = 30
_STEPS_SEARCHED_A_CHECK = 4_000
# One that is refused may have been made ready in part.
_REFUSED_CHECKS = 1_000


class CannotCheck(Exception):
    """Whether a value fits a schema cannot be said; the message says why."""


class SharedWorkBudget:
    """What may still be done in one workflow task."""

    def __init__(self, checks: int) -> None:
        self.checks = checks


class WorkBudget:
    """What may still be done, and what is known from what was done."""

    def __init__(self, purse: SharedWorkBudget | None) -> None:
        self._purse = purse
        self._left = MAX_CHECKS
        self._patterns: dict[str, Pattern] = {}
        self.nested = 0
        # By the id of a registry: it, and it with all anchors found.
        self.crawled: dict[int, tuple[Any, Any]] = {}

    def spend(self, checks: int) -> None:
        """Take so much of it."""
        self._left -= checks
        if self._left < 0:
            raise CannotCheck(f"too large to be checked: that takes more than {MAX_CHECKS} steps")
        if self._purse is not None:
            self._purse.checks -= checks
            if self._purse.checks < 0:
                raise CannotCheck("too large to be checked beside all else that came with it")

    def pattern(self, written: str) -> Pattern:
        """Return a pattern, made ready once."""
        if written not in self._patterns:
            try:
                self._patterns[written] = ready = pattern(written)
            except PatternRefused as refused:
                self.spend(_REFUSED_CHECKS)
                raise CannotCheck(f"the schema cannot be applied: {refused}") from None
            self.spend(ready.steps // _STEPS_READY_A_CHECK)
        return self._patterns[written]


_current: ContextVar[WorkBudget | None] = ContextVar("_current", default=None)
_purse: ContextVar[Callable[[], SharedWorkBudget] | None] = ContextVar("_purse", default=None)


@contextmanager
def bounded() -> Iterator[None]:
    """Share one allowance of `MAX_CHECKS`, about half a second of work, among all checks inside."""
    if _current.get() is not None:
        yield
        return
    purse = _purse.get()
    token = _current.set(WorkBudget(None if purse is None else purse()))
    try:
        yield
    finally:
        _current.reset(token)


def use_shared_budget(purse: Callable[[], SharedWorkBudget]) -> None:
    """Have this asyncio task, and those that it starts, use the budget that this returns."""
    _purse.set(purse)


def current_budget() -> WorkBudget:
    """Return the allowance of what is done now."""
    current = _current.get()
    assert current is not None  # every check opens one
    return current


def spend(checks: int) -> None:
    """Take so much of the allowance.

    Raises:
        CannotCheck: it is used up.
    """
    current_budget().spend(checks)


def pattern_matches(written: str, text: str) -> bool:
    """Return whether a pattern is found in a text.

    Raises:
        CannotCheck: the pattern is not searched for, or too much was done already.
    """
    one = current_budget().pattern(written)
    spend(1 + one.steps * len(text) // _STEPS_SEARCHED_A_CHECK)
    return one.is_in(text)
