"""What every provider does, row by row, in the words of each one's own server."""

import json
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from temporalio.exceptions import ApplicationError

from holdfast.providers import model_errors
from holdfast.providers.base import (
    ProviderError,
    ProviderRefused,
    ProviderRequest,
    ToolNames,
    ToolsUnsupported,
    TruncatedAnswer,
    UnreadableAnswer,
)
from holdfast.providers.transport.http import HttpProvider
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.internal.solution import Solution, Usage
from holdfast.schemas.message import ChatMessage
from tests.providers.fakes import KEY, TOOLS, ReceivedText, ask, chat_message, fragments_of, target
from tests.providers.wire.anthropic import AnthropicWire
from tests.providers.wire.base import PICTURE, ReadRequest, Result, Wire
from tests.providers.wire.bedrock import BedrockWire
from tests.providers.wire.gemini import GeminiWire
from tests.providers.wire.ollama import OllamaWire
from tests.providers.wire.openai import OpenAIWire
from tests.providers.wire.openai_responses import OpenAIResponsesWire

WIRES: tuple[Wire, ...] = (
    *(OpenAIWire(), OpenAIResponsesWire(), AnthropicWire(), OllamaWire()),
    *(GeminiWire(), BedrockWire()),
)
BY_KIND = {wire.format.kind: wire for wire in WIRES}
CITIES = ("Oslo", "Rome", "Bern", "Kyiv")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture(params=WIRES, ids=lambda wire: wire.format.kind)
def wire(request: pytest.FixtureRequest) -> Wire:
    found: Wire = request.param
    return found


class Exchange:
    """A provider whose server answers with one reply after the other."""

    def __init__(self, wire: Wire, *replies: httpx.Response) -> None:
        self._wire = wire
        self._replies = iter(replies)
        self.heard = ReceivedText()
        self.seen: list[ReadRequest] = []
        self.target = target(provider=wire.format.kind, baseUrl=wire.base_url)
        http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        self._provider = HttpProvider(wire.format, self.target, http)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        seen = self._wire.understands(str(request.url), request.headers, request.content)
        self.seen.append(seen)
        return next(self._replies)

    async def solve(self, *messages: ChatMessage, **asked: Any) -> Solution:
        wanted: Ask = ask(**asked)
        fragments = fragments_of(
            self._wire.format,
            *messages or [chat_message("user", "Hi")],
            names=ToolNames(wanted.tools),
        )
        return await self._provider.solve(ProviderRequest(wanted, fragments), self.heard)

    async def failure(self, *messages: ChatMessage, **asked: Any) -> ApplicationError:
        try:
            solution = await self.solve(*messages, **asked)
        except (ProviderError, httpx.HTTPError) as error:
            return model_errors.provider_error(error, self.target, "gpt-test", 1)
        pytest.fail(f"it went well: {solution}")


def good(body: bytes) -> httpx.Response:
    return httpx.Response(200, content=body)


def refusal(wire: Wire, status: int, message: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, content=wire.refuses(status, message), headers=headers)


def called(*cities: str) -> ChatMessage:
    calls = [
        {
            "id": f"t1c{number}",
            "providerId": f"call_{number}",
            "tool": "rag.query",
            "arguments": {"city": city},
        }
        for number, city in enumerate(cities, 1)
    ]
    return chat_message("assistant", calls=calls)


def resulted(number: int, content: Any, **more: Any) -> ChatMessage:
    ids = {"callId": f"t1c{number}", "providerId": f"call_{number}"}
    return chat_message("tool", content, tool="rag.query", **ids, **more)


async def test_text_is_received_piece_by_piece(wire: Wire) -> None:
    exchange = Exchange(wire, good(wire.answer("Guten", " Tag, Zoë")))
    solution = await exchange.solve()
    assert solution.text == "Guten Tag, Zoë"
    assert exchange.heard.texts == ["Guten", " Tag, Zoë"]
    assert (solution.stop_reason, solution.calls, solution.notices) == ("stop", [], [])
    assert solution.usage == wire.usage
    assert exchange.seen == [ReadRequest(instructions="Be brief.", texts=["Hi"])]


