"""Requests of Slack: their signature, and what a person clicked or sent.

Slack signs each request with the app's secret (version v0: HMAC-SHA256 of the time and the raw
body). A request is taken for five minutes, and once: this process remembers the signatures, and a
run takes the id of a request, which is made from its signature, once.
"""

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from time import time
from typing import Final
from urllib.parse import parse_qs

from holdfast.runtime.http_post import EnvironmentValue
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.web.http.problems import RefusedRequest, unauthorized

MAX_AGE_SECONDS: Final = 300
MAX_SEEN: Final = 10_000
_ID_CHARS: Final = 40
ACTIONS: Final = ("approve", "deny", "edit")


class RequestVerifier:
    """Verifies the requests of one app."""

    def __init__(self, secret: EnvironmentValue) -> None:
        self._secret = secret
        self._seen: dict[str, None] = {}

    def verify(self, headers: Mapping[str, str], body: bytes) -> str:
        """Return the id of a request.

        Raises:
            RefusedRequest: it is not signed, too old, or came before.
        """
        sent_at, shown = (
            headers.get(f"x-slack-{each}", "") for each in ("request-timestamp", "signature")
        )
        signed = f"v0:{sent_at}:".encode() + body
        expected = f"v0={hmac.digest(self._secret.value().encode(), signed, 'sha256').hex()}"
        if not hmac.compare_digest(expected.encode(), shown.encode()):
            raise unauthorized("this is not signed with the secret of the Slack app")
        if not sent_at.isdecimal() or abs(time() - int(sent_at)) > MAX_AGE_SECONDS:
            raise unauthorized("this is too old, or the clock of the inbox is wrong")
        if expected in self._seen:
            raise unauthorized("this request was received before")
        self._seen[expected] = None
        if len(self._seen) > MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        return f"slack-{expected[-_ID_CHARS:]}"


@dataclass(frozen=True)
class Click:
    """A button that a person clicked (`trigger` opens a dialog), or a dialog with its `values`."""

    id: str
    user: str
    teams: frozenset[str]
    app: str
    action: str
    call: SelectedCall
    reply_url: str
    trigger: str
    values: Mapping[str, str | None] | None

    @classmethod
    def read(cls, id: str, body: bytes) -> "Click":
        """Read a verified request.

        Raises:
            RefusedRequest: it is not about a button or a dialog of ours.
        """
        try:
            sent, values = json.loads(parse_qs(body.decode())["payload"][0]), None
            if sent["type"] == "view_submission":
                view = sent["view"]
                action, call, reply_url = json.loads(view["private_metadata"])
                fields = view["state"]["values"].items()
                values = {name: field["value"]["value"] for name, field in fields}
            else:
                [button], reply_url = sent["actions"], sent["response_url"]
                action, call = button["action_id"], button["value"]
            user, team = sent["user"], sent["team"]["id"]
            selected = SelectedCall.parse(call) if action in ACTIONS else None
            teams = frozenset((team, user.get("team_id", team)))
            who = user["id"], teams, sent["api_app_id"]
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            selected = None
        if selected is None:
            raise RefusedRequest(
                400, "this is for another button or dialog than those of this inbox"
            )
        return cls(id, *who, action, selected, reply_url, sent.get("trigger_id", ""), values)

    @property
    def metadata(self) -> str:
        """Return what a dialog keeps of the button that opened it."""
        return json.dumps([self.action, str(self.call), self.reply_url])
