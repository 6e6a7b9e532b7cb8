"""What every provider does, row by row, in the words of each one's own server."""

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from holdfast.catalog.endpoints import FORMATS
from tests.providers.fakes import KEY, TOOLS
from tests.providers.wire.base import Wire
from tests.providers.wire.exchange import Exchange, good, refusal
from tests.providers.wire.wires import WIRES
from tests.providers.writers.abstract_answer import AbstractAnswer, Call, Choices, Thought


@pytest.fixture(params=WIRES.values(), ids=list(WIRES))
def wire(request: pytest.FixtureRequest) -> Wire:
    found: Wire = request.param
    return found


def test_all_formats_carry_images_and_all_but_ollama_s_documents() -> None:
    assert WIRES.keys() == FORMATS.keys()
    assert all(kind == spoken.kind for kind, spoken in FORMATS.items())
    assert all("image" in wire.format.carries for wire in WIRES.values())
    carrying = {kind for kind, wire in WIRES.items() if "document" in wire.format.carries}
    assert WIRES.keys() - carrying == {"ollama"}


def test_what_is_written_by_default_is_as_the_provider_publishes_it(wire: Wire) -> None:
    answer = AbstractAnswer(
        [Thought("Hm."), "Yes", Call(0, "refund", {"n": 1}), Call(1, "refund", {})]
    )
    for event in wire.writer.events(answer, Choices()):
        wire.vouch(event.value)


async def test_text_is_received_piece_by_piece(wire: Wire) -> None:
    exchange = Exchange(wire, good(wire.answer("Guten Tag, Zoë")))
    solution = await exchange.solve()
    assert solution.text == "".join(exchange.received.texts) == "Guten Tag, Zoë"
    assert len(exchange.received.texts) > 1
    assert (solution.stop_reason, solution.calls, solution.notices) == ("stop", [], [])
    assert solution.usage == wire.usage
    # Converse does not name the model.
    assert (solution.model is None) is (wire.format.kind == "bedrock")


async def test_a_call_is_read_and_its_tool_has_its_own_name(wire: Wire) -> None:
    exchange = Exchange(wire, good(wire.calls(("rag_query", {"city": "Zürich"}))))
    solution = await exchange.solve(tools=TOOLS)
    [call] = solution.calls
    assert (call.tool, call.arguments) == ("rag.query", {"city": "Zürich"})
    assert solution.stop_reason == "calls"
    assert {tool for _, tool, _ in exchange.received.calls} == {"rag.query"}
    pieces = [piece for _, _, piece in exchange.received.calls if piece]
    assert json.loads("".join(pieces)) == {"city": "Zürich"}
    assert (len(pieces) > 1) is wire.is_partial


# Errors.


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


QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []}


def google_error(status: int, *delays: Any) -> dict[str, Any]:
    kind = "type.googleapis.com/google.rpc.RetryInfo"
    details = [QUOTA, None, *({"@type": kind, "retryDelay": delay} for delay in delays)]
    return {"error": {"code": status, "message": "You exceeded your quota", "details": details}}


@pytest.mark.parametrize(
    ("delays", "seconds"),
    [(["37.5s"], 37.5), (["86400s"], 3600), (["soon", None], None), ([], None)],
)
@pytest.mark.parametrize("is_listed", [True, False])
async def test_google_sends_the_delay_of_a_retry_in_the_error_itself(
    delays: list[Any], seconds: float | None, is_listed: bool
) -> None:
    error = google_error(429, *delays)
    reply = httpx.Response(429, json=[error] if is_listed else error)
    failure = await Exchange(WIRES["gemini"], reply).failure()
    assert not failure.non_retryable
    assert failure.next_retry_delay == (timedelta(seconds=seconds) if seconds else None)


async def test_a_header_counts_more_than_the_body_of_the_error() -> None:
    reply = httpx.Response(503, json=google_error(503, "37s"), headers={"Retry-After": "2"})
    failure = await Exchange(WIRES["gemini"], reply).failure()
    assert failure.next_retry_delay == timedelta(seconds=2)


async def test_an_error_within_a_stream_has_its_delay_too() -> None:
    wire = WIRES["gemini"]
    failure = await Exchange(wire, good(wire.frame([google_error(429, "3s")]))).failure()
    assert failure.next_retry_delay == timedelta(seconds=3)


async def test_a_bad_key_is_reported_with_its_variable() -> None:
    wire = WIRES["gemini"]
    reply = refusal(wire, 400, "API key not valid. Please pass a valid API key.")
    failure = await Exchange(wire, reply).failure()
    assert failure.non_retryable
    assert "Check the key in the environment variable TEST_KEY" in failure.message
