"""Deciding in Slack (§7): who may, on what was shown, and each request once."""

import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from slack_sdk.models.views import View
from temporalio.client import Client

from holdfast.client.errors import HoldfastError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.runtime.http_post import EnvironmentValue
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.settings.inbox import SlackSettings
from holdfast.web import slack as slack_actions
from holdfast.web.app import application
from holdfast.web.auth.sessions import BearerTokens
from holdfast.web.auth.sign_in import LinkSignIn
from holdfast.web.call.history import CallHistory
from holdfast.web.http.problems import RefusedRequest
from holdfast.web.listing.bulk import CHANGED, NOT_PENDING
from holdfast.web.message_files import PageFile
from holdfast.web.services import Services
from holdfast.web.slack import RequestVerifier, SlackActions
from tests.support.backend import Launch, Run
from tests.support.eventually import eventually
from tests.support.inbox import Stage, opened
from tests.support.model_server import Answer, call
from tests.support.news_receivers import WAITING, Listening, ReceivedRequest, listening, posts
from tests.web.call.test_page import question

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
ENVIRON = {"SIGNING": SECRET, "TOKEN": "xoxb-1"}
TEAM, APP = "T0001", "A0001"
PAYS = [Answer(calls=[call("pay", amount=5)]), Answer("done")]
Form = dict[str, Any]


# Signatures.


def headers(
    body: str, at: float | None = None, secret: str = SECRET, after: float = 0
) -> dict[str, str]:
    """The headers with which Slack signs a request."""
    sent_at = str(int(time.time() + after if at is None else at))
    made = hmac.new(secret.encode(), f"v0:{sent_at}:{body}".encode(), "sha256").hexdigest()
    return {
        "content-type": "application/x-www-form-urlencoded",
        "x-slack-request-timestamp": sent_at,
        "x-slack-signature": f"v0={made}",
    }


def test_a_signature_is_that_of_slacks_own_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """https://docs.slack.dev/authentication/verifying-requests-from-slack"""
    monkeypatch.setattr(slack_actions, "time", lambda: 1531420618.0)
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
        b"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
        b"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands"
        b"%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015"
        b".47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    shown = {
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    verifier = RequestVerifier(EnvironmentValue("SIGNING", ENVIRON))
    with pytest.raises(RefusedRequest, match="not signed"):
        verifier.verify(shown, body + b"&")
    assert verifier.verify(shown, body).startswith("slack-")
    with pytest.raises(RefusedRequest, match="was received before"):
        verifier.verify(shown, body)
    monkeypatch.setattr(slack_actions, "time", lambda: 1531420618.0 + 301)
    with pytest.raises(RefusedRequest, match="too old"):
        RequestVerifier(EnvironmentValue("SIGNING", ENVIRON)).verify(shown, body)


# An inbox, and Slack.


@pytest.fixture
async def slack() -> AsyncIterator[Listening]:
    async with listening() as found:
        found.answer = posts
        yield found


@asynccontextmanager
async def inbox(client: Client, slack: Listening) -> AsyncIterator[Stage]:
    """An inbox that takes decisions from Slack."""
    settings = SlackSettings.model_validate(
        {
            "signingSecretEnv": "SIGNING",
            "tokenEnv": "TOKEN",
            "team": TEAM,
            "app": APP,
            "users": {"U1": {"name": "grace", "groups": ["finance"]}, "U2": {"name": "eve"}},
            "api": slack.url,
        }
    )
    parts, seal = Services(HoldfastClient(client)), TextSealer()
    async with httpx.AsyncClient(verify=False) as http:
        app = application(parts, *SlackActions(parts, settings, ENVIRON, http).routes)
        way = LinkSignIn(seal, "ann")
        async with opened(parts, way, BearerTokens(seal, ()), app=app) as stage:
            yield stage


def clicked(slack: Listening, button: Form, by: str = "U1", **more: Any) -> str:
    """The body of the request with which Slack reports a click."""
    payload = {
        "type": "block_actions",
        "user": {"id": by, "team_id": TEAM},
        "team": {"id": TEAM},
        "api_app_id": APP,
        "trigger_id": "12345.98765.abcd",
        "response_url": slack.url.replace("/hook", "/reply"),
        "actions": [button],
        **more,
    }
    return urlencode({"payload": json.dumps(payload)})


