"""Keep the public views of a workflow up to date: search attributes, parent, notifications, page.

The page is only written when Temporal's UI reads it.

Nothing waits for a notification. A pending notification is cancelled when its question is closed,
and while one is pending, no reminder follows it. Before a run ends or continues as new, pending
notifications have a moment to start, since Temporal then drops activities that no worker has
started.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey, SearchAttributeUpdate
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names, run
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.base import json_size, parse_duration

from holdfast.workflows.commands.activity_options import summary
from holdfast.workflows.engine.approvals import notifications
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.ui_details.markdown import arguments_line, one_line
from holdfast.workflows.ui_details.page import DetailsPage

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

# The server terminates a run with a search attribute of more than 2 KB.
MAX_LIST_BYTES = 1_900
_KEYWORDS = (names.AGENT_NAME, names.AGENT_STATUS, names.AGENT_PRINCIPAL)
_KEYS: dict[str, SearchAttributeKey[Any]] = {
    **{name: SearchAttributeKey.for_keyword(name) for name in _KEYWORDS},
    names.PENDING_TOOLS: SearchAttributeKey.for_keyword_list(names.PENDING_TOOLS),
    names.PENDING_SINCE: SearchAttributeKey.for_datetime(names.PENDING_SINCE),
    names.PENDING_UNTIL: SearchAttributeKey.for_datetime(names.PENDING_UNTIL),
    names.PENDING_FOR: SearchAttributeKey.for_keyword_list(names.PENDING_FOR),
}
_NOTHING_PENDING = dict.fromkeys(name for name in _KEYS if name not in _KEYWORDS)


class Publisher:
    """The public views of one workflow."""

    def __init__(self, work: ExecutionBase, facts: WorkerFacts) -> None:
        self._work = work
        self._facts = facts
        self.page = DetailsPage(work, workflow.info().workflow_id)
        self._attributes = sent_attributes()
        self.parent = ParentNotification(work)
        self.notifier = ApprovalNotifier(work, facts)

    def update(self) -> None:
        """Bring all views but the page up to date."""
        current = attributes(self._work)
        if current != self._attributes:
            if changed := updates(self._attributes, current, self._facts.search_attributes):
                workflow.upsert_search_attributes(changed)
            self._attributes = current
        self.notifier.update()
        self.parent.update()


class ParentNotification:
    """The signals of one workflow to its parent run, if it is a delegate."""

    def __init__(self, work: ExecutionBase) -> None:
        self._work = work
        self._sent: list[run.DelegatePending] = []
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
        if self._parent is None or self._work.phases.end is not None:
            return
        if self._pending() != self._sent and self.is_settled:
            self._sending = asyncio.create_task(self._send(*self._parent))

    async def _send(self, workflow_id: str, call_id: str) -> None:
        parent = workflow.get_external_workflow_handle(workflow_id)
        while (pending := self._pending()) != self._sent:
            self._sent = pending
            news = run.DelegateNews(call_id=call_id, pending=pending)
            try:
                await parent.signal(names.DELEGATE_WAITS, news.to_json())
            except FailureError:
                return  # the parent is closed, and cancels this run

    def _pending(self) -> list[run.DelegatePending]:
        own = [
            run.DelegatePending(
                workflow_id=workflow.info().workflow_id,
                call_id=question.call_id,
                kind=question.kind,
                tool=question.tool,
                label=one_line(question.label, run.MAX_ARGUMENTS_CHARACTERS),
                arguments=arguments_line(question.brief, run.MAX_ARGUMENTS_CHARACTERS),
            )
            for question in self._work.state.pending.list_open()
        ]
        return [*own, *self._work.delegates.list_pending()][: run.MAX_PENDING_TOLD]


def sent_attributes() -> dict[str, Any]:
    """Return the search attributes of the start request; a run that continues writes its own."""
    info = workflow.info()
    sent = info.typed_search_attributes if info.continued_run_id is None else ()
    return {pair.key.name: pair.value for pair in sent if pair.key.name in _KEYS}


def attributes(work: ExecutionBase) -> dict[str, Any]:
    """Return the search attributes of a run or a call: names and states, no content."""
    principal = work.state.principal
    of_run = {
        names.AGENT_NAME: work.agent_name,
        names.AGENT_STATUS: work.status,
        names.AGENT_PRINCIPAL: principal.id if principal is not None else None,
    }
    questions = work.state.pending.list_open()
    if not questions:
        return of_run | _NOTHING_PENDING
    approvers = [each.policy.approvers or [names.FOR_ANYBODY] for each in questions]
    return of_run | {
        names.PENDING_TOOLS: _fitting(chain.from_iterable(each.tools for each in questions)),
        names.PENDING_SINCE: max(each.requested_at for each in questions),
        names.PENDING_UNTIL: min(each.expires_at for each in questions),
        names.PENDING_FOR: _fitting(chain.from_iterable(approvers)),
    }


def updates(
    old: dict[str, Any], new: dict[str, Any], known: list[str]
) -> list[SearchAttributeUpdate[Any]]:
    """Return the changes to attributes of the namespace: an unknown one would fail the run."""
    return [
        _KEYS[name].value_unset() if value is None else _KEYS[name].value_set(value)
        for name, value in new.items()
        if name in known and old.get(name) != value
    ]


def _fitting(found: Iterable[str]) -> list[str] | None:
    fitting: list[str] = []
    for name in dict.fromkeys(found):
        if json_size([*fitting, name]) > MAX_LIST_BYTES:
            break
        fitting.append(name)
    return fitting or None


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
        info, principal = workflow.info(), work.state.principal
        self._origin = notifications.QuestionOrigin(
            workflow_id=info.workflow_id,
            run_id=info.run_id,
            agent=work.agent_name,
            principal=principal.id if principal is not None else None,
            title=work.state.title,
        )
        self._activity = facts.notify
        self._listeners = facts.notifiers
        self._followed = notifications.NewsTracker()
        self._pending: list[Delivery] = []
        # The messages that later news of an open question update, by question and channel.
        self._posted: dict[tuple[str, str], dict[str, Any]] = {}
        # Each channel has its own slots: an unreachable one does not delay the others.
        at_once = max(1, MAX_CONCURRENT_DELIVERIES // max(1, len(self._listeners)))
        self._slots = {each.name: asyncio.Semaphore(at_once) for each in self._listeners}
        # Pending deliveries get the moment once.
        self._has_waited = False
        self._has_noted = False

    @property
    def is_settled(self) -> bool:
        return all(each.task.done() for each in self._pending)

    def update(self) -> None:
        """Notify people of changes."""
        self._pending = [each for each in self._pending if not each.task.done()]
        reached = self._work.state.reached
        while reached:
            self._notify(reached.pop(0), "threshold")
        for question, kind in self._followed.take_news(self._work.state.pending.list_open()):
            if kind in (None, "expired", "decided"):
                for each in self._pending:
                    if each.question is question:
                        each.task.cancel()
            if kind in ("asked", "forwarded", "reminder") and self._activity is not None:
                self._start_activity(self._activity, question)
            if kind is not None:
                self._notify(question, kind)

    async def wait_for_delivery(self, unless: Callable[[], bool] = lambda: False) -> None:
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

    def _start_activity(self, activity: str, question: Question) -> None:
        origin, pending = self._origin, self._work.state.pending
        described = pending.describe_open(origin.run_id, origin.title)
        shown = described[pending.list_open().index(question)]
        workflow.start_activity(
            activity,
            shown | {"workflowId": origin.workflow_id},
            summary=summary(f"Notifies people of {question.label}"),
            start_to_close_timeout=_START_TO_CLOSE,
            retry_policy=RetryPolicy(maximum_attempts=5),
        )

    def _notify(self, question: Question, kind: notifications.NewsEvent) -> None:
        concerned = [
            each.name
            for each in self._listeners
            if notifications.is_for_listener(each, kind, question)
        ]
        if kind == "reminder":
            pending = {each.channel for each in self._pending if each.question is question}
            concerned = [name for name in concerned if name not in pending]
        if not concerned:
            return
        self._has_waited = False
        news = notifications.build_news(question, kind, self._origin, workflow.now()).to_json()
        if any(each.full for each in self._listeners if each.name in concerned):
            news["shown"] = notifications.shown_rows(question)
        for channel in concerned:
            if len(self._pending) >= MAX_PENDING_DELIVERIES:
                if not self._has_noted:
                    self._has_noted = True
                    self._work.state.log.add_notice(_TOO_MUCH)
                return
            line = summary(f"Notifies {channel} ({kind}): {question.label}")
            task = asyncio.create_task(self._send(channel, news, line))
            self._pending.append(Delivery(question, channel, task))

    async def _send(self, channel: str, news: dict[str, Any], line: str) -> None:
        async with self._slots[channel]:
            place = (news["about"], channel)
            posted = self._posted.get(place)
            with suppress(FailureError):  # the worker logs it
                posted = await workflow.execute_activity(
                    names.TELL_PEOPLE,
                    {"channel": channel, "news": news | ({"posted": posted} if posted else {})},
                    summary=line,
                    start_to_close_timeout=_START_TO_CLOSE,
                    schedule_to_close_timeout=TELL_TO_CLOSE,
                    retry_policy=RetryPolicy(
                        initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=5)
                    ),
                )
            if posted and news["kind"] in ("asked", "reminder"):
                self._posted[place] = posted
            else:
                self._posted.pop(place, None)
