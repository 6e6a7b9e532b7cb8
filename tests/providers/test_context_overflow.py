"""A conversation that is too long for its model is known by what each provider sends of it.

The errors are in `errors/context_overflow.yaml`.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from holdfast.providers.answer.streamed_answer import StreamedAnswer
from holdfast.providers.base import ContextOverflow, ProviderRefused, ToolNames
from holdfast.providers.context_overflow import OVERFLOW_PATTERNS, error_texts
from holdfast.providers.model_errors import provider_error
from holdfast.providers.openai.answer import OpenAIAnswerReader
from holdfast.providers.transport.error_response import error_in_event, error_of_response
from tests.providers.fakes import KEY, ReceivedText, provider, request, target


@dataclass(frozen=True)
class ErrorCase:
    """An error, and how long a conversation may be by it."""

    body: Any
    status: int = 400
    window: int | None = None


def error_case(fields: dict[str, Any]) -> ErrorCase:
    """Read a case; a `message` is in the form of OpenAI's errors."""
    error = {"message": fields.pop("message", ""), "type": "invalid_request_error", "code": None}
    return ErrorCase(**{"body": {"error": error}, **fields})


TABLE = yaml.safe_load((Path(__file__).parent / "errors/context_overflow.yaml").read_text())
KNOWN = {name: error_case(fields) for name, fields in TABLE["known"].items()}
LIKELY = {
    text: error_case({"message": text, "window": size}) for text, size in TABLE["likely"].items()
}
UNLIKELY = {text: error_case({"message": text}) for text in TABLE["unlikely"]}
OTHERS = {name: error_case(fields) for name, fields in TABLE["others"].items()}
TOO_LONG, OTHERWISE = KNOWN | LIKELY, UNLIKELY | OTHERS


def in_response(error: ErrorCase) -> Any:
    return error_of_response(error.status, {}, json.dumps(error.body).encode())


def in_stream(error: ErrorCase) -> Any:
    return error_in_event(error.body[0] if isinstance(error.body, list) else error.body)


@pytest.mark.parametrize("error", TOO_LONG.values(), ids=TOO_LONG)
def test_the_errors_of_providers_for_too_long_a_conversation_are_recognized(
    error: ErrorCase,
) -> None:
    found = in_response(error), in_stream(error)
    assert [type(each) for each in found] == [ContextOverflow] * 2
    assert found[0].status == error.status
    assert [each.window for each in found] == [error.window] * 2


def test_each_pattern_has_an_example() -> None:
    texts = [error_texts(each.body) for each in KNOWN.values()]
    unseen = [
        each.pattern for each in OVERFLOW_PATTERNS if not any(each.search(text) for text in texts)
    ]
    assert unseen == []


@pytest.mark.parametrize("error", OTHERWISE.values(), ids=OTHERWISE)
def test_other_refusals_are_not_taken_for_it(error: ErrorCase) -> None:
    assert isinstance(in_response(error), ProviderRefused)
    assert not isinstance(in_stream(error), ContextOverflow)


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_what_was_not_asked_was_not_too_long(status: int) -> None:
    assert isinstance(
        error_of_response(status, {}, b'{"error": "prompt is too long"}'), ProviderRefused
    )


@pytest.mark.parametrize("body", [b"", b"<html><h1>413 Request Entity Too Large</h1>", b"{}"])
def test_a_body_that_a_server_finds_too_large_is_too_long_whatever_its_text(body: bytes) -> None:
    assert isinstance(error_of_response(413, {}, body), ContextOverflow)


def test_it_is_known_in_plain_text() -> None:
    error = error_of_response(400, {}, b"prompt is too long: 210000 tokens > 200000 maximum\n")
    assert isinstance(error, ContextOverflow)
    assert error.window == 200_000


async def test_it_is_neither_conceded_to_nor_asked_again() -> None:
    asked: list[httpx.Request] = []

    def handler(sent: httpx.Request) -> httpx.Response:
        asked.append(sent)
        return httpx.Response(400, json=KNOWN["OpenAI"].body)

    with pytest.raises(ContextOverflow):
        await provider(handler).solve(request(), ReceivedText())
    assert len(asked) == 1


def test_it_is_known_in_the_middle_of_an_answer() -> None:
    reading = OpenAIAnswerReader(StreamedAnswer(ReceivedText(), ToolNames(())))
    reading.read(json.dumps({"choices": [{"index": 0, "delta": {"content": "So"}}]}))
    with pytest.raises(ContextOverflow):
        reading.read(json.dumps({"error": "Context size has been exceeded"}))


def test_where_it_must_fail_a_run_it_quotes_the_provider() -> None:
    refused = ContextOverflow(400, f"prompt is too long for {KEY}")
    error = provider_error(refused, target(), "gpt-test", 1)
    assert (error.type, error.non_retryable) == ("model_error", True)
    assert error.message.endswith("answered 400: prompt is too long for [secret]")
    at_home = target(provider="ollama", baseUrl="http://127.0.0.1:11434")
    assert (
        "`num_ctx`" in provider_error(ContextOverflow(400, "too long"), at_home, "qwen3", 1).message
    )


def test_a_quoted_error_of_another_provider_is_reported() -> None:
    quoted = in_response(KNOWN["OpenRouter, of a provider"]).message
    assert quoted.startswith("This model's maximum context length is")