def submitted(slack: Listening, view: Form, values: dict[str, str | None]) -> str:
    """The body of the request with which Slack sends a dialog."""
    state = {name: {"value": {"type": "x", "value": value}} for name, value in values.items()}
    shown = {**view, "id": "V1", "state": {"values": state}}
    return clicked(slack, {}, type="view_submission", view=shown, actions=[])


async def send(stage: Stage, body: str, **signed: Any) -> int:
    """Send a request as Slack does; the status."""
    signed_as = headers(body, **signed)
    async with httpx.AsyncClient(verify=False) as http:
        url = f"{stage.address}/slack/actions"
        found = await http.post(url, content=body, headers=signed_as)
    return found.status_code


async def received(slack: Listening, path: str, number: int = 1) -> ReceivedRequest:
    """The newest request for a path, once there are so many."""

    async def enough() -> ReceivedRequest | None:
        found = [each for each in slack.heard if each.path.endswith(path)]
        return found[-1] if len(found) >= number else None

    return await eventually(enough)


async def button(slack: Listening, action: str) -> Form:
    """A button of the message about a call, once it is posted."""
    message = (await received(slack, "chat.postMessage")).json
    [row] = [block for block in message["blocks"] if block["type"] == "actions"]
    found: Form = next(one for one in row["elements"] if one["action_id"] == action)
    return found


async def view(slack: Listening) -> Form:
    """The dialog that was opened, which is one of Slack's."""
    opened = (await received(slack, "views.open")).json
    assert opened["trigger_id"] == "12345.98765.abcd"
    made: Form = opened["view"]
    View(**made).validate_json()
    return made


BUTTON = {"action_id": "approve", "value": "run/t1c1/" + "d" * 64 + "/" + "n" * 64}


FOREIGN: list[tuple[Form, dict[str, Any], int]] = [
    ({}, {"secret": "another"}, 401),
    ({}, {"after": -301}, 401),
    ({}, {"after": 400}, 401),
    ({"team": {"id": "T0002"}}, {}, 403),
    ({"user": {"id": "U1", "team_id": "T0002"}}, {}, 403),
    ({"api_app_id": "A0002"}, {}, 403),
    ({"response_url": "https://evil.example/"}, {}, 403),
    ({"response_url": "https://hooks.slack.com.evil.example/"}, {}, 403),
    ({"actions": [{**BUTTON, "action_id": "edit_all"}]}, {}, 400),
    ({"actions": [{**BUTTON, "value": "run"}]}, {}, 400),
    ({"actions": []}, {}, 400),
    ({"team": None}, {}, 400),
]


async def test_a_foreign_request_is_refused_and_a_stranger_sees_what_to_ask_for(
    nowhere: Client, slack: Listening
) -> None:
    async with inbox(nowhere, slack) as stage:
        for sent, signed, status in FOREIGN:
            found = await send(stage, clicked(slack, BUTTON, **sent), **signed)
            assert found == status, (sent, signed)
        assert not slack.heard
        assert await send(stage, clicked(slack, BUTTON, "U9")) == 200
        reply = (await received(slack, "/reply")).json
        assert (reply["response_type"], "U9" in reply["text"]) == ("ephemeral", True)


@pytest.mark.parametrize("depth", [2_000, 20_000])
async def test_a_signed_request_that_is_too_deep_is_refused(
    nowhere: Client, slack: Listening, depth: int
) -> None:
    deep = "[" * depth + "]" * depth
    view = {"private_metadata": deep, "state": {"values": {}}}
    dialog = json.dumps({"type": "view_submission", "view": view})
    async with inbox(nowhere, slack) as stage:
        for payload in (deep, dialog):
            assert await send(stage, urlencode({"payload": payload})) == 400
    approval = WAITING.model_copy(update={"arguments": {"amount": 5}})
    edited: Any = SimpleNamespace(action="edit", values={"argument amount": deep})
    assert slack_actions.decision_of(edited, approval)["arguments"] == {"amount": deep}


