"""Decide in Slack: `POST /slack/actions`, the interactivity address of a Slack app.

    request ─► signature, age, single use ─► 200 ─► person ─► dialog, or decision ─► run

Slack signs each request with the app's secret (version v0: HMAC-SHA256 of the time and the raw
body). A request is taken for five minutes, and once: this process remembers the signatures, and a
run takes the id of a request, which is made from its signature, once. Slack waits three seconds, so
a request is answered before it is handled. `slack.users` of the settings names the person and their
groups; a decision applies to what the message showed. The worker updates the message once the run
has decided; only the person who clicked sees why a decision was rejected.
"""

import asyncio
import hmac
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import time
from typing import Any, Final
from urllib.parse import parse_qs, urljoin

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from temporalio.exceptions import ApplicationError

from holdfast.client.errors import HoldfastError
from holdfast.runtime.http_post import EnvironmentValue, post
from holdfast.runtime.narration.arguments import argument_rows, labels_of
from holdfast.runtime.narration.phrases import BUTTONS
from holdfast.runtime.narration.schema_shapes import ShapeReader, describe_limits
from holdfast.runtime.slack import SlackApi, block, escaped, fitting_lines
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.base import canonical_json
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.schemas.settings.inbox import SlackSettings
from holdfast.schemas.settings.notify import VALUE_CHARACTERS
from holdfast.web.auth.auth_middleware import SLACK_ACTIONS
from holdfast.web.auth.sessions import Person
from holdfast.web.call.loader import OpenApproval, load_visible_call
from holdfast.web.http.problems import RefusedRequest, forbidden, unauthorized
from holdfast.web.http.requests import URLENCODED, read_body
from holdfast.web.listing.bulk import CHANGED, NOT_PENDING, decide_shown, not_decided
from holdfast.web.pages import reader_texts
from holdfast.web.services import Services

MAX_AGE_SECONDS: Final = 300
MAX_SEEN: Final = 10_000
_ID_CHARS: Final = 40
# Slack's limit of a label and of a hint.
_TEXT_CHARS: Final = 2_000
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


REASON: Final = "reason"
_ARGUMENT: Final = "argument "
# Not that of an argument.
_REASON: Final = "Reason for your decision"


def dialog(click: Click, pending: OpenApproval) -> dict[str, Any]:
    """Return the view that asks for a reason, and for an edit for the arguments."""
    arguments, parameters = pending.approval.arguments, pending.tool and pending.tool.parameters
    verb, edited = BUTTONS[click.action], arguments if click.action == "edit" else {}
    shapes, inputs = ShapeReader(parameters), list[dict[str, Any]]()
    whole = shapes.read(parameters)
    read = {name: shapes.read(whole.property_schema(name)) for name in edited}
    labels = labels_of(whole, edited)
    for name, shape in read.items():
        hint = ", ".join(describe_limits(shape))
        inputs.append(_input(_ARGUMENT + name, labels[name], edited[name], hint))
    rows = argument_rows(arguments, parameters, VALUE_CHARACTERS)
    # As in the message: a model may give one the name of a line of ours.
    lines = [(f"With {name}", one_line(text, VALUE_CHARACTERS)) for name, text in rows]
    # A dialog can show none: the page of the call does.
    files = ", ".join(one.text for one in pending.history.files)
    lines += [("Files in the inbox", files)] * bool(files)
    shown = [f"*{escaped(pending.view.name)}*", *filter(None, [fitting_lines(lines)])]
    return {
        "type": "modal",
        "callback_id": click.action,
        "private_metadata": click.metadata,
        "title": _plain(verb),
        "submit": _plain(BUTTONS["approve"] if edited else verb),
        "close": _plain("Cancel"),
        "blocks": [*map(block, shown), *inputs, _input(REASON, _REASON, "", "", multiline=True)],
    }


def decision_of(click: Click, approval: PendingApproval) -> dict[str, Any]:
    """Return the decision of a click or a dialog; without a change, an edit is an approval."""
    values = click.values or {}
    fields = {"reason": values[REASON]} if values.get(REASON) else {}
    if click.action != "edit":
        return {"decision": click.action, **fields}
    arguments = {
        name: _read(old, values.get(_ARGUMENT + name, str(old)) or "")
        for name, old in approval.arguments.items()
    }
    if canonical_json(arguments) == canonical_json(approval.arguments):
        return {"decision": "approve", **fields}
    return {"decision": "edit", "arguments": arguments, **fields}


