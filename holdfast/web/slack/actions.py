"""Decide in Slack: `POST /slack/actions`, the interactivity address of a Slack app.

    request ─► signature, age, single use ─► 200 ─► person ─► dialog, or decision ─► run

Slack waits three seconds, so a request is answered before it is handled. `slack.users` of the
settings names the person and their groups; a decision applies to what the message showed. The
worker updates the message once the run has decided; only the person who clicked sees why a decision
was rejected.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final
from urllib.parse import urljoin

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from temporalio.exceptions import ApplicationError

from holdfast.runtime.http_post import EnvironmentValue, post
from holdfast.runtime.slack import SlackApi, escaped
from holdfast.schemas.settings.inbox import SlackSettings
from holdfast.web.auth.auth_middleware import SLACK_ACTIONS
from holdfast.web.auth.sessions import Person
from holdfast.web.http.problems import RefusedRequest, forbidden
from holdfast.web.http.request_body import URLENCODED, read_body
from holdfast.web.listing.bulk import decide_shown
from holdfast.web.services import Services
from holdfast.web.slack.clicks import Click, RequestVerifier
from holdfast.web.slack.dialogs import decision_of, dialog

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
        decides = click.values is not None or click.action == "approve"
        fields = partial(decision_of, click) if decides else None
        outcome = await decide_shown(self._parts, person, click.call, fields, click.id)
        if not outcome.text and outcome.approval is not None:
            view = dialog(click, outcome.approval)
            await self._api.call("views.open", trigger_id=click.trigger, view=view)
        return outcome.text