@pytest.mark.parametrize(("old", "typed"), [(1, "true"), (True, "1")])
def test_an_edit_may_change_the_type_of_a_value_alone(old: Any, typed: str) -> None:
    approval = WAITING.model_copy(update={"arguments": {"urgent": old}})
    edited: Any = SimpleNamespace(action="edit", values={"argument urgent": typed})
    assert slack_actions.decision_of(edited, approval)["decision"] == "edit"


def test_a_dialog_shows_arguments_as_the_page_does_and_the_names_of_files() -> None:
    money = {"format": "money", "currency": "EUR", "minorUnits": True}
    rows = {"type": "array", "items": {"properties": {"price": money}}}
    properties = {"amount": {"type": "integer", **money}, "lines": rows, "order_id": {}}
    tool = {"parameters": {"properties": properties}}
    arguments = {"amount": 24900, "lines": [{"price": 100}, {"price": 250}], "order_id": "A-7"}
    files = CallHistory(files=[PageFile("/run/r/file/1/0", "bill.pdf", is_picture=False)])
    one = question(past=files, tool=tool, arguments=arguments)
    click: Any = SimpleNamespace(action="edit", metadata="{}")
    shown = slack_actions.dialog(click, one)
    View(**shown).validate_json()
    blocks = shown["blocks"]
    # Without what keeps chats from making links.
    assert blocks[1]["text"]["text"].replace("\u2060", "").splitlines() == [
        "*With Amount:* €249.00",
        "*With Lines 1:* €1.00",
        "*With Lines 2:* €2.50",
        "*With Order id:* A-7",
        "*Files in the inbox:* bill.pdf",
    ]
    amount = next(one for one in blocks if one.get("block_id") == "argument amount")
    assert amount["label"]["text"] == "Amount"
    assert amount["hint"]["text"] == "a whole number, in minor units of EUR"
    assert amount["element"]["initial_value"] == "24900"


def test_no_two_inputs_or_lines_of_a_dialog_have_one_name() -> None:
    titled = {"net": {"title": "Amount"}, "gross": {"title": "Amount"}}
    tool = {"parameters": {"properties": titled}}
    arguments = {"net": 5, "gross": 6, "gross ": 7, "Files in the inbox": "none"}
    files = CallHistory(files=[PageFile("/run/r/file/1/0", "bill.pdf", is_picture=False)])
    click: Any = SimpleNamespace(action="edit", metadata="{}")
    shown = slack_actions.dialog(click, question(past=files, tool=tool, arguments=arguments))
    View(**shown).validate_json()
    blocks = shown["blocks"]
    labels = [one["label"]["text"] for one in blocks if one["type"] == "input"]
    named = ["Amount (net)", "Amount (gross)", '"gross "', "Files in the inbox"]
    assert labels == [*named, "Reason for your decision"]
    lines = [line.partition(":*")[0] for line in blocks[1]["text"]["text"].splitlines()]
    assert lines == [*(f"*With {name}" for name in named), "*Files in the inbox"]


