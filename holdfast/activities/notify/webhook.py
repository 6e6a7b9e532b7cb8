"""Notifications of a program: JSON over HTTP, signed as Standard Webhooks specifies.

The signature proves to the holder of the secret who sent a message; its id and time protect against
a replay.
"""

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from holdfast.activities.notify.message_text import MessageText, Notifier, message_text
from holdfast.runtime.decision_links import DecisionLinks
from holdfast.runtime.http_post import EnvironmentValue, post
from holdfast.runtime.text_safety import defuse_links
from holdfast.schemas.settings.notify import LinkPerson, News

LEAST_SECRET_BYTES, MOST_SECRET_BYTES = 24, 64
MAX_SECRETS = 4
MAX_SHOWN_ABSENCES = 20
_PREFIX = "whsec_"


class BadSecret(ValueError):
    """An invalid signing secret; the message has the fix, and not the secret."""


def signing_secrets(text: str) -> list[bytes]:
    """Return the secrets in a variable, the newest first.

    Raises:
        BadSecret: one of them is invalid.
    """
    found = []
    for each in text.split():
        if not each.startswith(_PREFIX):
            raise BadSecret(f"it begins with `{_PREFIX}`, and continues in base64")
        try:
            secret = base64.b64decode(each.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            raise BadSecret(f"what follows `{_PREFIX}` is no base64") from None
        if not LEAST_SECRET_BYTES <= len(secret) <= MOST_SECRET_BYTES:
            bounds = f"{LEAST_SECRET_BYTES} to {MOST_SECRET_BYTES} random bytes"
            raise BadSecret(f"it holds {len(secret)} bytes; make one of {bounds}")
        found.append(secret)
    if not 1 <= len(found) <= MAX_SECRETS:
        raise BadSecret(f"write one `{_PREFIX}…`, or up to {MAX_SECRETS} with spaces between")
    return found


def signature(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature, which a receiver checks with one of the secrets."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def teams_message(text: MessageText) -> dict[str, Any]:
    """Return a message of Teams: an Adaptive Card, whose button opens the link."""
    facts = [
        {"title": defuse_links(name), "value": defuse_links(value)} for name, value in text.lines
    ]
    title = {"type": "TextBlock", "text": defuse_links(text.title), "wrap": True}
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [title, {"type": "FactSet", "facts": facts}],
        "actions": [{"type": "Action.OpenUrl", "title": text.action, "url": text.link}],
    }
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "content": card}]}


@dataclass(frozen=True)
class WebhookNotifier(Notifier):
    """A channel of a program at an address."""

    url: str | EnvironmentValue
    secret: EnvironmentValue | None
    http: httpx.AsyncClient
    format: Literal["json", "teams"] = "json"
    links: DecisionLinks | None = None
    person: LinkPerson | None = None
    clock: Callable[[], float] = time.time

    async def notify(self, news: News, _: Sequence[str] = ()) -> None:
        """Send the notification, as `Notifier` requires."""
        if self.links is not None and self.person is not None:
            news = self.links.personal(news, self.person.by, self.person.groups)
        news = news.model_copy(update={"absences": news.absences[:MAX_SHOWN_ABSENCES]})
        payload = {"type": f"approval.{news.kind}", "timestamp": news.at, "data": news.to_json()}
        if self.format == "teams":
            payload = teams_message(message_text(news))
        body = json.dumps(payload, separators=(",", ":")).encode()
        now, headers = int(self.clock()), {}
        if self.secret is not None:
            secrets = signing_secrets(self.secret.value())
            headers = {
                "webhook-id": news.id,
                "webhook-timestamp": str(now),
                "webhook-signature": signature(secrets, news.id, now, body),
            }
        url = self.url.value() if isinstance(self.url, EnvironmentValue) else self.url
        await post(self.http, url, body, headers)
