"""A Slack app is notified: buttons where one click can decide, and one message per question."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from slack_sdk.models.blocks import ActionsBlock, Block
from starlette.responses import JSONResponse, Response
from temporalio.exceptions import ApplicationError

from holdfast.activities.notify.channels import NotificationChannels, load_notifiers
from holdfast.activities.notify.slack import app_message
from holdfast.schemas.decision import digest_of
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.schemas.settings.notify import PostedMessage
from tests.support.news_receivers import Listening, listening, news, posts

POSTED = {"channel": "C024BE91L", "ts": "1503435956.000001"}


@pytest.fixture
async def slack() -> AsyncIterator[Listening]:
    """A Slack that posts every message."""
    async with listening() as found:
        found.answer = posts
        yield found


@pytest.fixture
def channels(slack: Listening, tmp_path: Path, http: httpx.AsyncClient) -> NotificationChannels:
    """The channels of a worker: one of the app."""
    settings = {"tokenEnv": "TOKEN", "channel": "C024BE91L", "api": slack.url}
    channels = {"desk": {"slack": settings, "content": "full"}}
    file = tmp_path / "notify.yaml"
    file.write_text(yaml.safe_dump({"inbox": "https://inbox.x", "channels": channels}))
    return load_notifiers(file, {"TOKEN": "xoxb-1"}, http)


async def send(channels: NotificationChannels, kind: str = "asked", **more: Any) -> Any:
    return await channels.tell_people({"channel": "desk", "news": waits(kind, **more).to_json()})


def waits(news_kind: str = "asked", waiting: dict[str, Any] | None = None, **more: Any) -> Any:
    """News of a call whose digest is that of its arguments."""
    said = {"nonce": "n" * 64, "arguments": {"order_id": "A-7", "amount": 120}, **(waiting or {})}
    digest = digest_of("refund", said["arguments"], said.get("kind", "call"), 1)
    return news(news_kind, {"digest": digest, **said}, **more)


def buttons(message: dict[str, Any]) -> list[Any]:
    """The buttons of a message, all of whose blocks are those of Slack."""
    blocks = Block.parse_all(message["blocks"])
    for block, sent in zip(blocks, message["blocks"], strict=True):
        block.validate_json()
        assert block.to_dict().items() >= {"type": sent["type"]}.items()
    return [one for block in blocks if isinstance(block, ActionsBlock) for one in block.elements]


async def test_a_message_is_posted_with_buttons_that_are_bound_to_what_it_shows(
    channels: NotificationChannels, slack: Listening
) -> None:
    assert await send(channels) == POSTED
    [heard] = slack.heard
    assert heard.path == "/hook/chat.postMessage"
    assert heard.headers["authorization"] == "Bearer xoxb-1"
    assert heard.json["channel"] == "C024BE91L"
    found = buttons(heard.json)
    assert [one.text.text for one in found] == ["Approve", "Deny", "Change…"]
    for effect, label in (
        ("refund of €249.00", "Approve refund of €249.00"),
        ("x" * 68, "Approve"),
    ):
        named = buttons(app_message(waits(waiting={"effect": effect}), with_buttons=True))
        assert named[0].text.text == label
    assert len({json.dumps(one.to_dict().get("style")) for one in found}) == 1
    shown = waits().waiting
    for one in found:
        assert SelectedCall.parse(one.value) == SelectedCall.of("order/7", shown)


@pytest.mark.parametrize(
    ("waiting", "more"),
    [
        ({"signed": True}, {}),
        ({"kind": "plan", "arguments": {"calls": []}}, {}),
        ({"arguments": {"note": "a\nb"}}, {}),
        ({"arguments": {"note": "x" * 301}}, {}),
        ({"arguments": {"note": "a\u202eb"}}, {}),
        ({"arguments": {f"a{n}": n for n in range(21)}}, {}),
        ({"arguments": {f"a{n}": "&" * 100 for n in range(10)}}, {}),
        ({"digest": "d" * 64}, {}),
        ({"nonce": ""}, {}),
        ({}, {"workflow_id": "r" * 2_000}),
    ],
)
def test_what_one_click_cannot_decide_has_only_the_link(
    waiting: dict[str, Any], more: dict[str, Any]
) -> None:
    assert not buttons(app_message(waits(waiting=waiting, **more), with_buttons=True))


def test_a_click_decides_on_arguments_that_are_shown_as_on_the_page() -> None:
    rows = [("Amount", "€120.00"), ("Order", "A-7")]
    found = app_message(waits(shown=rows), with_buttons=True)
    assert "*With Amount:* €120.00" in found["text"].replace("\u2060", "")
    assert [one.action_id for one in buttons(found)] == ["approve", "deny", "edit"]
    for cut in ([*rows, ("Reason", "x" * 301)], [*rows, ("Reason", "a\nb")], [("A", "1")] * 21):
        more = [(f"{name} {n}", text) for n, (name, text) in enumerate(cut)]
        assert not buttons(app_message(waits(shown=more), with_buttons=True))


@pytest.mark.parametrize("arguments", [{}, {"a": [1]}, {"a": True}, {"a": None}])
def test_only_texts_and_numbers_are_changed_in_a_form(arguments: dict[str, Any]) -> None:
    found = buttons(app_message(waits(waiting={"arguments": arguments}), with_buttons=True))
    assert [one.action_id for one in found] == ["approve", "deny"]


@pytest.mark.parametrize("kind", ["decided", "expired"])
async def test_the_message_is_updated_once_it_is_over(
    channels: NotificationChannels, slack: Listening, kind: str
) -> None:
    assert await send(channels, kind, posted=PostedMessage(**POSTED)) == POSTED
    [heard] = slack.heard
    assert heard.path == "/hook/chat.update"
    assert heard.json.items() >= POSTED.items()
    assert not buttons(heard.json)
    assert "Decided" in heard.json["text"] or "Expired" in heard.json["text"]


async def test_a_reminder_is_a_reply_that_is_seen_in_the_channel(
    channels: NotificationChannels, slack: Listening
) -> None:
    assert await send(channels, "reminder", posted=PostedMessage(**POSTED)) == POSTED
    [heard] = slack.heard
    assert heard.path == "/hook/chat.postMessage"
    assert heard.json.items() >= {"thread_ts": POSTED["ts"], "reply_broadcast": True}.items()
    assert not buttons(heard.json)


@pytest.mark.parametrize(
    ("answer", "retried"),
    [
        (JSONResponse({"ok": False, "error": "channel_not_found"}), False),
        (JSONResponse({"ok": False, "error": "internal_error"}), True),
        (Response("<html>"), False),
        (Response("[" * 20_000 + "]" * 20_000), False),
        (Response(status_code=429, headers={"retry-after": "7"}), True),
    ],
)
async def test_what_slack_refuses_is_sent_again_only_if_that_may_pass(
    channels: NotificationChannels, slack: Listening, answer: Response, retried: bool
) -> None:
    slack.answer = lambda _: answer
    with pytest.raises(ApplicationError) as failed:
        await send(channels)
    assert failed.value.non_retryable is not retried
    assert "xoxb" not in failed.value.message
