"""Answers as Google's servers write them, odd and broken ones among them, and their errors."""

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from holdfast.providers.base import (
    ProviderRefused,
    ProviderRequest,
    TruncatedAnswer,
    UnreadableAnswer,
)
from holdfast.providers.gemini.format import GeminiFormat
from holdfast.providers.transport.http import HttpProvider
from holdfast.schemas.internal.solution import Usage
from holdfast.workflows.engine.model.answer import InvalidOutput, parse_output
from tests.activities.dialects.gemini import USAGE, call, event, events, understood
from tests.activities.fakes import Heard, ask, said
from tests.activities.gemini_side import NAMES, SIGNED, at, failure, read


def test_thoughts_are_no_text_but_are_paid_for() -> None:
    thought = {"text": "Hm.", "thought": True}
    solution = read(event(thought), event({"text": "Yes"}, finish="STOP", usageMetadata=USAGE))
    assert solution.text == "Yes"
    assert solution.usage == Usage(input_tokens=12, output_tokens=3, cached_tokens=4)
    assert solution.model == "gemini-test-2026"


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


def test_the_id_of_a_call_is_kept_where_there_is_one() -> None:
    named = {"functionCall": {"name": "refund", "id": "fc_1"}}
    solution = read(event(named, call("rag_query", {"q": 1}), finish="STOP"))
    calls = [(each.provider_id, each.tool, each.arguments) for each in solution.calls]
    assert calls == [("fc_1", "refund", {}), (None, "rag.query", {"q": 1})]
    assert solution.stop_reason == "calls"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        *[("STOP", "stop"), ("MAX_TOKENS", "length"), ("SAFETY", "filtered")],
        *[("RECITATION", "filtered"), ("PROHIBITED_CONTENT", "filtered"), ("OTHER", "stop")],
    ],
)
def test_why_it_stopped_is_told_in_our_words_and_what_is_odd_in_gemini_s(
    reason: str, expected: str
) -> None:
    ended = event({"text": "Yes"}, finish=reason)
    ended["candidates"][0]["finishMessage"] = "See the policy."
    solution = read(ended)
    assert (solution.text, solution.stop_reason) == ("Yes", expected)
    odd = [f"Gemini ended the answer with {reason}: See the policy."]
    assert solution.notices == ([] if reason in ("STOP", "MAX_TOKENS") else odd)


async def test_a_blocked_request_is_a_bad_one() -> None:
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "See the policy."}
    blocked = {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 8}}
    told = await failure(httpx.Response(200, content=events([blocked])))
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
    assert solution.notices == [f"Gemini ended the answer with {reason}: Malformed: refund(a="]
    with pytest.raises(InvalidOutput, match="The answer was empty"):
        parse_output(solution.text, None, last=False)


@pytest.mark.parametrize("last", [{}, {"usageMetadata": USAGE}, {"candidates": []}])
def test_an_answer_that_never_says_why_it_stopped_is_cut_off(last: Any) -> None:
    with pytest.raises(TruncatedAnswer):
        read(event({"text": "Yes"}), last)


def test_only_the_first_of_several_candidates_is_read() -> None:
    both = event({"text": "Yes"}, finish="STOP")
    both["candidates"].append({**both["candidates"][0], "index": 1})
    assert read(both).text == "Yes"


def test_a_list_in_place_of_a_stream_is_read_too() -> None:
    said_events = [event({"text": "Y"}), event({"text": "es"}, finish="STOP", usageMetadata=USAGE)]
    body = json.dumps(said_events, indent=2).encode()
    assert read(body).text == "Yes"
    assert read(body) == read(*said_events)
    assert read(json.dumps(event({"text": "Yes"}, finish="STOP")).encode()).text == "Yes"
    with pytest.raises(TruncatedAnswer):
        read(body[:-40])
    for foreign in (b"[]", b"[1, 2]", b'[{"choices": []}]'):
        with pytest.raises(UnreadableAnswer, match="the answer is no Gemini answer"):
            read(foreign)


