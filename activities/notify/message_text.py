"""The news in words: a title, what there is to know in a few lines, and where to go.

Models and tools are strangers. What they wrote stays in its line, and makes no link, no mention and
no markup of its own where it is shown: only the inbox's address is one to follow.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from holdfast.schemas.decision import Kind
from holdfast.schemas.settings.notify import Content, Lapse, News
from holdfast.validation.text_safety import INVISIBLE

NAME_CHARACTERS = 100
TITLE_CHARACTERS = 140
VALUE_CHARACTERS = 300
MAX_ARGUMENTS_TOLD = 20

_ASKED: dict[Kind, str] = {
    "call": "Shall this be done",
    "plan": "Shall this be carried out",
    "reconcile": "Did this happen",
    "budget": "May the run use more",
}
_LAPSE: dict[Lapse, str] = {
    "deny": "it is denied",
    "fail": "the run fails",
    "approve": "it is carried out",
    "give_up": "it is given up",
    "end": "the run ends",
}
_BREAK = "\u2060"
# Where an address, a mention or a link in Markdown begins; after each, an invisible mark parts it.
_LINKING = re.compile(r"(?<=\w)\.(?=\w)|:(?=//)|@|\](?=\()|#(?=\w)")


@dataclass(frozen=True)
class MessageText:
    """What is said: `lines` are names and values; `action` is what the link is called."""

    title: str
    lines: tuple[tuple[str, str], ...]
    link: str
    action: str


def limit_content(news: News, content: Content) -> News:
    """The news without what a channel is not to be told."""
    if content == "full":
        return news
    decided = news.decided
    waiting = news.waiting.model_copy(
        update={
            "arguments": {},
            "reasoning": None,
            "question": "",
            "decisions": [
                one.model_copy(update={"reason": None}) for one in news.waiting.decisions
            ],
        }
    )
    if content == "brief":
        unreasoned = None if decided is None else decided.model_copy(update={"reason": None})
        return news.model_copy(update={"waiting": waiting, "decided": unreasoned})
    bare = {"tool": "", "label": "", "digest": "", "instance": None}
    waiting = waiting.model_copy(update={**bare, "approvers": [], "decisions": []})
    nobody = {"agent": None, "principal": None, "decided": None}
    return news.model_copy(update={"waiting": waiting, **nobody})


def message_text(news: News) -> MessageText:
    """The news in words; of what is not told there is no line."""
    return MessageText(
        title=_title(news),
        lines=tuple((name, value) for name, value in _lines(news) if value),
        link=news.link or "",
        action="See what came of it" if news.is_over else "Look at it and decide",
    )


def one_line(text: str, limit_chars: int) -> str:
    """The text in one line, without what cannot be seen, and short."""
    line = " ".join(INVISIBLE.sub(" ", text[: 4 * limit_chars]).split())
    return line if len(line) <= limit_chars else f"{line[: limit_chars - 1]}…"


def defuse_links(text: str) -> str:
    """The text with nothing in it that a reader's program takes for an address or a mention."""
    return _LINKING.sub(lambda found: f"{found.group()}{_BREAK}", text)


def _title(news: News) -> str:
    what = _what(news)
    about = f": {what}" if what else ""
    match news.kind:
        case "asked" | "reminder":
            again = f"Reminder {news.reminder}: " if news.kind == "reminder" else ""
            said = f"{again}{_ASKED[news.waiting.kind]}{about}?"
        case "expired":
            said = f"Nobody decided in time{about}"
        case "decided":
            said = f"Decided{about}"
    return one_line(said, TITLE_CHARACTERS)


def _what(news: News) -> str:
    instance = news.waiting.instance
    whose = f" for {one_line(instance, NAME_CHARACTERS)}" if instance else ""
    return one_line(news.waiting.label, NAME_CHARACTERS) + whose


def _lines(news: News) -> Iterator[tuple[str, str]]:
    waiting = news.waiting
    yield "Tool", one_line(waiting.tool, NAME_CHARACTERS) if waiting.kind != "plan" else ""
    yield "Agent", one_line(news.agent or "", NAME_CHARACTERS)
    yield "On behalf of", one_line(news.principal or "", NAME_CHARACTERS)
    for name, value in list(waiting.arguments.items())[:MAX_ARGUMENTS_TOLD]:
        # A model may name one as a line of ours begins.
        yield f"With {one_line(name, NAME_CHARACTERS)}", one_line(_text(value), VALUE_CHARACTERS)
    yield "Why", one_line(waiting.reasoning or "", VALUE_CHARACTERS)
    yield "Decided", _decided(news)
    if news.kind == "expired":
        yield "So", _LAPSE[news.lapse]
    if not news.is_over:
        # What is bare of everything does not name them.
        yield "Who decides", _who(news) if waiting.tool else ""
        yield "Until", f"{_minute(waiting.expires_at)}; if nobody decides, {_LAPSE[news.lapse]}"
    yield "Run", f"{one_line(news.workflow_id, VALUE_CHARACTERS)}, call {waiting.call_id}"


def _who(news: News) -> str:
    waiting = news.waiting
    groups = one_line(", ".join(waiting.approvers), VALUE_CHARACTERS)
    said = [f"members of {groups}" if groups else "anybody who may use the inbox"]
    if waiting.quorum > 1:
        said.append(f"{waiting.quorum} of them must agree")
    if waiting.signed:
        said.append("only signed decisions count")
    return "; ".join(said)


def _decided(news: News) -> str:
    decided = news.decided
    if decided is None:
        return ""
    by = one_line(decided.by or "somebody", NAME_CHARACTERS)
    reason = one_line(decided.reason or "", VALUE_CHARACTERS)
    return f"{by} said {decided.decision}{f': {reason}' if reason else ''}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _minute(moment: str) -> str:
    return datetime.fromisoformat(moment).strftime("%Y-%m-%d %H:%M UTC")
