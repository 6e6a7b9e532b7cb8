"""What a server refuses is left out, once, and is reported where that matters."""

import asyncio
import contextlib
import json
from typing import Any

import httpx
import pytest

from holdfast.providers.base import ProviderRefused, ProviderRequest
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.transport import http as transport
from holdfast.providers.transport.http import HttpProvider
from tests.providers.fakes import (
    TOOLS,
    Handler,
    ReceivedText,
    ask,
    chat_message,
    provider,
    request,
    target,
)
from tests.providers.transport.test_http import HELLO, solve


def refusing(status: int, message: str, *without: str) -> tuple[Handler, list[dict[str, Any]]]:
    """A server that refuses a request as long as it has one of the fields `without`."""
    asked: list[dict[str, Any]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        if any(f'"{field}":'.encode() in request.content for field in without):
            return httpx.Response(status, json={"error": {"message": message}})
        return httpx.Response(200, content=HELLO)

    return handle, asked


async def test_a_temperature_that_was_refused_is_not_sent_again_with_the_same_settings() -> None:
    handle, asked = refusing(400, "temperature is not supported", "temperature")
    model = provider(handle)
    for _ in range(2):
        solution = await model.solve(request(), ReceivedText())
        assert "temperature" in solution.notices[0]
    await model.solve(request(ask(model={"temperature": None})), ReceivedText())
    assert ["temperature" in body for body in asked] == [True, False, False, False]
    await model.solve(request(ask(model={"name": "another"})), ReceivedText())
    assert ["temperature" in body for body in asked[4:]] == [True, False]


@pytest.mark.parametrize(("field", "notices"), [("stream_options", 1), ("prompt_cache_key", 0)])
async def test_a_field_that_a_server_does_not_know_is_left_out_from_then_on(
    field: str, notices: int
) -> None:
    handle, asked = refusing(400, f"Unrecognized request argument supplied: {field}", field)
    model = provider(handle)
    for _ in range(2):
        solution = await model.solve(ProviderRequest(ask(), (), "k1"), ReceivedText())
        assert (solution.text, len(solution.notices)) == ("Hello", notices)
    assert [field in body for body in asked] == [True, False, False]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "Jinja Exception: Conversation roles must alternate user/assistant/user/…"),
        (400, "Unexpected role 'user' after role 'tool'"),
    ],
)
async def test_a_model_that_insists_on_turns_is_sent_turns_from_then_on(
    status: int, message: str
) -> None:
    asked: list[list[str]] = []

    def handle(made: httpx.Request) -> httpx.Response:
        asked.append([each["role"] for each in json.loads(made.content)["messages"]])
        if asked[-1][-2:] == ["user", "user"]:
            return httpx.Response(status, json={"error": {"message": message}})
        return httpx.Response(200, content=HELLO)

    model = provider(handle)
    for _ in range(2):
        assert (await model.solve(request(ask(tail="The state: {}")), ReceivedText())).notices == []
    turns = ["system", "user"]
    assert asked == [[*turns, "user"], turns, turns]


@pytest.mark.parametrize(
    ("message", "is_left_out"),
    [
        ("messages.1.reasoning_content: Extra inputs are not permitted", True),
        ("Cannot pass both content and thinking in an assistant message with tool calls!", True),
        ("Missing `reasoning_content` field in the assistant message", False),
        ("The `reasoning_content` in the thinking mode must be passed back to the API.", False),
    ],
)
async def test_thoughts_that_a_server_does_not_take_back_are_left_out(
    message: str, is_left_out: bool
) -> None:
    handle, asked = refusing(400, message, "reasoning_content")
    thought = chat_message("assistant", "Yes", providerData={"reasoning_content": "Hm."})
    with contextlib.nullcontext() if is_left_out else pytest.raises(ProviderRefused):
        await provider(handle).solve(request(None, thought), ReceivedText())
    are_sent = ["reasoning_content" in body["messages"][1] for body in asked]
    assert are_sent == ([True, False] if is_left_out else [True])


async def test_what_two_requests_learn_at_once_is_reported_once() -> None:
    both = asyncio.Barrier(2)

    async def handle(made: httpx.Request) -> httpx.Response:
        if "temperature" not in json.loads(made.content):
            return httpx.Response(200, content=HELLO)
        await both.wait()
        return httpx.Response(400, json={"error": {"message": "temperature is not supported"}})

    async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as http:
        model = HttpProvider(OpenAIFormat(), target(), http)
        await asyncio.gather(*(model.solve(request(), ReceivedText()) for _ in range(2)))
        assert len((await model.solve(request(), ReceivedText())).notices) == 1


async def test_what_was_learned_is_kept_for_so_many_settings_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "MAX_LEARNED_SETTINGS", 3)
    handle, asked = refusing(400, "temperature is not supported", "temperature")
    model = provider(handle)
    for number in range(4):
        await model.solve(request(ask(model={"name": f"m{number}"})), ReceivedText())
    del asked[:]
    await model.solve(request(ask(model={"name": "m0"})), ReceivedText())
    await model.solve(request(ask(model={"name": "m3"})), ReceivedText())
    assert ["temperature" in body for body in asked] == [True, False, False]


async def test_what_else_is_left_out_is_tried_again_with_the_next_request() -> None:
    handle, asked = refusing(400, "response_format is not supported", "response_format")
    model = provider(handle)
    for _ in range(2):
        await model.solve(request(ask(output={"type": "object"})), ReceivedText())
    assert ["response_format" in body for body in asked] == [True, False, True, False]
    assert all("temperature" in body for body in asked)


async def test_what_is_left_out_is_left_out_once() -> None:
    handle, asked = refusing(400, "temperature is not supported", "messages")
    with pytest.raises(ProviderRefused):
        await solve(handle, ask(tools=TOOLS))
    assert len(asked) == 2
