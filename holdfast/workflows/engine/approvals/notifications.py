"""Notifications of a run's questions, and the channels that they are for.

              ┌──► reminder ──┐ (repeated)
    requested ┤               ├──► decided   people decided
              └───────────────┴──► expired   the timeout passed
                              └──► nothing   the run ends, or a message arrived

A question that is decided before its first notification gets no notification. A forward requests
approval in the channels of its groups.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from holdfast.runtime.narration.arguments import argument_rows
from holdfast.schemas.base import canonical_json, json_size, rfc3339, sha256
from holdfast.schemas.decision import PendingApproval, shown_calls
from holdfast.schemas.settings.notify import VALUE_CHARACTERS, Lapse, Listener, News, NewsKind
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.approvals.rulings import Expired, Moved
from holdfast.workflows.engine.state.redaction import truncate

# A notification stays small: one question may go to many channels.
ARGUMENTS_BYTES = 8_000
WORDS_BYTES = 2_000
NAME_CHARACTERS = 200
MAX_DECISIONS_TOLD = 5
MAX_ROWS = 50
MAX_GROUPS_TOLD = 20
# Channels choose recipients by the groups: up to this size, the news has all of them, uncut.
APPROVERS_BYTES = 16_000
_ABOUT_CHARACTERS = 40

_GIVEN_UP: dict[str, Lapse] = {"reconcile": "give_up", "budget": "end"}


@dataclass(frozen=True)
class QuestionOrigin:
    """The run of a question; `run_id` is of this execution of it."""

    workflow_id: str
    run_id: str
    agent: str | None
    principal: str | None
    title: str = ""


NewsEvent = NewsKind | Literal["forwarded"]


class NewsTracker:
    """The questions of a run that notifications were sent for."""

    def __init__(self) -> None:
        # With each, a copy of it at that time.
        self._told: dict[int, tuple[Question, Question]] = {}

    def take_news(self, waiting: list[Question]) -> list[tuple[Question, NewsEvent | None]]:
        """Take the news since the last call; a kind of None means no further news of a question."""
        found: list[tuple[Question, NewsEvent | None]] = []
        told = self._told
        self._told = {id(each): (each, replace(each)) for each in waiting}
        for key, (question, _) in told.items():
            if key not in self._told:
                ruled: NewsKind = "expired" if isinstance(question.ruling, Expired) else "decided"
                is_open = question.ruling is None or isinstance(question.ruling, Moved)
                found.append((question, None if is_open else ruled))
        for question in waiting:
            if id(question) not in told:
                found.append((question, "asked"))
                continue
            _, before = told[id(question)]
            if (forwards := question.forwards - before.forwards) > 0:
                question.note_forwarded(before.policy.approvers or [])
                found.append((question, "forwarded"))
            # A forward is logged as a reminder, too.
            if question.reminders - before.reminders > forwards:
                found.append((question, "reminder"))
        return found


def is_for_listener(listener: Listener, kind: NewsEvent, question: Question) -> bool:
    """Return whether a channel takes this kind of news on a question of these groups.

    A channel that had the question before takes a forward if it has recipients of its groups alone.
    """
    deciding = question.policy.approvers
    if kind == "forwarded":
        new, groups = question.forwarded, listener.groups
        is_told = not groups or any(one in groups and one not in new for one in deciding or [])
        theirs = any(one in new for one in (listener.to_groups if is_told else groups))
        return "asked" in listener.on and theirs
    theirs = not listener.groups or not deciding or any(one in deciding for one in listener.groups)
    return kind in listener.on and theirs


def build_news(question: Question, event: NewsEvent, origin: QuestionOrigin, now: datetime) -> News:
    """Build the news of a question."""
    kind: NewsKind = "asked" if event == "forwarded" else event
    # The question's id by its position: a reset run requests approval again.
    place = [origin.workflow_id, origin.run_id, question.call_id, question.kind, question.round]
    place.append(rfc3339(question.requested_at))
    about = sha256(canonical_json(place))[:_ABOUT_CHARACTERS]
    number = f"-{question.reminders}" if event in ("forwarded", "reminder") else ""
    shown = _shown(question.to_pending_approval(origin.run_id, origin.title))
    return News(
        id=f"{about}-{kind}{number}",
        about=about,
        kind=kind,
        at=rfc3339(now),
        reminder=question.reminders,
        workflow_id=origin.workflow_id,
        agent=origin.agent,
        principal=origin.principal,
        waiting=shown,
        forwarded=question.forwarded if event == "forwarded" else [],
        lapse=_GIVEN_UP.get(question.kind) or question.policy.on_timeout or "deny",
        decided=shown.decisions[-1] if kind == "decided" and shown.decisions else None,
    )


def shown_rows(question: Question) -> list[tuple[str, str]]:
    """Return the arguments of a call as the inbox shows them, or a row for each call of a plan."""
    if question.kind not in ("call", "reconcile", "input", "plan"):
        return []
    arguments = truncate(question.arguments, ARGUMENTS_BYTES)
    if question.kind == "plan":
        calls = shown_calls(arguments)
        arguments = {f"{one['id']} {one.get('tool')}": one.get("arguments") for one in calls}
    return argument_rows(arguments, question.parameters, VALUE_CHARACTERS)[:MAX_ROWS]


def _shown(waiting: PendingApproval) -> PendingApproval:
    arguments = truncate(waiting.arguments, ARGUMENTS_BYTES)
    decisions = [
        each.model_copy(update={"reason": _cut(each.reason), "groups": _names(each.groups)})
        for each in waiting.decisions[-MAX_DECISIONS_TOLD:]
    ]
    fits = json_size(waiting.approvers) <= APPROVERS_BYTES
    return waiting.model_copy(
        update={
            "label": waiting.label[:NAME_CHARACTERS],
            # The names in it are not cut, and a model may write long ones.
            "arguments": arguments if json_size(arguments) <= 2 * ARGUMENTS_BYTES else {},
            "reasoning": _cut(waiting.reasoning),
            "question": _cut(waiting.question) or "",
            "approvers": waiting.approvers if fits else _names(waiting.approvers),
            "decisions": decisions,
        }
    )


def _names(groups: list[str]) -> list[str]:
    return [each[:NAME_CHARACTERS] for each in groups[:MAX_GROUPS_TOLD]]


def _cut(text: str | None) -> str | None:
    return None if text is None else str(truncate(text, WORDS_BYTES))
