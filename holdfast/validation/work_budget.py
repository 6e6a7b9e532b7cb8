"""Bound the work of validation, since Temporal fails a workflow task that blocks for two seconds.

The work on untrusted values is counted in steps of a tenth of a microsecond, and not timed, so that
a replay gets the same result. `bounded` gives the work inside of it one budget. The work of one
workflow task uses one `SharedWorkBudget`, which the task's shell provides.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.validation.regex import Pattern, PatternRefused, pattern

if TYPE_CHECKING:
    from holdfast.validation.validator import Node


# The steps of one decision of a run, of one workflow task, and of the messages and decisions that
# one workflow task receives.
MAX_STEPS = 5_500_000
TASK_STEPS = 6_000_000
INPUT_STEPS = 1_500_000
# What an application of a schema, and an error, takes beside its own steps; a coercion or a search;
# ten microseconds of other work.
APPLICATION_STEPS = 3
SLOW_STEPS = 25
WORK_STEPS = 100
# What takes ten microseconds: compiling so many instructions of a pattern, applying them.
_INSTRUCTIONS_COMPILED = 30
_INSTRUCTIONS_APPLIED = 4_000
# A rejected pattern may have been compiled in part.
_REFUSED_INSTRUCTIONS = 30_000


class CannotCheck(Exception):
    """A validation without a result; the message is the reason."""


@dataclass
class SharedWorkBudget:
    """The remaining budget of one workflow task."""

    steps: int


class WorkBudget:
    """A remaining budget, and what the checks that use it share.

    `nested` are the schemas around the current one; `verdicts` those so far of schemas in choices,
    by the schema's node and the id of a value; `roots` the nodes of whole schemas by their ids.
    """

    def __init__(self, shared: SharedWorkBudget | None = None) -> None:
        self._shared = SharedWorkBudget(MAX_STEPS) if shared is None else shared
        self._steps = MAX_STEPS
        self._patterns: dict[str, Pattern] = {}
        self.nested = 0
        self.verdicts: dict[tuple[Node, int], bool] = {}
        self.roots: dict[int, Node] = {}

    def spend(self, steps: int) -> None:
        """Subtract steps from the budget.

        Raises:
            CannotCheck: the budget is used up.
        """
        self._steps -= steps
        self._shared.steps -= steps
        if self._steps < 0:
            raise CannotCheck(f"too large to be checked: that takes more than {MAX_STEPS} steps")
        if self._shared.steps < 0:
            raise CannotCheck("too large to be checked beside all else that came with it")

    def work(self, amount: int, in_ten_microseconds: int) -> None:
        """Subtract the steps of work that is not an application of a keyword."""
        self.spend(WORK_STEPS * amount // in_ten_microseconds)

    def matches(self, written: str, text: str) -> bool:
        """Return whether a text contains a match of a pattern, which is compiled once."""
        ready = self._patterns.get(written)
        if ready is None:
            try:
                self._patterns[written] = ready = pattern(written)
            except PatternRefused as refused:
                self.work(_REFUSED_INSTRUCTIONS, _INSTRUCTIONS_COMPILED)
                raise CannotCheck(f"the schema cannot be applied: {refused}") from None
            self.work(ready.steps, _INSTRUCTIONS_COMPILED)
        self.spend(SLOW_STEPS)
        self.work(ready.steps * len(text), _INSTRUCTIONS_APPLIED)
        return ready.is_in(text)


_current: ContextVar[WorkBudget | None] = ContextVar("_current", default=None)
_shared: ContextVar[Callable[[], SharedWorkBudget] | None] = ContextVar("_shared", default=None)


@contextmanager
def bounded() -> Iterator[WorkBudget]:
    """Share one budget, about half a second of work, among all checks inside."""
    current = _current.get()
    if current is not None:
        yield current
        return
    shared = _shared.get()
    current = WorkBudget(None if shared is None else shared())
    token = _current.set(current)
    try:
        yield current
    finally:
        _current.reset(token)


def use_shared_budget(shared: Callable[[], SharedWorkBudget]) -> None:
    """Set the function that returns the budget for this asyncio task and those that it starts."""
    _shared.set(shared)
