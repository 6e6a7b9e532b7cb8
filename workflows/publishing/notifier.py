"""Telling people what waits, in the channels of the run's worker: one activity for each and each.

from holdfast.workflows.commands.activity_options import START_TO_CLOSE
Nothing waits for it. What was told of a question that is over, and has not arrived, is called off;
while it may still arrive, no reminder is sent after it. What is under way when a run leaves its
history has a moment to arrive, since Temporal drops what nobody has begun by then.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.base import parse_duration
    from holdfast.schemas.log_entry import NoticeEntry
    from holdfast.schemas.settings.notify import NewsKind

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityConfig

from holdfast.workflows.engine.approvals.notifications import (
    NewsTracker,
    QuestionOrigin,
    build_news,
    is_for_listener,
)
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.publishing import summaries

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.base import parse_duration

_START_TO_CLOSE = parse_duration("30s")
# Who is told of something an hour late can be asked again.
TELL_TO_CLOSE = parse_duration("1h")

MAX_AT_ONCE = 20
MAX_UNDER_WAY = 1_000
LAST_WORD_TIMEOUT = parse_duration("5s")

_TOO_MUCH = (
    f"people were not told of everything: {MAX_UNDER_WAY} messages to them are under way; see"
    " whether those who are told can be reached"
)


@dataclass(frozen=True)
class Telling:
    """Something that one channel is being told of a question."""

    question: Question
    channel: str
    task: asyncio.Task[None]


class ApprovalNotifier:
    """What the people of one run are told."""

    def __init__(self, work: ExecutionBase, facts: WorkerFacts) -> None:
        self._work = work
        self._listeners = facts.notifiers
        self._followed = NewsTracker()
        self._under_way: list[Telling] = []
        # Each has its own: one that cannot be reached holds up no other.
        at_once = max(1, MAX_AT_ONCE // max(1, len(self._listeners)))
        self._slots = {each.name: asyncio.Semaphore(at_once) for each in self._listeners}
        # Whether what is on its way has had its moment already.
        self._waited = False
        self._noted = False

    @property
    def settled(self) -> bool:
        """Whether nothing is on its way."""
        return all(each.task.done() for each in self._under_way)

    def update(self) -> None:
        """Tell what has happened since."""
        if not self._listeners:
            return
        self._under_way = [each for each in self._under_way if not each.task.done()]
        for question, kind in self._followed.take_news(self._work.state.pending.list_open()):
            if kind in (None, "expired", "decided"):
                self._call_off(question)
            if kind is not None:
                self._tell(question, kind)

    async def last_word(self, unless: Callable[[], bool]) -> None:
        """Give what is on its way a moment to arrive, once, unless it turns out not to be the end
        after all."""
        if self._waited or self.settled:
            return
        line = "Gives what people are told a moment to arrive"
        try:
            await workflow.wait_condition(
                lambda: self.settled or unless(), timeout=LAST_WORD_TIMEOUT, timeout_summary=line
            )
        except TimeoutError:
            self._waited = True

    def _call_off(self, question: Question) -> None:
        """Tell no more that a question waits, for it does not."""
        for each in self._under_way:
            if each.question is question:
                each.task.cancel()

    def _is_on_its_way(self, question: Question, channel: str) -> bool:
        """Whether a channel is still being told that a question waits."""
        return any(
            each.question is question and each.channel == channel for each in self._under_way
        )

    def _tell(self, question: Question, kind: NewsKind) -> None:
        concerned = [each.name for each in self._listeners if is_for_listener(each, kind, question)]
        if kind == "reminder":
            concerned = [name for name in concerned if not self._is_on_its_way(question, name)]
        if not concerned:
            return
        self._waited = False
        news = build_news(question, kind, self._origin(), workflow.now()).to_json()
        for channel in concerned:
            if len(self._under_way) >= MAX_UNDER_WAY:
                self._note()
                return
            line = summaries.summary(f"Tells {channel}, {kind}: {question.label}")
            task = asyncio.create_task(self._send(channel, news, line))
            self._under_way.append(Telling(question, channel, task))

    async def _send(self, channel: str, news: dict[str, Any], line: str) -> None:
        told = {"channel": channel, "news": news}
        async with self._slots[channel]:
            # The worker's log says why.
            with suppress(FailureError):
                await workflow.execute_activity(names.TELL_PEOPLE, told, **tell(line))

    def _note(self) -> None:
        if not self._noted:
            self._noted = True
            self._work.state.log.append(NoticeEntry(text=_TOO_MUCH))

    def _origin(self) -> QuestionOrigin:
        info, principal = workflow.info(), self._work.state.principal
        return QuestionOrigin(
            workflow_id=info.workflow_id,
            run_id=info.run_id,
            agent=self._work.agent_name,
            principal=principal.id if principal is not None else None,
        )


def notify(line: str) -> ActivityConfig:
    """How people are told of a waiting call: some tries, and never in a run's way."""
    return ActivityConfig(
        summary=line,
        start_to_close_timeout=_START_TO_CLOSE,
        retry_policy=RetryPolicy(maximum_attempts=5),
    )


def tell(line: str) -> ActivityConfig:
    """How people are told of something in a channel: until it arrives, within bounds."""
    return ActivityConfig(
        summary=line,
        start_to_close_timeout=_START_TO_CLOSE,
        schedule_to_close_timeout=TELL_TO_CLOSE,
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=5)
        ),
    )