async def test_a_click_that_opens_no_dialog_is_answered(
    nowhere: Client, slack: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = SimpleNamespace()
    loaded: list[Any] = [HoldfastError("no worker answers", "start one", 1), past, question()]

    async def load(*_: object) -> Any:
        if isinstance(found := loaded.pop(0), Exception):
            raise found
        return found

    monkeypatch.setattr(slack_actions, "load_visible_call", load)
    texts = []
    async with inbox(nowhere, slack) as stage:
        for number in (1, 2, 3):
            body = clicked(slack, {**BUTTON, "action_id": "edit"}, trigger_id=f"{number}")
            assert await send(stage, body) == 200
            texts.append((await received(slack, "/reply", number)).json["text"])
    assert texts == [
        "Not decided: No worker answers; start one.",
        NOT_PENDING,
        CHANGED,
    ]
    assert loaded == []


# From the message to the end of the run.


@dataclass
class PostedCall:
    """A run whose call was posted in Slack, and an inbox."""

    stage: Stage
    slack: Listening
    run: Run

    async def click(self, action: str, by: str = "U1") -> tuple[str, float]:
        """Click a button; the request, and when it was sent."""
        body = clicked(self.slack, await button(self.slack, action), by)
        sent_at = time.time()
        assert await send(self.stage, body, at=sent_at) == 200
        return body, sent_at

    async def submit(self, **values: str | None) -> None:
        """Send the dialog that was opened."""
        body = submitted(self.slack, await view(self.slack), values)
        assert await send(self.stage, body) == 200

    async def private_text(self, number: int = 1) -> str:
        """What the person alone receives."""
        text: str = (await received(self.slack, "/reply", number)).json["text"]
        return text

    async def updated(self) -> str:
        """The text of the message once it is updated."""
        update = (await received(self.slack, "chat.update")).json
        assert update["ts"] == "1503435956.000001"
        assert all(block["type"] != "actions" for block in update["blocks"])
        text: str = update["text"]
        return text


@pytest.fixture
async def desk(
    client: Client, slack: Listening, launch: Launch, tmp_path: Path, monkeypatch: Any
) -> AsyncIterator[Callable[..., Awaitable[PostedCall]]]:
    """Starts a run whose call is posted in Slack."""
    monkeypatch.setenv("TOKEN", "xoxb-1")
    settings = {"tokenEnv": "TOKEN", "channel": "C024BE91L", "api": slack.url}
    channels = {"desk": {"slack": settings, "content": "full"}}
    file = tmp_path / "notify.json"
    file.write_text(json.dumps({"inbox": "https://inbox.x", "channels": channels}))
    async with inbox(client, slack) as stage:

        async def start(**policy: Any) -> PostedCall:
            worker = await launch(PAYS, notifiers=file)
            agent = {"approval": {"approvers": ["finance"], **policy}}
            run = await worker.start(["pay"], agent=agent)

            async def is_posted() -> bool:
                done = "activity_task_completed_event_attributes"
                return len([each for each in await run.history() if each.HasField(done)]) >= 2

            await eventually(is_posted)
            return PostedCall(stage, slack, run)

        yield start


async def test_approve_decides_once_and_the_message_shows_it(
    desk: Any, client: Client, slack: Listening, ledger: Path
) -> None:
    one = await desk(quorum=2)
    await one.click("approve", "U2")
    assert "only these groups decide" in await one.private_text()
    body, sent_at = await one.click("approve")
    assert await one.private_text(2) == "Recorded; 1 more must approve."
    # The same request again: here, and at an inbox that has not seen it. The run takes it once.
    assert await send(one.stage, body, at=sent_at) == 401
    async with inbox(client, slack) as other:
        assert await send(other, body, at=sent_at) == 200
        assert await one.private_text(3) == "Recorded; 1 more must approve."
    await one.run.decide("t1c1", "approve", by="bob", groups=["finance"])
    assert (await one.run.result())["output"] == "done"
    updated = await one.updated()
    assert "Decided" in updated
    assert "bob" in updated, "wherever it is decided"
    # A click on the message before it was updated.
    assert await send(one.stage, clicked(slack, await button(slack, "deny"))) == 200
    assert "no longer pending" in await one.private_text(4)
    [line] = ledger.read_text().splitlines()
    assert line.startswith("pay 5 ")
    decisions = [each for each in await one.run.context() if each["type"] == "decision"]
    assert [each["decided"]["by"] for each in decisions] == ["grace", "bob"]


async def test_deny_asks_for_the_reason_in_a_dialog(desk: Any, ledger: Path) -> None:
    one = await desk()
    await one.click("deny")
    await one.submit(reason="too much")
    text = await one.updated()
    assert "denied by grace" in text
    assert "too much" in text
    await one.run.result()
    assert not ledger.exists()


async def test_arguments_are_changed_in_a_dialog(desk: Any, ledger: Path) -> None:
    one = await desk()
    await one.click("edit")
    fields = {block["block_id"]: block for block in (await view(one.slack))["blocks"][2:]}
    assert fields["argument amount"]["element"]["initial_value"] == "5"
    await one.submit(**{"argument amount": "7", "reason": None})
    await one.run.result()
    assert ledger.read_text().startswith("pay 7 ")
