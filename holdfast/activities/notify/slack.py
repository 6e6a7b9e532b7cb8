"""Notifications in Slack, or in any chat with compatible incoming webhooks.

Slack's markup uses `&`, `<` and `>`: in text of others they are escaped. Plain addresses and
mentions are broken, for chats that link them.
"""

import json
from dataclasses import dataclass
from typing import Any

import httpx

from holdfast.activities.notify.base import EnvironmentValue, Notifier, post
from holdfast.activities.notify.message_text import MessageText, defuse_links, message_text
from holdfast.schemas.settings.notify import News

# Slack's limit of a text in a block is 3,000 characters.
MAX_TEXT_CHARACTERS = 2_900
# The last line of a text with lines left out.
CUT = "\n…"
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# Code hides the rest, bold looks like the name of an argument, and struck out like no value.
_UNFORMATTED = _ESCAPED | str.maketrans("`*~", "ʼ∗∼")


def escaped(text: str) -> str:
    """Return the text escaped for a message, without any markup."""
    return defuse_links(text).translate(_UNFORMATTED)


def message(text: MessageText) -> dict[str, Any]:
    """Return the message: blocks for Slack, and a text for other chats."""
    title = escaped(text.title)
    # As many whole lines as fit: a part of one may end within an escape.
    fitting: list[str] = []
    room = MAX_TEXT_CHARACTERS
    for name, value in text.lines:
        line = f"*{escaped(name)}:* {escaped(value)}"
        room -= len(line) + 1
        if room < 0:
            fitting.append(CUT.strip())
            break
        fitting.append(line)
    lines = "\n".join(fitting)
    link = f"<{text.link.translate(_ESCAPED)}|{text.action}>"
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

    async def notify(self, news: News) -> None:
        """Send the notification, as `Notifier` requires."""
        body = json.dumps(message(message_text(news))).encode()
        await post(self.http, self.url.value(), body, {})


def block(text: str) -> dict[str, Any]:
    """Return a block of text; Slack links no addresses in it."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
