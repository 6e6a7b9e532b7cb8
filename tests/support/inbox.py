"""An inbox on this machine, with a signed-in user: as a browser, and as a program.

It is the whole inbox behind its gate, on a real port, over a real client of Temporal.
"""

import asyncio
import json as jsonlib
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.types import ASGIApp
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.signing import Signer
from holdfast.client.stream.live_answers import LiveAnswers
from holdfast.client.stream.run_watch import RunWatches
from holdfast.runtime.identity.key_sets import LiveKeySet
from holdfast.runtime.text_sealer import TextSealer
from holdfast.web.app import application
from holdfast.web.auth.auth_middleware import (
    AuthMiddleware,
    RequestAccess,
    SignInMethod,
)
from holdfast.web.auth.permissions import Permissions
from holdfast.web.auth.sessions import BearerTokens
from holdfast.web.auth.sign_in import LinkSignIn
from holdfast.web.http.origins import own_origins, path_of
from holdfast.web.http.path_prefix import under_path
from holdfast.web.http.serving import open_listener, server
from holdfast.web.monitoring import InboxHealth
from holdfast.web.services import Services

HOST = "127.0.0.1"
PAGE = {"accept": "text/html"}
EVERYTHING = Permissions()


@dataclass
class Stage:
    """An inbox at work, and a browser's requests to it: with its cookies, and its `Origin`."""

    address: str
    http: httpx.AsyncClient
    access: RequestAccess
    form_token: str = ""
    link: str = ""

    @property
    def cookie(self) -> str:
        """The name under which the browser keeps its session."""
        return f"holdfast_{httpx.URL(self.address).port}_session"

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """Open a page."""
        return await self.http.get(path, headers=PAGE | _dashed(headers))

    async def post(self, path: str, fields: Any = None, **headers: str) -> httpx.Response:
        """Send a form as the page that holds it does."""
        data = {"form_token": self.form_token, **(fields or {})}
        return await self.http.post(path, data=data, headers=PAGE | _dashed(headers))

    async def send(self, path: str, json: Any = None, **headers: str) -> httpx.Response:
        """Send JSON as a script of a page does."""
        sent = {"x-form-token": self.form_token, **_dashed(headers)}
        return await self.http.post(path, json=json, headers=sent)

    def cookies(self) -> list[Any]:
        """What a browser is to be given (`context.add_cookies`) to be signed in."""
        return [
            {"name": each.name, "value": each.value or "", "url": self.address}
            for each in self.http.cookies.jar
        ]


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@asynccontextmanager
async def inbox(
    client: Client,
    *,
    by: str = "ann",
    groups: Sequence[str] = (),
    signer: Signer | None = None,
    temporal_ui: str | None = None,
    tokens: Sequence[LiveKeySet] = (),
    permissions: Permissions = EVERYTHING,
) -> AsyncIterator[Stage]:
    """An inbox with a user who signed in by the printed link."""
    seal = TextSealer()
    link = LinkSignIn(seal, by, tuple(groups))
    parts = Services(HoldfastClient(client), signer, temporal_ui, permissions=permissions)
    async with opened(parts, link, BearerTokens(seal, tokens)) as stage:
        answer = await stage.http.get(link.address(stage.address))
        assert answer.status_code == 303, answer.text
        stage.form_token = seal.mark("form", f"link {by}")
        yield stage


@asynccontextmanager
async def opened(
    parts: Services,
    way: SignInMethod,
    bearer: BearerTokens,
    *,
    url: str | None = None,
    app: ASGIApp | None = None,
    port: int = 0,
) -> AsyncIterator[Stage]:
    """An inbox without a signed-in user; `app` replaces its pages."""
    with open_listener(HOST, port) as listening:
        port = listening.getsockname()[1]
        own, access = own_origins(HOST, port, url), RequestAccess(way, bearer)
        health = InboxHealth(parts.client.temporal)
        guarded = AuthMiddleware(app or application(parts), access, own, health)
        serving = server(under_path(guarded, path_of(url)))
        task = asyncio.create_task(serving.serve([listening]))
        address = f"http://{HOST}:{port}"
        try:
            async with httpx.AsyncClient(
                base_url=address, headers={"origin": address}, timeout=120, verify=False
            ) as http:
                yield Stage(address, http, access)
        finally:
            access.stopping.set()
            serving.should_exit = True
            await task


# Server-sent events as a client reads them, and what those of a run add up to.


@dataclass(frozen=True)
class Sent:
    """One frame; `comment` is one that is none, and is for people."""

    id: str = ""
    event: str = ""
    data: Any = None
    comment: str = ""
    retry: str = ""


async def sent(response: httpx.Response) -> AsyncIterator[Sent]:
    """The frames of a response, as they come."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield _frame(fields)
            fields = {}


def _frame(fields: dict[str, str]) -> Sent:
    assert fields.keys() <= {"id", "event", "data", "", "retry"}, fields
    data = jsonlib.loads(fields["data"]) if "data" in fields else None
    if data is not None:
        assert data["type"] == fields["event"]
    return Sent(
        fields.get("id", ""),
        fields.get("event", ""),
        data,
        fields.get("", ""),
        fields.get("retry", ""),
    )


def events(frames: Iterable[Sent]) -> list[dict[str, Any]]:
    """The events of a run, without what is between them, and without their times."""
    return timeless(one.data for one in frames if one.data is not None and "n" in one.data)


def timeless(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events without their times: a viewer sees one in the middle of its workflow task,
    and where that is done over, the event comes a few milliseconds later."""
    return [{name: value for name, value in one.items() if name != "at"} for one in events]


def answers(frames: Iterable[Sent]) -> dict[int, str]:
    """What the model wrote in each turn: the tokens of the last attempt, joined without a gap."""
    found: dict[int, tuple[int, str]] = {}
    for one in frames:
        if one.event == "token":
            data = one.data
            attempt, text = found.get(data["turn"], (0, ""))
            assert data["attempt"] >= attempt, "an attempt that was over goes on"
            text = text if data["attempt"] == attempt else ""
            assert data["offset"] == len(text), "a gap or a repeat"
            found[data["turn"]] = (data["attempt"], text + data["text"])
    return {turn: text for turn, (_, text) in found.items()}


def watches() -> RunWatches:
    """Return watches of runs to which no worker sends its answers."""
    return RunWatches(LiveAnswers(pydantic_data_converter))
