"""Notify people of approvals in the channels of the worker, one activity for each channel.

Nothing waits for a notification. A pending notification is cancelled when its question is closed,
and while one is pending, no reminder follows it. Before a run ends or continues as new, pending
notifications have a moment to start, since Temporal then drops activities that no worker has
started.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError
from temporalio.workflow import ActivityConfig

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.base import parse_duration
    from holdfast.schemas.log_entry import NoticeEntry
    from holdfast.schemas.settings.notify import NewsKind

from holdfast.workflows.engine.approvals.notifications import (
    NewsTracker,
    QuestionOrigin,
    build_news,
    is_for_listener,
)
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.publishing import summaries

_START_TO_CLOSE = parse_duration("30s")
# An older notification is worthless: a reminder replaces it.
TELL_TO_CLOSE = parse_duration("1h")

MAX_CONCURRENT_DELIVERIES = 20
MAX_PENDING_DELIVERIES = 1_000
DELIVERY_TIMEOUT = parse_duration("5s")

_TOO_MUCH = (
    f"some notifications were not sent: {MAX_PENDING_DELIVERIES} are pending already;"
    " check that the channels can be reached"
)


@dataclass(frozen=True)
class Delivery:
    """A pending notification about a question in one channel."""

    question: Question
    channel: str
    task: asyncio.Task[None]


class ApprovalNotifier:
    """The sender of one run's notifications."""

    def __init__(self, work: ExecutionBase, facts: WorkerFacts) -> None:
        self._work = work
        self._listeners = facts.notifiers
        self._followed = NewsTracker()
        self._pending: list[Delivery] = []
        # Each channel has its own slots: an unreachable one does not delay the others.
        at_once = max(1, MAX_CONCURRENT_DELIVERIES // max(1, len(self._listeners)))
        self._slots = {each.name: asyncio.Semaphore(at_once) for each in self._listeners}
        # Pending deliveries get the moment once.
        self._has_waited = False
        self._has_noted = False

    @property
    def is_settled(self) -> bool:
        """Return whether no notification is pending."""
        return all(each.task.done() for each in self._pending)

    def update(self) -> None:
        """Notify people of changes."""
        if not self._listeners:
            return
        self._pending = [each for each in self._pending if not each.task.done()]
        for question, kind in self._followed.take_news(self._work.state.pending.list_open()):
            if kind in (None, "expired", "decided"):
                for each in self._pending:
                    if each.question is question:
                        each.task.cancel()
            if kind is not None:
                self._notify(question, kind)

    async def wait_for_delivery(self, unless: Callable[[], bool]) -> None:
        """Wait a moment for pending notifications, once, unless the run continues."""
        if self._has_waited or self.is_settled:
            return
        line = "Waits a moment for pending notifications"
        try:
            await workflow.wait_condition(
                lambda: self.is_settled or unless(), timeout=DELIVERY_TIMEOUT, timeout_summary=line
            )
        except TimeoutError:
            self._has_waited = True

    def _notify(self, question: Question, kind: NewsKind) -> None:
        concerned = [each.name for each in self._listeners if is_for_listener(each, kind, question)]
        if kind == "reminder":
            pending = {each.channel for each in self._pending if each.question is question}
            concerned = [name for name in concerned if name not in pending]
        if not concerned:
            return
        self._has_waited = False
        info, principal = workflow.info(), self._work.state.principal
        origin = QuestionOrigin(
            workflow_id=info.workflow_id,
            run_id=info.run_id,
            agent=self._work.agent_name,
            principal=principal.id if principal is not None else None,
        )
        news = build_news(question, kind, origin, workflow.now()).to_json()
        for channel in concerned:
            if len(self._pending) >= MAX_PENDING_DELIVERIES:
                if not self._has_noted:
                    self._has_noted = True
                    self._work.state.log.append(NoticeEntry(text=_TOO_MUCH))
                return
            line = summaries.summary(f"Notifies {channel} ({kind}): {question.label}")
            task = asyncio.create_task(self._send(channel, news, line))
            self._pending.append(Delivery(question, channel, task))

    async def _send(self, channel: str, news: dict[str, Any], line: str) -> None:
        async with self._slots[channel]:
            with suppress(FailureError):  # the worker logs it
                await workflow.execute_activity(
                    names.TELL_PEOPLE, {"channel": channel, "news": news}, **channel_config(line)
                )


def notify_config(line: str) -> ActivityConfig:
    """Return the options of the worker's own `notify` activity: a few attempts."""
    return ActivityConfig(
        summary=line,
        start_to_close_timeout=_START_TO_CLOSE,
        retry_policy=RetryPolicy(maximum_attempts=5),
    )


def channel_config(line: str) -> ActivityConfig:
    """Return the options of a notification: retried for up to an hour."""
    return ActivityConfig(
        summary=line,
        start_to_close_timeout=_START_TO_CLOSE,
        schedule_to_close_timeout=TELL_TO_CLOSE,
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=5)
        ),
    )