@pytest.mark.parametrize(
    "odd",
    [
        {"candidates": [None, "x", {"content": None}, {"content": {"parts": None}}]},
        {
            "candidates": [
                {"content": {"parts": [None, 1, {}, {"text": 5}, {"executableCode": {}}]}}
            ]
        },
        {"candidates": [{"finishReason": "FINISH_REASON_UNSPECIFIED"}], "modelVersion": 3},
        {"promptFeedback": {"blockReason": None}, "usageMetadata": []},
        {"responseId": "x"},
        [],
    ],
)
def test_what_is_no_form_of_the_format_is_passed_over(odd: Any) -> None:
    solution = read(odd, event({"text": "Yes"}), odd, event({"text": "!"}, finish="STOP"))
    assert (solution.text, solution.calls, solution.notices) == ("Yes!", [], [])


@pytest.mark.parametrize("args", [[1], "x", 5, None, {"a": [{}] * 3}])
def test_arguments_that_are_no_object_stay_what_they_are(args: Any) -> None:
    named = {"functionCall": {"name": "refund", "args": args}}
    odd = {"candidates": [{"content": {"parts": [named]}, "finishReason": "STOP"}]}
    [made] = read(odd).calls
    written = args if isinstance(args, str) else json.dumps(args)
    assert made.arguments == (args or {} if isinstance(args, dict | None) else written)


# Errors.


def google_error(status: int, message: str, *details: Any) -> dict[str, Any]:
    """An error as Google's servers write it."""
    error = {"code": status, "message": message, "status": "RESOURCE_EXHAUSTED"}
    return {"error": {**error, "details": list(details)} if details else error}


def retry_info(delay: Any) -> dict[str, Any]:
    """The detail that says when to come again."""
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
async def test_google_says_in_the_error_itself_when_it_wants_to_be_asked_again(
    details: list[Any], seconds: float | None, listed: bool
) -> None:
    error = google_error(429, "You exceeded your quota", *details)
    told = await failure(httpx.Response(429, json=[error] if listed else error))
    assert not told.non_retryable
    assert told.next_retry_delay == (timedelta(seconds=seconds) if seconds else None)


async def test_a_header_counts_more_than_what_the_error_says() -> None:
    error = google_error(503, "overloaded", retry_info("37s"))
    response = httpx.Response(503, json=error, headers={"Retry-After": "2"})
    assert (await failure(response)).next_retry_delay == timedelta(seconds=2)


async def test_an_error_within_the_stream_is_an_error_with_its_delay() -> None:
    error = google_error(429, "You exceeded your quota", retry_info("3s"))
    body = events([event({"text": "Gut"}), error])
    with pytest.raises(ProviderRefused, match="429"):
        read(body)
    told = await failure(httpx.Response(200, content=body))
    assert told.next_retry_delay == timedelta(seconds=3)
    with pytest.raises(ProviderRefused):
        read(json.dumps([event({"text": "Gut"}), error]).encode())


async def test_a_bad_key_is_told_with_its_variable() -> None:
    error = google_error(400, "API key not valid. Please pass a valid API key.")
    told = await failure(httpx.Response(400, json=error))
    assert told.non_retryable
    assert "Check the key in the environment variable TEST_KEY" in told.message


@pytest.mark.parametrize(
    "message",
    [
        "JSON mode is not enabled for models/gemma-3-27b-it",
        "The specified schema produces a constraint that has too many states for serving.",
    ],
)
async def test_a_model_that_takes_no_form_is_asked_without(message: str) -> None:
    asked: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(understood(request.content))
        if len(asked) == 1:
            return httpx.Response(400, json=google_error(400, message))
        return httpx.Response(200, content=events([event({"text": "{}"}, finish="STOP")]))

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    request = ProviderRequest(
        ask(output={"type": "object"}), GeminiFormat().encode(said("user", "Hi"), NAMES).fragments
    )
    solution = await HttpProvider(GeminiFormat(), at(), http).solve(request, Heard())
    assert ["responseMimeType" in each["generationConfig"] for each in asked] == [True, False]
    assert "cannot be held to the output's schema" in solution.notices[0]
