"""Slack: the methods of its Web API, and its markup.

The markup uses `&`, `<` and `>`: in text of others they are escaped. Plain addresses and mentions
are broken, for chats that link them.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import httpx

from holdfast.runtime.http_post import EnvironmentValue, notification_error, post
from holdfast.runtime.text_safety import defuse_links, one_line

# Slack's limit of a text in a block is 3,000 characters.
MAX_TEXT_CHARACTERS = 2_900
# The last line of a text with lines left out.
CUT = "\n…"
_ERROR_CHARACTERS = 100
# Errors of Slack that may pass.
_PASSING = ("fatal_error", "internal_error", "ratelimited", "service_unavailable")
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# Code hides the rest, bold looks like the name of an argument, and struck out like no value.
_UNFORMATTED = _ESCAPED | str.maketrans("`*~", "ʼ∗∼")


def escaped(text: str) -> str:
    """Return the text escaped for a message, without any markup."""
    return defuse_links(text).translate(_UNFORMATTED)


def escape_link(address: str) -> str:
    """Return an address escaped for the markup of a link."""
    return address.translate(_ESCAPED)


def fitting_lines(lines: Iterable[tuple[str, str]]) -> str:
    """Return names and values as the text of a block, which ends with `CUT` if some do not fit."""
    # As many whole lines as fit: a part of one may end within an escape.
    fitting, room = list[str](), MAX_TEXT_CHARACTERS
    for name, value in lines:
        line = f"*{escaped(name)}:* {escaped(value)}"
        room -= len(line) + 1
        if room < 0:
            fitting.append(CUT.strip())
            break
        fitting.append(line)
    return "\n".join(fitting)


def block(text: str) -> dict[str, Any]:
    """Return a block of text; Slack links no addresses in it."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


@dataclass(frozen=True)
class SlackApi:
    """The methods of Slack's Web API, with the bot token of an app."""

    address: str
    token: EnvironmentValue
    http: httpx.AsyncClient

    async def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method, and return the answer.

        Raises:
            ApplicationError: it did not arrive, or Slack refuses it.
        """
        headers = {"authorization": f"Bearer {self.token.value()}"}
        body, url = json.dumps(arguments).encode(), f"{self.address}/{method}"
        read = await post(self.http, url, body, headers, reads_answer=True)
        try:
            answer = dict(json.loads(read))
        except (ValueError, TypeError, RecursionError):
            answer = {"error": "the answer is no JSON object"}
        if answer.get("ok") is not True:
            error = one_line(str(answer.get("error")), _ERROR_CHARACTERS)
            raise notification_error(f"Slack refused {method}: {error}", retried=error in _PASSING)
        return answer
