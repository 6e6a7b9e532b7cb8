"""A part of a request that a server rejects is left out, once, and for which later requests.

Which part it is by the error: `exchanges/*/refusals.yaml` and `exchanges/openai/settings.yaml`.
"""

import asyncio
import json
from typing import Any

import httpx
import pytest

from holdfast.catalog.endpoints import FORMATS
from holdfast.providers.base import ProviderRefused
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


async def test_a_default_temperature_is_left_out_of_all_requests_of_a_model() -> None:
    handle, asked = refusing(422, ONLY_ONE, "temperature")
    model = provider(handle)
    for own in ({}, {}, {"maxOutputTokens": 9}):
        solution = await model.solve(request(ask(model=own)), ReceivedText())
        assert "temperature" in solution.notices[0]
    await model.solve(request(ask(model={"temperature": None})), ReceivedText())
    assert ["temperature" in body for body in asked] == [True, *[False] * 4]
    await model.solve(request(ask(model={"name": "another"})), ReceivedText())
    assert ["temperature" in body for body in asked[5:]] == [True, False]


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


async def test_what_is_left_out_is_left_out_once() -> None:
    handle, asked = refusing(400, "temperature is not supported", "messages")
    with pytest.raises(ProviderRefused):
        await solve(handle, ask(tools=TOOLS))
    assert len(asked) == 2
