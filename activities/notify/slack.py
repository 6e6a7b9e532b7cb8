"""Telling people in Slack, or where the same messages are taken: an incoming webhook.

Slack reads `&`, `<` and `>` as its own: of what others wrote they are escaped. Addresses and
mentions that are no markup are parted, for those who find them by their looks.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from holdfast.activities.notify.base import EnvironmentValue
from holdfast.activities.notify.http_post import post
from holdfast.activities.notify.message_text import MessageText, defuse_links, message_text
from holdfast.schemas.settings.notify import News

# Of Slack: a text in a block has at most three thousand characters.
MAX_TEXT_CHARACTERS = 2_900
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def escaped(text: str) -> str:
    """The text as it stands in a message: it makes nothing but text."""
    # Marks of Slack's own formatting are let be, but code would hide what follows.
    return defuse_links(text).replace("`", "ʼ").translate(_ESCAPED)


def message(words: MessageText) -> dict[str, Any]:
    """The message: blocks for Slack, and a text for whoever knows none."""
    title = escaped(words.title)
    lines = _fitting([f"*{escaped(name)}:* {escaped(value)}" for name, value in words.lines])
    link = f"<{words.link.translate(_ESCAPED)}|{words.action}>"
    return {
        "text": f"{title}\n{lines}\n{link}",
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [_block(f"*{title}*"), _block(lines), _block(link)],
    }


@dataclass(frozen=True)
class SlackNotifier:
    """A channel that an incoming webhook writes to."""

    url: EnvironmentValue
    http: httpx.AsyncClient

    @property
    def environment_values(self) -> Iterator[EnvironmentValue]:
        """What it needs of the environment."""
        yield self.url

    async def notify(self, news: News) -> None:
        """Write the news there.

        Raises:
            ApplicationError: it did not arrive, or was not taken.
        """
        body = json.dumps(message(message_text(news))).encode()
        await post(self.http, self.url.value(), body, {})


def _block(text: str) -> dict[str, Any]:
    # Verbatim: what looks like an address is not made one.
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _fitting(lines: list[str]) -> str:
    """As many whole lines as have room: a piece of one may end within an escape."""
    kept: list[str] = []
    room = MAX_TEXT_CHARACTERS
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            kept.append("…")
            break
        kept.append(line)
    return "\n".join(kept)
