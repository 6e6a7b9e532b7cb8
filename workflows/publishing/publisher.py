"""What others see of a workflow: the lists, its parent and who is told of what waits, kept up to
date; and its page, written when somebody looks."""

from collections.abc import Callable
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from holdfast.runtime.narration.call_summaries import CallSummaries
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.log_entry import read_record

from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.publishing import notifier, search_attributes, summaries
from holdfast.workflows.publishing.notifier import ApprovalNotifier
from holdfast.workflows.publishing.parent_notification import ParentNotification
from holdfast.workflows.ui_details.markdown import short_arguments
from holdfast.workflows.ui_details.page import DetailsPage


class Publisher:
    """What others see of one workflow."""

    def __init__(self, work: ExecutionBase, facts: WorkerFacts) -> None:
        self._work = work
        self._facts = facts
        self._details = DetailsPage(work, workflow.info().workflow_id)
        # What is decided on is a call of a turn that is still to come.
        self._recent = CallSummaries(short_arguments, last_entry=len(work.state.log))
        self._attributes: dict[str, Any] = {}
        self._told: dict[str, int] = {}
        self._upward = ParentNotification(work)
        self._notifying = ApprovalNotifier(work, facts)

    def details(self) -> str:
        """The page that Temporal's UI shows, as things stand."""
        return self._details.read()

    @property
    def settled(self) -> bool:
        """Whether all that is to be told has reached whoever it is for, people apart."""
        return self._upward.settled

    async def last_word(self, unless: Callable[[], bool] = lambda: False) -> None:
        """Give what people are being told a moment to reach them, unless the run goes on."""
        await self._notifying.last_word(unless)

    def decided(self, call_id: str) -> str:
        """The decision on a call of the turn under way, where a person made one."""
        if not self._work.state.pending.has_ruling:
            return ""
        unread = self._work.state.log.since(self._recent.last_entry)
        self._recent.follow(map(read_record, unread))
        return self._recent.decision_on(call_id)

    def update(self) -> None:
        """Bring it all up to date."""
        attributes = search_attributes.attributes(self._work)
        changed = search_attributes.updates(
            self._attributes, attributes, self._facts.search_attributes
        )
        if changed:
            workflow.upsert_search_attributes(changed)
        self._attributes = attributes
        if self._facts.notify is not None:
            self._notify(self._facts.notify)
        self._notifying.update()
        self._upward.update()

    def _notify(self, activity: str) -> None:
        """Have people told of what waits: once each time that it is asked."""
        desk = self._work.state.pending
        for question, shown in zip(desk.list_open(), desk.describe_open(), strict=True):
            key = f"{question.call_id} {question.kind} {question.round}"
            if self._told.get(key) == question.reminders:
                continue
            self._told[key] = question.reminders
            line = summaries.summary(f"Tells people that {question.label} waits")
            workflow.start_activity(
                activity,
                shown | {"workflowId": workflow.info().workflow_id},
                **notifier.notify(line),
            )
