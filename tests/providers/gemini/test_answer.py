"""Answers as Google's servers write them, odd and broken ones among them, and their errors."""

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest
from temporalio.exceptions import ApplicationError

from holdfast.providers.base import ProviderRefused
from holdfast.schemas.internal.solution import Usage
from holdfast.workflows.engine.model.answer import InvalidOutput, parse_output
from tests.providers.gemini.gemini_exchange import SIGNED, read
from tests.providers.test_conformance import Exchange, good, refusal
from tests.providers.wire.gemini import USAGE, GeminiWire, call, event, events


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"promptTokenCount": 9, "totalTokenCount": 9}, Usage(input_tokens=9, output_tokens=0)),
        ({"candidatesTokenCount": 2}, Usage(output_tokens=2)),
        ({"promptTokenCount": "9"}, Usage()),
    ],
)
def test_a_count_of_nothing_is_not_written_and_a_missing_one_is_unknown(
    counts: dict[str, Any], expected: Usage
) -> None:
    assert (
        read({**event({"text": "Yes"}, finish="STOP"), "usageMetadata": counts}).usage == expected
    )


async def test_a_blocked_request_is_a_bad_one() -> None:
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "See the policy."}
    blocked = {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 8}}
    told = await failure(good(events([blocked])))
    assert told.non_retryable
    assert "the request was blocked, PROHIBITED_CONTENT: See the policy." in told.message


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
def test_of_an_answer_with_a_broken_call_nothing_is_taken(reason: str) -> None:
    parts = [{"text": ",patch:true}]"}, call("refund", {}, thoughtSignature=SIGNED)]
    ended = event(finish=reason)
    ended["candidates"][0] |= {"content": {}, "finishMessage": "Malformed: refund(a=\n"}
    solution = read(event(*parts), ended)
    assert (solution.text, solution.calls, solution.provider_data) == ("", [], None)
    assert solution.stop_reason == "stop"
    assert solution.notices == [
        f"the provider could not read what the model wrote (`{reason}`): Malformed: refund(a="
    ]
    with pytest.raises(InvalidOutput, match="The answer was empty"):
        parse_output(solution, None, last=False)


def test_a_list_in_place_of_a_stream_is_read_too() -> None:
    said_events = [event({"text": "Y"}), event({"text": "es"}, finish="STOP", usageMetadata=USAGE)]
    body = json.dumps(said_events, indent=2).encode()
    assert read(body).text == "Yes"
    assert read(body) == read(*said_events)


@pytest.mark.parametrize("args", [[1], "x", 5, None, {"a": [{}] * 3}])
def test_arguments_that_are_no_object_stay_what_they_are(args: Any) -> None:
    named = {"functionCall": {"name": "refund", "args": args}}
    odd = {"candidates": [{"content": {"parts": [named]}, "finishReason": "STOP"}]}
    [made] = read(odd).calls
    written = args if isinstance(args, str) else json.dumps(args)
    assert made.arguments == (args or {} if isinstance(args, dict | None) else written)


# Errors.


async def failure(response: httpx.Response) -> ApplicationError:
    return await Exchange(GeminiWire(), response).failure()


def google_error(status: int, message: str, *details: Any) -> dict[str, Any]:
    error = {"code": status, "message": message, "status": "RESOURCE_EXHAUSTED"}
    return {"error": {**error, "details": list(details)} if details else error}


def retry_info(delay: Any) -> dict[str, Any]:
    """The detail with the delay of a retry."""
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []}


@pytest.mark.parametrize(
    ("details", "seconds"),
    [
        ([QUOTA, retry_info("37.5s")], 37.5),
        ([retry_info("86400s")], 3600),
        ([retry_info("soon"), None, retry_info(None)], None),
        ([], None),
    ],
)
@pytest.mark.parametrize("listed", [True, False])
async def test_google_sends_the_delay_of_a_retry_in_the_error_itself(
    details: list[Any], seconds: float | None, listed: bool
) -> None:
    error = google_error(429, "You exceeded your quota", *details)
    told = await failure(httpx.Response(429, json=[error] if listed else error))
    assert not told.non_retryable
    assert told.next_retry_delay == (timedelta(seconds=seconds) if seconds else None)


async def test_a_header_counts_more_than_the_body_of_the_error() -> None:
    error = google_error(503, "overloaded", retry_info("37s"))
    response = httpx.Response(503, json=error, headers={"Retry-After": "2"})
    assert (await failure(response)).next_retry_delay == timedelta(seconds=2)


async def test_an_error_within_the_stream_is_an_error_with_its_delay() -> None:
    error = google_error(429, "You exceeded your quota", retry_info("3s"))
    body = events([event({"text": "Gut"}), error])
    with pytest.raises(ProviderRefused, match="429"):
        read(body)
    told = await failure(good(body))
    assert told.next_retry_delay == timedelta(seconds=3)
    with pytest.raises(ProviderRefused):
        read(json.dumps([event({"text": "Gut"}), error]).encode())


async def test_a_bad_key_is_reported_with_its_variable() -> None:
    error = google_error(400, "API key not valid. Please pass a valid API key.")
    told = await failure(httpx.Response(400, json=error))
    assert told.non_retryable
    assert "Check the key in the environment variable TEST_KEY" in told.message


def test_the_id_of_a_call_is_kept_where_there_is_one() -> None:
    named = {"functionCall": {"name": "refund", "id": "fc_1"}}
    solution = read(event(named, call("rag_query", {"q": 1}), finish="STOP"))
    calls = [(each.provider_id, each.tool, each.arguments) for each in solution.calls]
    assert calls == [("fc_1", "refund", {}), (None, "rag.query", {"q": 1})]
    assert solution.stop_reason == "calls"


@pytest.mark.parametrize(
    "message",
    [
        "JSON mode is not enabled for models/gemma-3-27b-it",
        "The specified schema produces a constraint that has too many states for serving.",
    ],
)
async def test_a_model_that_takes_no_schema_is_asked_without(message: str) -> None:
    wire = GeminiWire()
    exchange = Exchange(wire, refusal(wire, 400, message), good(wire.answer("{}")))
    solution = await exchange.solve(output={"type": "object"})
    assert [seen.output for seen in exchange.seen] == [{"type": "object"}, None]
    assert "cannot enforce the output's schema" in solution.notices[0]
