"""Bound the CPU work of one workflow task, which Temporal fails after two seconds.

Senders of signals can send many at once, each of which takes time to check, and a hundred
activities can end at once. So each workflow task has three budgets: one for the run, one for input
from people, which cannot use up the run's, and one for validators. A rejected update is not in the
history, so a replay does not have the third.
"""

from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.validation.work_budget import (
    MAX_CHECKS_IN_TASK,
    MAX_CHECKS_OF_DECISIONS,
    SharedWorkBudget,
    use_shared_budget,
)
from holdfast.workflows.handler_input import InvalidInputError

# A payload with more values is neither a decision nor a message.
MAX_INPUT_VALUES = 200_000
# Reading a value takes less time than checking it, and a long text takes nearly none.
_VALUES_A_CHECK = 3
_BYTES_A_CHECK = 2_000


class _PerTaskBudget:
    """A budget that is full again in each workflow task."""

    def __init__(self, checks: int) -> None:
        self._checks = checks
        self._task = -1
        self._budget = SharedWorkBudget(0)

    def __call__(self) -> SharedWorkBudget:
        task = workflow.info().get_current_history_length()
        if task != self._task:
            self._task, self._budget = task, SharedWorkBudget(self._checks)
        return self._budget


class TaskBudget:
    """The budgets of one workflow; the `use_for` methods choose which one pays from now on."""

    def __init__(self) -> None:
        self._run = _PerTaskBudget(MAX_CHECKS_IN_TASK)
        self._input = _PerTaskBudget(MAX_CHECKS_OF_DECISIONS)
        self._validation = _PerTaskBudget(MAX_CHECKS_OF_DECISIONS)

    def admit(self, payload: Any, *, trace: bool = True) -> None:
        """Charge for reading a payload; the first one in a workflow task is always admitted.

        Without `trace`, a validator reads it.

        Raises:
            InvalidInputError: the payload has too many values, or the budget is used up.
        """
        data = payload.payload.data if isinstance(payload, RawValue) else b""
        values = data.count(b",")
        if values > MAX_INPUT_VALUES:
            raise InvalidInputError(
                f"it holds {values} values; at most {MAX_INPUT_VALUES} are read"
            )
        budget = (self._input if trace else self._validation)()
        is_first = budget.checks == MAX_CHECKS_OF_DECISIONS
        budget.checks -= 1 + values // _VALUES_A_CHECK + len(data) // _BYTES_A_CHECK
        if budget.checks < 0 and not is_first:
            raise InvalidInputError("too much came at once; send it again")

    def use_for_run(self) -> None:
        """Charge subsequent work to the run."""
        use_shared_budget(self._run)

    def use_for_input(self) -> None:
        """Charge subsequent work to input from people."""
        use_shared_budget(self._input)

    def use_for_validation(self) -> None:
        """Charge subsequent work to a validator."""
        use_shared_budget(self._validation)
