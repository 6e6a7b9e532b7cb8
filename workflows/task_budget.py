"""How much a workflow thinks in one workflow task, whatever comes in it: two seconds are the end.

Whoever may send signals can send many at once, each of which takes its time to be checked; a
hundred activities can end at once. So what is decided in one workflow task draws on one purse, and
what people decide in it on another: they cannot take the run's own. What is refused in a validator
is not in the history, so it draws on a third, which a replay does not have.
"""

from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.validation.work_budget import (
    MAX_CHECKS_IN_TASK,
    MAX_CHECKS_OF_DECISIONS,
    SharedWorkBudget,
    draw_on,
)
from holdfast.workflows.handler_input import NotUnderstoodError

# What is read of what somebody says: more values than these are no decision and no message.
MAX_VALUES_SAID = 200_000
# To read a value takes less than to check it, and a long text is read in no time.
_VALUES_A_CHECK = 3
_BYTES_A_CHECK = 2_000


class _PerTask:
    """A purse that is full again with each workflow task."""

    def __init__(self, checks: int) -> None:
        self._checks = checks
        self._task = -1
        self._purse = SharedWorkBudget(0)

    def __call__(self) -> SharedWorkBudget:
        task = workflow.info().get_current_history_length()
        if task != self._task:
            self._task, self._purse = task, SharedWorkBudget(self._checks)
        return self._purse


class TaskBudget:
    """The purses of one workflow."""

    def __init__(self) -> None:
        self._own = _PerTask(MAX_CHECKS_IN_TASK)
        self._heard = _PerTask(MAX_CHECKS_OF_DECISIONS)
        self._refused = _PerTask(MAX_CHECKS_OF_DECISIONS)

    def admit(self, said: Any, *, trace: bool = True) -> None:
        """See that there is time in this workflow task to read what somebody says. What comes
        first in it has the time; without `trace`, it is a validator that reads.

        Raises:
            NotUnderstoodError: there is none.
        """
        data = said.payload.data if isinstance(said, RawValue) else b""
        values = data.count(b",")
        if values > MAX_VALUES_SAID:
            raise NotUnderstoodError(
                f"it holds {values} values; at most {MAX_VALUES_SAID} are read"
            )
        purse = (self._heard if trace else self._refused)()
        is_first = purse.checks == MAX_CHECKS_OF_DECISIONS
        purse.checks -= 1 + values // _VALUES_A_CHECK + len(data) // _BYTES_A_CHECK
        if purse.checks < 0 and not is_first:
            raise NotUnderstoodError("too much came at once; send it again")

    def begin(self) -> None:
        """What is done from here on is the run's own."""
        draw_on(self._own)

    def hear(self) -> None:
        """What is done from here on is for what somebody has said."""
        draw_on(self._heard)

    def refuse(self) -> None:
        """What is done from here on leaves no trace."""
        draw_on(self._refused)
