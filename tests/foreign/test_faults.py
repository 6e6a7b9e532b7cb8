"""Requests to a server that fails in every way it knows, in each format that it has.

The server is llmock, run as a subprocess on loopback. It counts and times what it is asked, and has
nothing to complain of in a client that asks again when it should, as late as it should, takes no
half answer for a whole one, and leaves alone what cannot be fixed.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from holdfast.catalog.endpoints import FORMATS, http_client
from holdfast.providers import model_errors
from holdfast.providers.base import ProviderError, ProviderRequest, tool_names
from holdfast.providers.transport.http import HttpProvider
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.settings.endpoints import Endpoint, ProviderName
from tests.foreign.conftest import PROVIDERS, Mock
from tests.providers.fakes import KEY, TOOLS, ReceivedText, ask, chat_message

TEXT = "Guten Tag, Zoë: the order is on its way, and will be with you tomorrow at noon."
CITY = {"city": "Zürich"}
# As Temporal does, with seconds for what here are tenths.
FIRST_PAUSE_SECONDS = 0.1
MAX_ATTEMPTS = 8

Faults = dict[str, list[dict[str, Any]]]

SPEAK = {"type": "reply", "text": TEXT, "times": None}
# Beside a text: Gemini sends a call alone in one chunk, and one chunk cannot be cut.
CALL = {
    "type": "reply",
    "text": TEXT,
    "tool_calls": [{"name": "rag_query", "arguments": CITY}],
    "times": None,
}


def fails(status: int, **more: Any) -> dict[str, Any]:
    """An error in place of an answer, to be asked again in no time."""
    return {"type": "fail", "status": status, "retry_after": 0.05, **more}


def breaks(kind: str, after: int, **more: Any) -> dict[str, Any]:
    """An answer that breaks after so many chunks."""
    return {"type": "stream_fault", "kind": kind, "after_chunks": after, **more}


BREAKS: Faults = {
    f"{kind} after {after}": [breaks(kind, after)]
    for kind in ("disconnect", "truncate", "malformed")
    for after in (0, 1, 2, 3)
}
FAULTS: Faults = {
    **BREAKS,
    "500 thrice": [fails(500, times=3)],
    "502, 503, 504 and 529": [fails(status) for status in (502, 503, 504, 529)],
    "408 and 409": [fails(408), fails(409)],
    "429 with a delay": [fails(429, retry_after=0.7)],
    "all breaks": [breaks("malformed", 2), breaks("truncate", 2), breaks("disconnect", 2)],
    "a silence": [breaks("stall", 2, stall_seconds=5)],
    "an error and a cut": [fails(502), breaks("truncate", 4)],
}
FINAL: Faults = {
    str(status): [fails(status, message="no, and never")] for status in (400, 401, 403, 404, 422)
}


class Client:
    """Our side of the exchange, trying again as Temporal does."""

    def __init__(self, provider: ProviderName, mock: Mock, http: httpx.AsyncClient) -> None:
        settings = {"provider": provider, "baseUrl": mock.base_url(provider), "timeout": "3s"}
        endpoint = Endpoint.model_validate({**settings, "apiKeyEnv": "TEST_KEY"})
        self._target = EndpointTarget("mock", endpoint, {"TEST_KEY": KEY})
        self._provider = HttpProvider(FORMATS[provider], self._target, http)
        self.kind = provider
        self._mock = mock

    async def solve_each(self, faults: Faults, *says: dict[str, Any]) -> dict[str, Solution | str]:
        """The answers, or the errors that are final, of as many models as there are plans of
        faults, all asked at once."""
        models = {plan: f"model-{number}" for number, plan in enumerate(faults)}
        self._mock.plan(
            *says,
            *(
                {**fault, "match": {"model": models[plan]}}
                for plan, planned in faults.items()
                for fault in planned
            ),
        )
        answers = await asyncio.gather(*(self._persist(model) for model in models.values()))
        return dict(zip(faults, answers, strict=True))

    async def _persist(self, model: str) -> Solution | str:
        asked = ask(model={"name": model}, tools=TOOLS)
        said_now = self._provider.encode(
            chat_message("user", "Where is it?"), tool_names(asked.tools)
        ).fragments
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return await self._provider.solve(ProviderRequest(asked, said_now), ReceivedText())
            except (ProviderError, httpx.HTTPError) as error:
                failure = model_errors.provider_error(error, self._target, model, attempt)
            if failure.non_retryable:
                return failure.message
            asked_for = failure.next_retry_delay
            pause = asked_for.total_seconds() if asked_for else FIRST_PAUSE_SECONDS * 2**attempt
            await asyncio.sleep(pause)
        pytest.fail(f"{model} never answered")


def content_of(answer: Solution | str) -> tuple[str, list[tuple[str, Any]]]:
    """The text and the calls of an answer."""
    assert isinstance(answer, Solution)
    return answer.text, [(call.tool, call.arguments) for call in answer.calls]


@pytest.fixture(params=PROVIDERS)
async def client(request: pytest.FixtureRequest, mock: Mock) -> AsyncIterator[Client]:
    """A client for one format after the other. The server has no complaint about it."""
    async with http_client() as http:
        yield Client(request.param, mock, http)
    assert mock.is_done(), "a fault was never met"
    assert mock.complaints() == []


async def test_a_text_comes_whole_in_the_end(client: Client) -> None:
    answers = await client.solve_each(FAULTS, SPEAK)
    assert {plan: content_of(answer) for plan, answer in answers.items()} == dict.fromkeys(
        FAULTS, (TEXT, [])
    )


async def test_a_call_comes_whole_in_the_end(client: Client) -> None:
    answers = await client.solve_each(BREAKS, CALL)
    assert {plan: content_of(answer) for plan, answer in answers.items()} == dict.fromkeys(
        BREAKS, (TEXT, [("rag.query", CITY)])
    )


async def test_a_lasting_failure_is_not_retried(client: Client, mock: Mock) -> None:
    answers = await client.solve_each(FINAL, SPEAK)
    for status, answer in answers.items():
        assert isinstance(answer, str)
        assert f"answered {status}: no, and never" in answer
    assert len(mock.requests()) == len(FINAL)


async def test_a_broken_call_is_an_answer_all_the_same(client: Client) -> None:
    broken = {"type": "tool_fault", "kind": "malformed_arguments"}
    unknown = {"type": "tool_fault", "kind": "unknown_tool"}
    answers = await client.solve_each({"broken": [broken], "unknown": [unknown]})
    [(_, arguments)] = content_of(answers["broken"])[1]
    # A server of Gemini's reads arguments itself, and sends none that are broken.
    assert arguments == {} if client.kind == "gemini" else isinstance(arguments, str)
    [(tool, _)] = content_of(answers["unknown"])[1]
    assert tool not in ("rag.query", "refund")
