"""Keep the public views of a workflow up to date: lists, its parent, notifications, its page.

The page is only written when Temporal's UI reads it.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from holdfast.runtime.narration.call_summaries import CallSummaries
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.internal.delegate import (
        MAX_ARGUMENTS_CHARACTERS,
        MAX_PENDING_TOLD,
        DelegateNews,
        DelegatePending,
    )
    from holdfast.schemas.log_entry import read_record

from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.publishing import notifier, search_attributes, summaries
from holdfast.workflows.publishing.notifier import ApprovalNotifier
from holdfast.workflows.ui_details.markdown import arguments_line, one_line, short_arguments
from holdfast.workflows.ui_details.page import DetailsPage


class Publisher:
    """The public views of one workflow."""

    def __init__(self, work: ExecutionBase, facts: WorkerFacts) -> None:
        self._work = work
        self._facts = facts
        self._details = DetailsPage(work, workflow.info().workflow_id)
        # Only calls of later turns are looked up.
        self._call_summaries = CallSummaries(short_arguments, last_entry=len(work.state.log))
        self._attributes: dict[str, Any] = {}
        self._notified: dict[str, int] = {}
        self._parent = ParentNotification(work)
        self._notifier = ApprovalNotifier(work, facts)

    def details(self) -> str:
        """Return the page that Temporal's UI shows."""
        return self._details.read()

    @property
    def is_settled(self) -> bool:
        """Return whether no signal to the parent is pending."""
        return self._parent.is_settled

    async def wait_for_delivery(self, unless: Callable[[], bool] = lambda: False) -> None:
        """Give pending notifications a moment, unless the run continues."""
        await self._notifier.wait_for_delivery(unless)

    def decision_on(self, call_id: str) -> str:
        """Return the phrase for a person's decision on a call of the current turn."""
        if not self._work.state.pending.has_ruling:
            return ""
        unread = self._work.state.log.records_after(self._call_summaries.last_entry)
        self._call_summaries.follow(map(read_record, unread))
        return self._call_summaries.decision_on(call_id)

    def update(self) -> None:
        """Bring all views but the page up to date."""
        attributes = search_attributes.attributes(self._work)
        changed = search_attributes.updates(
            self._attributes, attributes, self._facts.search_attributes
        )
        if changed:
            workflow.upsert_search_attributes(changed)
        self._attributes = attributes
        # The worker's `notify` activity is started once for each question and reminder.
        activity, pending = self._facts.notify, self._work.state.pending
        shown = zip(pending.list_open(), pending.describe_open(), strict=True) if activity else ()
        for question, described in shown:
            key = f"{question.call_id} {question.kind} {question.round}"
            if self._notified.get(key) == question.reminders:
                continue
            self._notified[key] = question.reminders
            line = summaries.summary(f"Notifies people of {question.label}")
            workflow.start_activity(
                str(activity),
                described | {"workflowId": workflow.info().workflow_id},
                **notifier.notify_config(line),
            )
        self._notifier.update()
        self._parent.update()


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
