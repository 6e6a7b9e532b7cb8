"""A way to notify people, and the text of a notification: a title, a few facts, and a link.

Text of models and tools is not trusted: it is confined to its line, and makes no link, mention or
markup where it is shown. The only link is that of the inbox.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdfast.runtime.http_post import EnvironmentValue
from holdfast.runtime.narration import phrases
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.text_safety import (
    as_json,
    format_date,
    label_in_line,
    name_in_line,
    one_line,
)
from holdfast.schemas.settings.notify import VALUE_CHARACTERS, Content, News, PostedMessage

NAME_CHARACTERS = 100
TITLE_CHARACTERS = 140
MAX_ARGUMENTS_SHOWN = 20


class Notifier(ABC):
    """One way to notify people."""

    @property
    def environment_values(self) -> list[EnvironmentValue]:
        return [each for each in vars(self).values() if isinstance(each, EnvironmentValue)]

    def recipients(self, news: News) -> list[str]:
        """Return the addresses that the notification is for; none of a channel without any."""
        return []

    @abstractmethod
    async def notify(self, news: News, recipients: Sequence[str] = ()) -> PostedMessage | None:
        """Send a notification, once; return the message that later news update, if any.

        Raises:
            ApplicationError: it was not sent, or it is unknown whether it was.
        """


@dataclass(frozen=True)
class MessageText:
    """A text: `lines` are names and values; `action` is the label of the link."""

    title: str
    lines: tuple[tuple[str, str], ...]
    link: str
    action: str


def limit_content(news: News, content: Content) -> News:
    """Return the notification without the content that a channel must not receive."""
    if content == "full":
        return news
    call: dict[str, Any] = {"arguments": {}, "filled_in": [], "reasoning": None, "question": ""}
    call |= {"amount": "", "form": {}, "effect": "", "rules": [], "run_title": ""}
    if content == "brief":
        no_reason = {"reason": None}
        decided = news.decided and news.decided.model_copy(update=no_reason)
        call["decisions"] = [one.model_copy(update=no_reason) for one in news.waiting.decisions]
        changes: dict[str, Any] = {"decided": decided}
    else:
        call |= {"tool": "", "label": "", "digest": "", "instance": None}
        call |= {"approvers": [], "decisions": [], "claim": None}
        changes = {"agent": None, "principal": None, "decided": None}
        changes |= {"forwarded": [], "absences": []}
    changes |= {"waiting": news.waiting.model_copy(update=call), "shown": []}
    return news.model_copy(update=changes)


def message_text(news: News) -> MessageText:
    """Return the text of a notification; absent values have no line."""
    view = QuestionView.of(news.waiting)
    match news.kind:
        case "asked" | "reminder":
            again = f"Reminder {news.reminder}: " if news.kind == "reminder" else ""
            heading = again + view.request
        case "expired":
            heading = phrases.EXPIRED.capitalize()
        case "decided":
            heading = "Decided"
        case "threshold":
            heading = "Budget threshold reached"
    instance = news.waiting.instance
    whose = f" for {name_in_line(instance, NAME_CHARACTERS)}" if instance else ""
    what = label_in_line(news.waiting.label, NAME_CHARACTERS) + whose
    return MessageText(
        title=one_line(f"{heading}: {what}" if what else heading, TITLE_CHARACTERS),
        lines=tuple((name, value) for name, value in _lines(news, view) if value),
        link=news.link or "",
        action="Open the run" if news.is_over else phrases.REVIEW,
    )


def _lines(news: News, view: QuestionView) -> Iterator[tuple[str, str]]:
    waiting = news.waiting
    yield "Tool", one_line(waiting.tool, NAME_CHARACTERS) if waiting.kind != "plan" else ""
    yield "Agent", one_line(news.agent or "", NAME_CHARACTERS)
    yield "Title", one_line(waiting.run_title, VALUE_CHARACTERS)
    yield "On behalf of", one_line(news.principal or "", NAME_CHARACTERS)
    rows = argument_lines(news)
    for name, value in rows[:MAX_ARGUMENTS_SHOWN]:
        yield one_line(name, NAME_CHARACTERS), one_line(value, VALUE_CHARACTERS)
    yield "Not shown", "further arguments" if len(rows) > MAX_ARGUMENTS_SHOWN else ""
    yield "Filled in", one_line(", ".join(waiting.filled_in), VALUE_CHARACTERS)
    yield "Why", one_line(waiting.reasoning or "", VALUE_CHARACTERS)
    if news.decided is not None:
        decided = phrases.decided_phrase(news.decided, waiting.kind)
        reason = one_line(news.decided.reason or "", VALUE_CHARACTERS)
        yield "Decided", f"{decided}: {as_json(reason)}" if reason else decided
    if news.kind == "expired":
        yield "Result", phrases.lapse_phrase(news.lapse)
    if not news.is_over:
        yield "Rule", one_line(view.rule(with_people=True), VALUE_CHARACTERS)
        deciding = view.terms("message", view.groups(VALUE_CHARACTERS))
        # Without any content, the approvers are not named.
        yield "Who decides", "; ".join(deciding) if waiting.tool else ""
        away = map(phrases.substitute_phrase, news.absences)
        yield "Substitutes, if approvers", one_line("; ".join(away), VALUE_CHARACTERS)
        yield "Now", phrases.claim_phrase(waiting, datetime.now(UTC))
        until = format_date(waiting.expires_at)
        yield "Until", f"{until}; without a decision, {phrases.lapse_phrase(news.lapse)}"
    yield "Run", f"{one_line(news.workflow_id, VALUE_CHARACTERS)}, call {waiting.call_id}"


def argument_lines(news: News) -> list[tuple[str, str]]:
    """Return the lines of the arguments, before they are cut."""
    raw = (
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in news.waiting.arguments.items()
    )
    # A model may give one the name of a line of ours.
    return [(f"With {name}", text) for name, text in news.shown or raw]