async def test_a_call_is_read_and_its_tool_has_its_own_name(wire: Wire) -> None:
    exchange = Exchange(wire, good(wire.calls(("rag_query", {"city": "Zürich"}))))
    solution = await exchange.solve(tools=TOOLS)
    [call] = solution.calls
    assert (call.tool, call.arguments) == ("rag.query", {"city": "Zürich"})
    assert solution.stop_reason == "calls"
    assert {tool for _, tool, _ in exchange.heard.calls} == {"rag.query"}
    pieces = [piece for _, _, piece in exchange.heard.calls if piece]
    assert json.loads("".join(pieces)) == {"city": "Zürich"}
    assert (len(pieces) > 1) is wire.partial
    assert exchange.seen[0].tools == ["rag_query", "refund"]


async def test_four_calls_come_in_their_order_and_so_do_their_results(wire: Wire) -> None:
    asked = [("rag_query", {"city": city}) for city in CITIES]
    exchange = Exchange(wire, good(wire.calls(*asked)), good(wire.answer("Done")))
    solution = await exchange.solve(tools=TOOLS)
    assert [call.arguments for call in solution.calls] == [{"city": city} for city in CITIES]
    ids = [call.provider_id for call in solution.calls if call.provider_id]
    assert len(set(ids)) == len(ids)
    results = [resulted(number, f"in {city}") for number, city in enumerate(CITIES, 1)]
    await exchange.solve(chat_message("user", "Hi"), called(*CITIES), *results, tools=TOOLS)
    assert exchange.seen[1].calls == asked
    assert exchange.seen[1].results == [Result("rag_query", f"in {city}") for city in CITIES]


async def test_a_failed_call_is_sent_as_an_error(wire: Wire) -> None:
    exchange = Exchange(wire, good(wire.answer("I see")))
    error = '{"error": {"code": "denied", "message": "no"}}'
    failed = resulted(1, error, isError=True)
    await exchange.solve(chat_message("user", "Hi"), called("Oslo"), failed, tools=TOOLS)
    assert exchange.seen[0].results == [Result("rag_query", error, marked=wire.marks_errors)]


PICTURED = [
    {"type": "text", "text": "found"},
    {"type": "image", "mediaType": "image/png", "data": PICTURE},
]


async def test_a_picture_is_sent_also_in_a_result(wire: Wire) -> None:
    exchange = Exchange(wire, good(wire.answer("A cat")), good(wire.answer("A cat")))
    await exchange.solve(chat_message("user", PICTURED))
    await exchange.solve(
        chat_message("user", "Hi"), called("Oslo"), resulted(1, PICTURED), tools=TOOLS
    )
    asked, answered = exchange.seen
    assert asked.texts == ["found"]
    assert [result.text.startswith("found") for result in answered.results] == [True]
    assert all(each.endswith(PICTURE) for each in [*asked.pictures, *answered.pictures])
    assert len(asked.pictures) == len(answered.pictures) == 1


async def test_a_structured_answer_is_asked_for_by_its_schema(wire: Wire) -> None:
    exchange = Exchange(wire, good(wire.answer('{"city":', ' "Oslo"}')))
    solution = await exchange.solve(output=SCHEMA)
    assert json.loads(solution.text) == {"city": "Oslo"}
    assert exchange.seen[0].output == SCHEMA


@pytest.mark.parametrize("choice", ["auto", "none", "required", "refund"])
async def test_each_tool_choice_is_written_in_the_provider_s_terms(wire: Wire, choice: str) -> None:
    exchange = Exchange(wire, good(wire.answer("Yes")))
    wanted = {"name": choice} if choice == "refund" else choice
    await exchange.solve(tools=TOOLS, toolChoice=wanted)
    seen = exchange.seen[0]
    assert (seen.tools, seen.choice) == wire.choices[choice]


async def test_a_conversation_may_begin_with_an_answer(wire: Wire) -> None:
    exchange = Exchange(wire, good(wire.answer("Yes")))
    await exchange.solve(
        chat_message("assistant", "How can I help?"), chat_message("user", "Find it")
    )
    assert exchange.seen[0].texts[-1] == "Find it"


