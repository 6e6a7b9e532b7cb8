"""What a delegate tells the run that it belongs to: the calls in it that wait for people.

It tells it by signal, and only when that has changed. A run that was started as the child of
somebody else's workflow tells nobody: only a delegate has the memo.
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

from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.ui_details.markdown import arguments_line, one_line


class ParentNotification:
    """The way from one workflow to the run that it is a delegate of, if it is one."""

    def __init__(self, work: ExecutionBase) -> None:
        self._work = work
        self._told: list[DelegatePending] = []
        self._telling: asyncio.Task[None] | None = None
        parent = workflow.info().parent
        call_id = workflow.memo_value(names.DELEGATE_OF, default=None)
        self._parent = None if parent is None or call_id is None else (parent.workflow_id, call_id)

    @property
    def settled(self) -> bool:
        """Whether nothing is on its way: a signal of a run that goes on meanwhile may be lost."""
        return self._telling is None or self._telling.done()

    def update(self) -> None:
        """Tell what waits, where that has changed; one that is over need tell nothing."""
        if self._parent is None or self._work.last_step is not None:
            return
        told = self._pending() == self._told
        if not told and self.settled:
            self._telling = asyncio.create_task(self._tell(*self._parent))

    async def _tell(self, workflow_id: str, call_id: str) -> None:
        parent = workflow.get_external_workflow_handle(workflow_id)
        while (pending := self._pending()) != self._told:
            self._told = pending
            news = DelegateNews(call_id=call_id, pending=pending)
            try:
                await parent.signal(names.DELEGATE_WAITS, news.to_json())
            except FailureError:
                return  # it is over, and will have this run cancelled

    def _pending(self) -> list[DelegatePending]:
        own = [_there(question) for question in self._work.state.pending.list_open()]
        return [*own, *self._work.delegates.list_pending()][:MAX_PENDING_TOLD]


def _there(question: Question) -> DelegatePending:
    return DelegatePending(
        workflow_id=workflow.info().workflow_id,
        call_id=question.call_id,
        kind=question.kind,
        tool=question.tool,
        label=one_line(question.label, MAX_ARGUMENTS_CHARACTERS),
        arguments=arguments_line(question.brief, MAX_ARGUMENTS_CHARACTERS),
    )
