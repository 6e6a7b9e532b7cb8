"""Telling people what waits, in the channels of the run's worker: one activity for each and each.

Nothing waits for it. What was told of a question that is over, and has not arrived, is called off;
what is under way when a run leaves its history has a moment to arrive, since Temporal drops what
nobody has begun by then.
"""

import asyncio
from contextlib import suppress
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from schemas import names
    from schemas.agent import WorkerFacts
    from schemas.base import parse_duration
    from schemas.entry import NoticeEntry
    from schemas.notify import NewsKind

from workflows import carrying, screen
from workflows.engine.approval import Question
from workflows.engine.news import Followed, Origin, concerns, news_of
from workflows.engine.work import Work

MAX_AT_ONCE = 20
MAX_UNDER_WAY = 1_000
LAST_WORD_TIMEOUT = parse_duration("5s")

_TOO_MUCH = (
    f"people were not told of everything: {MAX_UNDER_WAY} messages to them are under way; see"
    " whether those who are told can be reached"
)


class Notifying:
    """What the people of one run are told."""

    def __init__(self, work: Work, facts: WorkerFacts) -> None:
        self._work = work
        self._listeners = facts.notifiers
        self._followed = Followed()
        self._under_way: list[tuple[Question, asyncio.Task[None]]] = []
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)
        self._noted = False

    @property
    def settled(self) -> bool:
        """Whether nothing is on its way."""
        return all(telling.done() for _, telling in self._under_way)

    def update(self) -> None:
        """Tell what has happened since."""
        if not self._listeners:
            return
        self._under_way = [each for each in self._under_way if not each[1].done()]
        for question, kind in self._followed.next(self._work.kept.desk.open()):
            if kind in (None, "expired", "decided"):
                self._call_off(question)
            if kind is not None:
                self._tell(question, kind)

    async def last_word(self) -> None:
        """Give what is on its way a moment to arrive."""
        if self.settled:
            return
        line = "Gives what people are told a moment to arrive"
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self.settled, timeout=LAST_WORD_TIMEOUT, timeout_summary=line
            )

    def _call_off(self, question: Question) -> None:
        """Tell no more that a question waits, for it does not."""
        for about, telling in self._under_way:
            if about is question:
                telling.cancel()

    def _tell(self, question: Question, kind: NewsKind) -> None:
        concerned = [each.name for each in self._listeners if concerns(each, kind, question)]
        if not concerned:
            return
        news = news_of(question, kind, self._origin(), workflow.now()).to_json()
        for channel in concerned:
            if len(self._under_way) >= MAX_UNDER_WAY:
                self._note()
                return
            line = screen.summary(f"Tells {channel}, {kind}: {question.label}")
            telling = asyncio.create_task(self._send({"channel": channel, "news": news}, line))
            self._under_way.append((question, telling))

    async def _send(self, told: dict[str, Any], line: str) -> None:
        async with self._slots:
            # The worker's log says why.
            with suppress(FailureError):
                await workflow.execute_activity(names.TELL_PEOPLE, told, **carrying.tell(line))

    def _note(self) -> None:
        if not self._noted:
            self._noted = True
            self._work.kept.log.append(NoticeEntry(text=_TOO_MUCH))

    def _origin(self) -> Origin:
        info, principal = workflow.info(), self._work.kept.principal
        return Origin(
            workflow_id=info.workflow_id,
            run_id=info.run_id,
            agent=self._work.agent_name,
            principal=principal.id if principal is not None else None,
        )
