"""`BudgetWorkflow`: the count of one shared budget, for one scope and window.

The first reservation starts it, and it ends an hour after its window, when requests that began in
the window have been settled. An unexpected exception fails its workflow task, not the workflow: the
count survives a mistake in the code.
"""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, VersioningBehavior

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from holdfast.schemas import names
    from holdfast.schemas.internal.shared_budgets import BudgetUpdate

from holdfast.workflows import input
from holdfast.workflows.engine.budget.shared_budget import LONGEST_REQUEST, BudgetCount
from holdfast.workflows.ui_details.markdown import prose

_NAME_BYTES = 600
_NOTHING: dict[str, Any] = {
    "name": "none",
    "scope": "none",
    "window": "none",
    "endsAt": "1970-01-01T00:00:00Z",
}


@workflow.defn(name=names.BUDGET_WORKFLOW)
class BudgetWorkflow:
    """What all runs of one scope use of a budget in one window."""

    @workflow.init
    @input.raw_payload_handler
    def __init__(self, state: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        self._is_invalid, self._updates = False, 0
        try:
            self._count = BudgetCount.read(input.payload_value(state))
        except (input.InvalidInputError, ValidationError):
            self._is_invalid, self._count = True, BudgetCount.read(_NOTHING)

    @workflow.run
    @input.raw_payload_handler
    async def run(self, state: RawValue = input.MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Count until the window is over, and return the final count."""
        if self._is_invalid:
            input.fail(names.INVALID_REQUEST, "only the first reservation starts a budget")

        def is_long() -> bool:
            is_suggested = workflow.info().is_continue_as_new_suggested()
            return is_suggested or self._updates >= self._count.updates_a_run

        ends_at = None
        while ends_at != self._count.ends_at:
            ends_at = self._count.ends_at
            try:
                await workflow.wait_condition(
                    lambda: is_long() and workflow.all_handlers_finished(),
                    timeout=max(ends_at + LONGEST_REQUEST - workflow.now(), timedelta(seconds=1)),
                    timeout_summary="Ends the count, an hour after its window",
                )
                workflow.continue_as_new(self._count.to_json())
            except TimeoutError:
                await workflow.wait_condition(workflow.all_handlers_finished)
        return self._count.view(workflow.now()).to_json()

    @workflow.update(
        name=names.RESERVE, description="Internal: settle requests, and reserve for others"
    )
    @input.raw_payload_handler
    def reserve(self, update: RawValue = input.MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Apply a `BudgetUpdate`, and return its `BudgetReceipt`."""
        self._updates += 1
        return self._count.apply(_update(update), workflow.now()).to_json()

    @reserve.validator
    @input.raw_payload_handler
    def _check_reserve(self, update: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        try:
            _update(update)
        except input.InvalidInputError as error:
            input.fail(names.INVALID_REQUEST, str(error))

    @workflow.signal(name=names.SETTLE, description="Internal: settle requests")
    @input.raw_payload_handler
    def settle(self, update: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        """Apply the settlements of a `BudgetUpdate`; an invalid one is ignored."""
        self._updates += 1
        try:
            self._count.settle(_update(update).settle)
        except input.InvalidInputError:
            workflow.logger.warning("a settlement of a budget was ignored: it is no object of ours")

    @workflow.query(name=names.READ, description="What is used, reserved and estimated")
    def read(self) -> dict[str, Any]:
        """Return the `BudgetView`."""
        return self._count.view(workflow.now()).to_json()

    def details(self) -> str:
        """Return the current details that Temporal's UI shows, in Markdown."""
        view = self._count.view(workflow.now())
        lines = [
            f"- {prose(use.limit, _NAME_BYTES)}: {use.used:.9g} of {use.most:.9g}"
            for use in view.uses
        ]
        name, scope = prose(view.name, _NAME_BYTES), prose(view.scope, _NAME_BYTES)
        return "\n".join([f"The budget {name} of {scope}, {view.window}:", "", *lines])


@workflow.defn(name=names.BUDGET_WORKFLOW, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class MovingBudgetWorkflow(BudgetWorkflow):
    """A budget on workers that are builds of a deployment: it moves to the current build."""

    @workflow.run
    @input.raw_payload_handler
    async def run(self, state: RawValue = input.MISSING_PAYLOAD, *more: Any) -> dict[str, Any]:
        """Count, as any budget does."""
        return await super().run(state, *more)


def _update(payload: RawValue) -> BudgetUpdate:
    try:
        return BudgetUpdate.read(input.payload_value(payload))
    except ValidationError:
        raise input.InvalidInputError("this is no update of a budget") from None
