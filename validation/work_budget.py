"""Bound the work of validation, since Temporal fails a workflow task that blocks for two seconds.

Untrusted values are checked in steps of some ten microseconds at most. The steps are counted and
not timed, so that a replay gets the same result. `bounded` gives the work inside of it one budget.
The work of one workflow task uses one `SharedWorkBudget`, which the task's shell provides.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from holdfast.validation.regex import Pattern, PatternRefused, pattern

MAX_CHECKS = 50_000
# The budget of a workflow task's own work, and the additional budget for decisions that it
# receives.
MAX_CHECKS_IN_TASK = 80_000
MAX_CHECKS_OF_DECISIONS = 20_000
# Schemas within schemas, for which Python has room on its stack.
MAX_NESTED_CHECKS = 200
# The steps of a search: compiling its pattern, then reading the text.
_STEPS_READY_A_CHECK = 30
_STEPS_SEARCHED_A_CHECK = 4_000
# A rejected pattern may have been compiled in part.
_REFUSED_CHECKS = 1_000


class CannotCheck(Exception):
    """A validation without a result; the message is the reason."""


class SharedWorkBudget:
    """The remaining budget of one workflow task."""

    def __init__(self, checks: int) -> None:
        self.checks = checks


class WorkBudget:
    """A remaining budget, with the results of the work so far that can be used again."""

    def __init__(self, shared: SharedWorkBudget | None) -> None:
        self._shared = shared
        self._left = MAX_CHECKS
        self._patterns: dict[str, Pattern] = {}
        self.nested = 0
        # By the id of a registry: the registry, and the same one with all anchors found.
        self.crawled: dict[int, tuple[Any, Any]] = {}

    def spend(self, checks: int) -> None:
        """Subtract steps from the budget."""
        self._left -= checks
        if self._left < 0:
            raise CannotCheck(f"too large to be checked: that takes more than {MAX_CHECKS} steps")
        if self._shared is not None:
            self._shared.checks -= checks
            if self._shared.checks < 0:
                raise CannotCheck("too large to be checked beside all else that came with it")

    def pattern(self, written: str) -> Pattern:
        """Return a pattern, compiled once."""
        if written not in self._patterns:
            try:
                self._patterns[written] = ready = pattern(written)
            except PatternRefused as refused:
                self.spend(_REFUSED_CHECKS)
                raise CannotCheck(f"the schema cannot be applied: {refused}") from None
            self.spend(ready.steps // _STEPS_READY_A_CHECK)
        return self._patterns[written]


_current: ContextVar[WorkBudget | None] = ContextVar("_current", default=None)
_shared: ContextVar[Callable[[], SharedWorkBudget] | None] = ContextVar("_shared", default=None)


@contextmanager
def bounded() -> Iterator[None]:
    """Share one budget of `MAX_CHECKS`, about half a second of work, among all checks inside."""
    if _current.get() is not None:
        yield
        return
    shared = _shared.get()
    token = _current.set(WorkBudget(None if shared is None else shared()))
    try:
        yield
    finally:
        _current.reset(token)


def use_shared_budget(shared: Callable[[], SharedWorkBudget]) -> None:
    """Set the function that returns the budget for this asyncio task and those that it starts."""
    _shared.set(shared)


def current_budget() -> WorkBudget:
    """Return the budget of the current work."""
    current = _current.get()
    assert current is not None  # every check opens one
    return current


def spend(checks: int) -> None:
    """Subtract steps from the current budget.

    Raises:
        CannotCheck: the budget is used up.
    """
    current_budget().spend(checks)


def pattern_matches(written: str, text: str) -> bool:
    """Return whether a text contains a match of a pattern.

    Raises:
        CannotCheck: the pattern is rejected, or the budget is used up.
    """
    one = current_budget().pattern(written)
    spend(1 + one.steps * len(text) // _STEPS_SEARCHED_A_CHECK)
    return one.is_in(text)