async def test_a_cut_stream_is_no_answer_and_is_asked_for_again(wire: Wire) -> None:
    exchange = Exchange(wire, *[good(wire.breaks_off("Gut")) for _ in range(2)])
    with pytest.raises(TruncatedAnswer):
        await exchange.solve()
    assert exchange.heard.texts == ["Gut"]
    assert not (await exchange.failure()).non_retryable


async def test_too_many_requests_are_made_again_after_the_provider_s_delay(wire: Wire) -> None:
    reply = refusal(wire, 429, "slow down", **{"retry-after": "7"})
    error = await Exchange(wire, reply).failure()
    assert (error.non_retryable, error.next_retry_delay) == (False, timedelta(seconds=7))


async def test_a_bad_request_is_not_made_again_and_the_provider_s_message_is_reported(
    wire: Wire,
) -> None:
    reply = refusal(wire, 400, f"the model `m` is unknown to {KEY}")
    error = await Exchange(wire, reply).failure()
    assert error.non_retryable
    assert error.type == "model_error"
    assert "answered 400: the model `m` is unknown to [secret]" in error.message


@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_a_server_without_tools_is_asked_once(wire: Wire, choice: str) -> None:
    status, body = wire.lacks_tools
    exchange = Exchange(wire, httpx.Response(status, content=body))
    with pytest.raises(ToolsUnsupported):
        await exchange.solve(tools=TOOLS, toolChoice=choice)
    assert [seen.tools for seen in exchange.seen] == [["rag_query", "refund"]]


# How answers are read.


def cases(of: Callable[[Wire], Iterable[Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("wire", "case"),
        [
            pytest.param(wire, case, id=f"{wire.format.kind}-{index}")
            for wire in WIRES
            for index, case in enumerate(of(wire))
        ],
    )


@cases(lambda wire: wire.stop_reasons.items())
async def test_the_reason_why_the_model_stopped(
    wire: Wire, case: tuple[str, tuple[str, int]]
) -> None:
    reason, expected = case
    solution = await Exchange(wire, good(wire.stops(reason))).solve()
    assert solution.text == "Well"
    assert (solution.stop_reason, len(solution.notices)) == expected


async def test_an_answer_without_a_stream(wire: Wire) -> None:
    solution = await Exchange(wire, good(wire.whole)).solve(tools=TOOLS)
    assert solution.text == "One moment."
    assert [(call.tool, call.arguments) for call in solution.calls] == [("refund", {"n": 1})]
    assert solution.stop_reason == "calls"


@cases(lambda wire: wire.ignored)
async def test_an_unknown_event_within_an_answer_is_ignored(wire: Wire, case: Any) -> None:
    start, end = wire.hi
    solution = await Exchange(wire, good(wire.events(*start, case, *end))).solve()
    assert (solution.text, solution.calls, solution.notices) == ("Hi", [], [])


@cases(lambda wire: wire.stream_errors)
async def test_an_error_within_a_stream(wire: Wire, case: tuple[Any, int, str]) -> None:
    event, status, message = case
    exchange = Exchange(wire, *[good(wire.events(*wire.hi[0], event)) for _ in range(2)])
    with pytest.raises(ProviderRefused) as refused:
        await exchange.solve()
    assert (refused.value.status, refused.value.message) == (status, message)
    failure = await exchange.failure()
    assert failure.non_retryable is (status not in (429, 500, 503))


@cases(lambda wire: wire.foreign)
async def test_an_answer_in_another_format(wire: Wire, case: bytes) -> None:
    with pytest.raises(UnreadableAnswer, match=r"the answer is no .*; it begins: "):
        await Exchange(wire, good(case)).solve()


@cases(lambda wire: wire.truncated)
async def test_an_answer_without_its_end(wire: Wire, case: bytes) -> None:
    with pytest.raises(TruncatedAnswer):
        await Exchange(wire, good(case)).solve()


async def test_unreported_usage_is_unknown(wire: Wire) -> None:
    assert (await Exchange(wire, good(wire.events(*wire.uncounted))).solve()).usage == Usage()
