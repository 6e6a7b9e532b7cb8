"""Signal the pending approvals of a delegate to its parent run, whenever they change.

Only a delegate has the memo that names its call; a child of another workflow sends no signal.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.internal.delegate import (
        MAX_ARGUMENTS_CHARACTERS,
        MAX_PENDING_TOLD,
        DelegateNews,
        DelegatePending,
    )

from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.ui_details.markdown import arguments_line, one_line


class ParentNotification:
    """The signals of one workflow to its parent run, if it is a delegate."""

    def __init__(self, work: ExecutionBase) -> None:
        self._work = work
        self._sent: list[DelegatePending] = []
        self._sending: asyncio.Task[None] | None = None
        parent = workflow.info().parent
        call_id = workflow.memo_value(names.DELEGATE_OF, default=None)
        self._parent = None if parent is None or call_id is None else (parent.workflow_id, call_id)

    @property
    def is_settled(self) -> bool:
        """Return whether no signal is pending: a continue-as-new may lose one."""
        return self._sending is None or self._sending.done()

    def update(self) -> None:
        """Signal the pending approvals if they have changed and the run is not over."""
        if self._parent is None or self._work.last_step is not None:
            return
        if self._pending() != self._sent and self.is_settled:
            self._sending = asyncio.create_task(self._send(*self._parent))

    async def _send(self, workflow_id: str, call_id: str) -> None:
        parent = workflow.get_external_workflow_handle(workflow_id)
        while (pending := self._pending()) != self._sent:
            self._sent = pending
            news = DelegateNews(call_id=call_id, pending=pending)
            try:
                await parent.signal(names.DELEGATE_WAITS, news.to_json())
            except FailureError:
                return  # the parent is closed, and cancels this run

    def _pending(self) -> list[DelegatePending]:
        own = [
            DelegatePending(
                workflow_id=workflow.info().workflow_id,
                call_id=question.call_id,
                kind=question.kind,
                tool=question.tool,
                label=one_line(question.label, MAX_ARGUMENTS_CHARACTERS),
                arguments=arguments_line(question.brief, MAX_ARGUMENTS_CHARACTERS),
            )
            for question in self._work.state.pending.list_open()
        ]
        return [*own, *self._work.delegates.list_pending()][:MAX_PENDING_TOLD]
