"""A part of a request that a server rejects is left out, once, with a notice where it matters."""

import asyncio
import contextlib
import json
from typing import Any

import httpx
import pytest

from holdfast.catalog.endpoints import FORMATS
from holdfast.providers.base import ProviderRefused, ProviderRequest
from holdfast.providers.model_errors import provider_error
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.transport import http as transport
from holdfast.providers.transport.http import HttpProvider
from holdfast.schemas.settings.endpoints import ProviderName
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
from tests.providers.wire.exchange import sent_twice
from tests.providers.wire.wires import WIRES


def good() -> httpx.Response:
    return httpx.Response(200, content=HELLO)


def refusing(status: int, message: str, *without: str) -> tuple[Handler, list[dict[str, Any]]]:
    """A server that refuses a request as long as it has one of the fields `without`."""
    asked: list[dict[str, Any]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        if any(f'"{field}":'.encode() in request.content for field in without):
            return httpx.Response(status, json={"error": {"message": message}})
        return good()

    return handle, asked


ONLY_ONE = "invalid temperature: only 1 is allowed for this model"
NOT_SUPPORTED = "Unsupported value: 'temperature' does not support 0.7 with this model."


@pytest.mark.parametrize(
    "message",
    [
        ONLY_ONE,
        NOT_SUPPORTED,
        "Input validation error: `temperature` must be strictly positive",
        "temperature: Extra inputs are not permitted",
        "Unrecognized request argument supplied: temperature",
        "temperature is fixed at 1.0 for this model and cannot be changed",
    ],
)
async def test_a_default_temperature_is_left_out_of_all_requests_of_a_model_that_refuses_it(
    message: str,
) -> None:
    handle, asked = refusing(422, message, "temperature")
    model = provider(handle)
    for own in ({}, {}, {"maxOutputTokens": 9}):
        solution = await model.solve(request(ask(model=own)), ReceivedText())
        assert "temperature" in solution.notices[0]
    await model.solve(request(ask(model={"temperature": None})), ReceivedText())
    assert ["temperature" in body for body in asked] == [True, *[False] * 4]
    await model.solve(request(ask(model={"name": "another"})), ReceivedText())
    assert ["temperature" in body for body in asked[5:]] == [True, False]


async def test_a_field_is_found_where_only_the_error_s_param_names_it() -> None:
    asked: list[bool] = []

    def handle(made: httpx.Request) -> httpx.Response:
        asked.append("temperature" in json.loads(made.content))
        error = {"message": "Unsupported value", "param": "temperature"}
        return httpx.Response(400, json={"error": error}) if asked[-1] else good()

    await provider(handle).solve(request(), ReceivedText())
    assert asked == [True, False]


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_default_temperature_is_left_out_in_each_format(kind: ProviderName) -> None:
    bodies, notices = await sent_twice(WIRES[kind], "m", ONLY_ONE)
    assert ['"temperature"' in json.dumps(body) for body in bodies] == [True, False, False]
    assert len(notices) == 2


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_temperature_that_the_agent_set_is_refused_with_what_to_do(
    kind: ProviderName,
) -> None:
    with pytest.raises(ProviderRefused) as refused:
        await sent_twice(WIRES[kind], "m", ONLY_ONE, temperature=0.3)
    error = provider_error(refused.value, target(), "m", 1)
    assert f"answered 400: {ONLY_ONE}. Change the `temperature` of the agent's" in error.message
    assert error.non_retryable


async def test_a_temperature_that_the_agent_set_is_left_out_where_the_model_has_none() -> None:
    handle, asked = refusing(400, NOT_SUPPORTED, "temperature")
    model = provider(handle)
    for temperature in (0.3, 0.3, 0.4):
        await model.solve(request(ask(model={"temperature": temperature})), ReceivedText())
    assert ["temperature" in body for body in asked] == [True, False, False, True, False]


async def test_a_temperature_of_0_is_sent_as_the_next_one_where_a_server_takes_only_more() -> None:
    asked: list[float] = []

    def handle(made: httpx.Request) -> httpx.Response:
        asked.append(json.loads(made.content)["temperature"])
        error = {"error": "`temperature` must be strictly positive"}
        return good() if asked[-1] else httpx.Response(422, json=error)

    model = provider(handle)
    for _ in range(2):
        solution = await model.solve(request(ask(model={"temperature": 0})), ReceivedText())
        assert "0.01" in solution.notices[0]
    assert asked == [0, 0.01, 0.01]


@pytest.mark.parametrize("own", [{"maxOutputTokens": 9}, {"options": {"max_tokens": 9}}])
@pytest.mark.parametrize(
    "message",
    [
        "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "Please use max_completion_tokens in place of max_tokens",
        "Unrecognized request argument supplied: max_tokens",
    ],
)
async def test_the_length_of_an_answer_is_sent_under_its_newer_name_where_a_server_has_that(
    own: dict[str, Any], message: str
) -> None:
    handle, asked = refusing(400, message, "max_tokens")
    model = provider(handle, target(baseUrl="https://gateway.test/v1"))
    for _ in range(2):
        await model.solve(request(ask(model=own)), ReceivedText())
    assert ["max_tokens" in body for body in asked] == [True, False, False]
    assert [body.get("max_completion_tokens") for body in asked] == [None, 9, 9]


@pytest.mark.parametrize(
    "message",
    ["max_tokens is too large: 9. At most 4 completion tokens", "Unsupported: max_tokens"],
)
async def test_the_length_of_an_answer_is_never_left_out(message: str) -> None:
    names = ("max_tokens", "max_completion_tokens")
    handle, asked = refusing(400, message, *names)
    with pytest.raises(ProviderRefused):
        await provider(handle).solve(request(ask(model={"maxOutputTokens": 9})), ReceivedText())
    assert all(any(body.get(name) == 9 for name in names) for body in asked)
    assert len(asked) <= 2


@pytest.mark.parametrize("option", ["top_p", "parallel_tool_calls", "verbosity"])
async def test_an_option_that_the_agent_set_is_refused_as_the_server_refuses_it(
    option: str,
) -> None:
    handle, asked = refusing(400, f"Unsupported parameter: '{option}'", option)
    with pytest.raises(ProviderRefused, match=option):
        await provider(handle).solve(request(ask(model={"options": {option: 1}})), ReceivedText())
    assert len(asked) == 1


async def test_a_fallback_that_does_not_help_is_not_remembered() -> None:
    asked: list[bool] = []

    def handle(made: httpx.Request) -> httpx.Response:
        asked.append("temperature" in json.loads(made.content))
        error = httpx.Response(400, json={"error": "messages.3 names temperature"})
        return error if len(asked) < 3 else good()

    model = provider(handle)
    with pytest.raises(ProviderRefused):
        await model.solve(request(), ReceivedText())
    await model.solve(request(), ReceivedText())
    assert asked == [True, False, True]


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
        return good()

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