def _read(old: Any, text: str) -> Any:
    if isinstance(old, str):
        return text
    try:
        number = json.loads(text)
    except (ValueError, RecursionError):
        return text  # the run rejects it, and reports why
    return old if number == old and isinstance(number, bool) is isinstance(old, bool) else number


def _input(
    id: str, label: str, value: Any, hint: str, *, multiline: bool = False
) -> dict[str, Any]:
    element = {"type": "plain_text_input", "action_id": "value", "multiline": multiline}
    element |= {"initial_value": str(value)} if value != "" else {}
    made = {"type": "input", "block_id": id, "label": _plain(label), "element": element}
    return made | {"optional": value == ""} | ({"hint": _plain(hint)} if hint else {})


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text[:_TEXT_CHARS], "emoji": False}


MAX_BODY_BYTES: Final = 200_000
MAX_CLICKS: Final = 100
_HOOKS: Final = "https://hooks.slack.com/"
_UNKNOWN: Final = (
    "Not decided: your Slack user is not known to the inbox. Ask its operator to add {user} with"
    " your name and groups to slack.users in its settings."
)
_FAILED: Final = "The inbox failed to process this. Open the link in the message to see the call."

logger = logging.getLogger("holdfast")


class SlackActions:
    """The buttons and dialogs of one app."""

    def __init__(
        self,
        parts: Services,
        settings: SlackSettings,
        environ: Mapping[str, str],
        http: httpx.AsyncClient,
    ) -> None:
        self._parts, self._settings, self._http = parts, settings, http
        self._verifier = RequestVerifier(EnvironmentValue(settings.signing_secret_env, environ))
        self._api = SlackApi(settings.api, EnvironmentValue(settings.token_env, environ), http)
        self._handling: set[asyncio.Task[None]] = set()
        self.routes = [Route(SLACK_ACTIONS, self.receive, methods=["POST"])]

    async def receive(self, request: Request) -> Response:
        """Acknowledge a request, and handle it after."""
        body = await read_body(request, (URLENCODED,), MAX_BODY_BYTES)
        click = Click.read(self._verifier.verify(request.headers, body), body)
        if click.teams != {self._settings.team} or click.app != self._settings.app:
            raise forbidden("this is of another workspace or app than `slack` in the settings")
        if not click.reply_url.startswith((_HOOKS, urljoin(self._settings.api, "/"))):
            raise forbidden("this contains an address that is not Slack's")
        if len(self._handling) >= MAX_CLICKS:
            raise RefusedRequest(503, "too many requests at a time; try again")
        task = asyncio.create_task(self._handle(click))
        self._handling.add(task)
        task.add_done_callback(self._handling.discard)
        return Response()

    async def _handle(self, click: Click) -> None:
        try:
            text = await self._decide(click)
        except ApplicationError as error:
            text = f"Not decided: {error.message}"
        except Exception:
            logger.exception("a click in Slack failed")
            text = _FAILED
        reply = {"response_type": "ephemeral", "replace_original": False, "text": escaped(text)}
        if text:
            with suppress(ApplicationError):
                await post(self._http, click.reply_url, json.dumps(reply).encode(), {})

    async def _decide(self, click: Click) -> str:
        """Open a dialog, or decide; return the reply to the person, if any."""
        known = self._settings.users.get(click.user)
        if known is None:
            return _UNKNOWN.format(user=click.user)
        person = Person(known.name, tuple(known.groups), "message")
        if click.values is not None or click.action == "approve":
            fields, call = partial(decision_of, click), click.call
            return (await decide_shown(self._parts, person, call, fields, click.id)).text
        return await self._open_dialog(person, click)

    async def _open_dialog(self, person: Person, click: Click) -> str:
        run = click.call.run
        try:  # Slack takes a dialog for three seconds: the call is loaded once
            access = await self._parts.require(person, "decide", run)
            found = await load_visible_call(self._parts, access, run, click.call.call)
        except HoldfastError as error:
            return not_decided(reader_texts(error)[0])
        if not isinstance(found, OpenApproval):
            self._parts.pending.recheck(run)
            return NOT_PENDING
        if SelectedCall.of(run, found.approval) != click.call:
            return CHANGED
        await self._api.call("views.open", trigger_id=click.trigger, view=dialog(click, found))
        return ""
