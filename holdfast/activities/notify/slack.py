"""Notifications in Slack, by an app or an incoming webhook, also of chats compatible with those.

Messages of an app have buttons, and are updated when they are decided or expire. The inbox receives
the clicks (`web.slack`). A message has buttons only where one click can decide safely: it shows
every argument of a call, and the decision needs no signature. All others have the link alone. A
reminder is a reply to the first message, which keeps its buttons.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from holdfast.activities.notify.message_text import (
    MessageText,
    Notifier,
    argument_lines,
    message_text,
)
from holdfast.runtime.http_post import EnvironmentValue, post
from holdfast.runtime.narration.phrases import BUTTONS
from holdfast.runtime.slack import CUT, SlackApi, block, escape_link, escaped, fitting_lines
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.schemas.settings.notify import News, PostedMessage, Slack

# Slack's limits of the value and of the label of a button.
MAX_VALUE_CHARACTERS = 2_000
MAX_LABEL_CHARACTERS = 75


def message(text: MessageText) -> dict[str, Any]:
    """Return the message: blocks for Slack, and a text for other chats."""
    title, lines = escaped(text.title), fitting_lines(text.lines)
    link = f"<{escape_link(text.link)}|{text.action}>"
    return {
        "text": f"{title}\n{lines}\n{link}",
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [block(f"*{title}*"), block(lines), block(link)],
    }


@dataclass(frozen=True)
class SlackNotifier(Notifier):
    """A channel behind an incoming webhook."""

    url: EnvironmentValue
    http: httpx.AsyncClient

    async def notify(self, news: News, _: Sequence[str] = ()) -> None:
        body = json.dumps(message(message_text(news))).encode()
        await post(self.http, self.url.value(), body, {})


@dataclass(frozen=True)
class SlackAppNotifier(Notifier):
    """A channel that an app posts to; `shows_all`: it may receive the whole content."""

    token: EnvironmentValue
    settings: Slack
    shows_all: bool
    http: httpx.AsyncClient

    async def notify(self, news: News, _: Sequence[str] = ()) -> PostedMessage | None:
        """Post or update a message, as `Notifier` requires."""
        api, posted = SlackApi(self.settings.api, self.token, self.http), news.posted
        if posted is not None and news.is_over:
            await api.call("chat.update", **posted.to_json(), **app_message(news))
            return posted
        place: dict[str, Any] = {"channel": self.settings.channel}
        if posted is not None:
            place |= {"thread_ts": posted.ts, "reply_broadcast": True}
        sent = app_message(news, with_buttons=self.shows_all and posted is None)
        answer = await api.call("chat.postMessage", **place, **sent)
        return posted or PostedMessage.read(answer)


def app_message(news: News, *, with_buttons: bool = False) -> dict[str, Any]:
    """Return the message about a question, with buttons if it can be decided from what it shows."""
    text, waiting = message_text(news), news.waiting
    made, arguments = message(text), waiting.arguments
    value = str(SelectedCall.of(news.workflow_id, waiting))
    is_plain = waiting.kind == "call" and not waiting.signed and waiting.nonce and not news.is_over
    is_whole = waiting.find_round() is not None and {*argument_lines(news)} <= {*text.lines}
    is_cut = made["blocks"][1]["text"]["text"].endswith(CUT) or len(value) > MAX_VALUE_CHARACTERS
    if with_buttons and is_plain and is_whole and not is_cut:
        named = f"{BUTTONS['approve']} {waiting.effect}".rstrip()
        label = named if len(named) <= MAX_LABEL_CHARACTERS else BUTTONS["approve"]
        buttons = [_button("approve", label, value), _button("deny", BUTTONS["deny"], value)]
        # A form of Slack changes texts and numbers.
        if arguments and all(type(each) in (str, int, float) for each in arguments.values()):
            buttons.append(_button("edit", "Change…", value))
        made["blocks"].insert(-1, {"type": "actions", "elements": buttons})
    return made


def _button(action: str, label: str, value: str) -> dict[str, Any]:
    text = {"type": "plain_text", "text": label, "emoji": False}
    return {"type": "button", "action_id": action, "text": text, "value": value}
