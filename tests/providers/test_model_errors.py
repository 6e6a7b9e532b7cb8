"""An error states whether to try again, when, whose turn it is and what to do."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from temporalio.exceptions import ApplicationError

from holdfast.catalog.endpoints import FORMATS
from holdfast.providers.base import (
    FailedAnswer,
    ProviderRefused,
    TruncatedAnswer,
    UnanswerableRequest,
    UnreadableAnswer,
)
from holdfast.providers.model_errors import is_doubtful, provider_error, used_by
from holdfast.providers.transport.error_response import CUT, error_in_event, error_of_response
from holdfast.providers.transport.target import MIN_SECRET_CHARACTERS
from holdfast.runtime.http_post import retry_delay
from holdfast.schemas.internal.solution import NO_USAGE, Usage
from holdfast.schemas.settings.endpoints import ProviderName
from tests.providers.fakes import KEY, read_answer, stream, target

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def failed(error: Any, attempt: int = 1, /, **endpoint: Any) -> ApplicationError:
    return provider_error(error, target(**endpoint), "gpt-test", attempt)


WILL_NOT_PASS = [400, 401, 402, 403, 404, 405, 410, 413, 418, 422, 301]
MAY_PASS = [408, 409, 425, 429, 500, 502, 503, 504, 529]


@pytest.mark.parametrize("status", [*WILL_NOT_PASS, *MAY_PASS])
def test_what_may_pass_is_tried_again_and_what_will_not_fails_the_run(status: int) -> None:
    error = failed(ProviderRefused(status, "no such luck"))
    assert (error.type, error.non_retryable) == ("model_error", status in WILL_NOT_PASS)
    assert f"answered {status}: no such luck" in error.message


@pytest.mark.parametrize(
    "error",
    [
        TruncatedAnswer("the answer broke off"),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout(""),
        httpx.RemoteProtocolError("peer closed"),
        httpx.ReadError(""),
        httpx.PoolTimeout(""),
    ],
)
def test_a_broken_connection_is_tried_again(error: Exception) -> None:
    assert not failed(error).non_retryable


def test_a_lasting_error_is_final() -> None:
    assert failed(UnanswerableRequest("no key")).non_retryable
    assert failed(httpx.UnsupportedProtocol("ftp")).non_retryable


def test_what_is_no_answer_is_given_up_after_a_few_attempts() -> None:
    for error in (UnreadableAnswer("<html>"), FailedAnswer("the server failed", Usage())):
        assert is_doubtful(error)
        errors = [failed(error, attempt) for attempt in (1, 2, 3)]
        assert [each.non_retryable for each in errors] == [False, False, True]
    assert "baseUrl" in failed(UnreadableAnswer("<html>")).message


@pytest.mark.parametrize(
    ("status", "message", "is_final"),
    [
        (500, "image input is not supported - hint: you may need to provide the mmproj", True),
        (500, "Jinja Exception: Conversation roles must alternate", True),
        (500, "the context length of the model is only 4096 tokens", True),
        (501, "Unsupported param: tool_choice", True),
        (500, "llama runner process has terminated: cudaMalloc failed: out of memory", True),
        (500, "The server had an error while processing your request", False),
        (503, "this model is not supported at the moment", False),
    ],
)
def test_a_server_that_cannot_do_it_is_given_up_after_a_few_attempts(
    status: int, message: str, is_final: bool
) -> None:
    ends = [
        failed(ProviderRefused(status, message), attempt).non_retryable for attempt in (1, 2, 3, 4)
    ]
    assert ends == [False, False, is_final, is_final]


CREDIT = yaml.safe_load((Path(__file__).parent / "errors/credit.yaml").read_text())


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize(
    ("error", "is_final"),
    [*((each, True) for each in CREDIT["none"]), *((each, False) for each in CREDIT["limits"])],
)
def test_an_account_without_credit_is_final_and_a_limit_is_not(
    status: int, error: dict[str, str], is_final: bool
) -> None:
    in_response = error_of_response(status, {}, json.dumps({"error": error}).encode())
    in_stream = error_in_event({"error": error})
    for each in (in_response, in_stream):
        raised = failed(each)
        assert raised.non_retryable == is_final
        assert ("Check the balance" in raised.message) == is_final


BUSY = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
STARTED = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}
FULL = {"error": {"code": 429, "message": "slow"}}
DOWN = {
    "error": {"code": 503, "message": "down"},
    "choices": [{"delta": {"content": ""}, "finish_reason": "error"}],
}
CREATED = {"type": "response.created", "response": {"usage": None}}
LIMITED = {"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded"}}}
THOUGHT = {"type": "reasoning", "summary": [], "encrypted_content": "gA"}


@pytest.mark.parametrize(
    ("kind", "events", "used"),
    [
        ("anthropic", [BUSY], NO_USAGE),
        ("anthropic", [STARTED, BUSY], Usage()),
        ("openai", [{"choices": []}, FULL], NO_USAGE),
        ("openai", [DOWN], NO_USAGE),
        ("openai", [{"choices": [{"delta": {"content": "Yes"}}]}, FULL], Usage()),
        ("openai", [{"choices": [{"delta": {"reasoning_content": "Hm"}}]}, FULL], Usage()),
        ("openai-responses", [CREATED, LIMITED], NO_USAGE),
        (
            "openai-responses",
            [CREATED, {"type": "response.output_item.done", "item": THOUGHT}, LIMITED],
            Usage(),
        ),
    ],
)
def test_what_an_error_within_an_answer_used_is_unknown(
    kind: ProviderName, events: list[Any], used: Usage
) -> None:
    with pytest.raises(ProviderRefused) as refused:
        read_answer(FORMATS[kind], stream(events, end=""))
    assert used_by(refused.value) == used


def test_a_model_larger_than_the_memory_of_its_server_is_final() -> None:
    message = "model requires more system memory (8.4 GiB) than is available (5.1 GiB)"
    assert failed(ProviderRefused(500, message)).non_retryable


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Sun, 01 Mar 2026 12:01:30 GMT"}, 90),
        ({"retry-after": "86400"}, 3600),
        ({"retry-after": "Mon, 02 Mar 2026 12:00:00 GMT"}, 3600),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({}, None),
    ],
)
def test_it_is_tried_again_after_the_provider_s_delay(headers: Any, seconds: float | None) -> None:
    expected = None if seconds is None else timedelta(seconds=seconds)
    assert retry_delay(httpx.Headers(headers), NOW) == expected


@pytest.mark.parametrize(
    ("status", "endpoint", "fix"),
    [
        (401, {}, "environment variable TEST_KEY"),
        (403, {}, "environment variable TEST_KEY"),
        (401, {"apiKeyEnv": None}, "`apiKeyEnv`"),
        (404, {}, "`gpt-test`"),
    ],
)
def test_a_refusal_names_what_to_fix(status: int, endpoint: dict[str, Any], fix: str) -> None:
    assert fix in failed(ProviderRefused(status, "no"), **endpoint).message


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "bad model", "code": "x"}}',
        b'{"error": "bad model"}',
        b'{"message": "bad model"}',
        b'{"detail": "bad model"}',
        b'{"detail": [{"loc": ["body"], "msg": "bad model"}]}',
        b'[{"error": {"message": "bad model"}}]',
        b'{"object": "error", "message": "bad model", "code": 400}',
        b'{"errors": [{"message": "bad model"}]}',
        b"bad model\n",
    ],
)
def test_the_provider_s_message_is_found_in_its_several_shapes(body: bytes) -> None:
    assert error_of_response(400, {}, body).message == "bad model"


def test_a_problem_of_a_field_is_reported_with_its_place() -> None:
    extra = {"loc": ["body", "messages", 2, "name"], "msg": "Extra inputs are not permitted"}
    for body in ({"detail": [extra]}, {"object": "error", "message": {"detail": [extra]}}):
        told = error_of_response(422, {}, json.dumps(body).encode()).message
        assert told == "messages.2.name: Extra inputs are not permitted"


def test_an_error_without_a_message_is_reported_whole_and_a_page_is_not() -> None:
    assert error_of_response(400, {}, b'{"why": 7}').message == '{"why": 7}'
    assert "web page" in error_of_response(502, {}, b"<html><body>Bad gateway").message
    assert failed(error_of_response(500, {}, b"")).message.endswith("answered 500: nothing")
    assert error_of_response(400, {}, b"[" * 60_000).message.startswith("[[[")
    for opening, closing in ((b"[", b"]"), (b'{"error": ', b"}")):
        nested = opening * 400 + b'"x"' + closing * 400
        assert error_of_response(400, {}, nested).message.startswith((opening * 2).decode())


def test_a_long_message_is_shortened() -> None:
    assert len(error_of_response(400, {}, b"x" * 60_000).message) == 2_000


@pytest.mark.parametrize("shown", range(1, len(KEY)))
def test_no_part_of_a_secret_stands_where_a_quotation_was_cut(shown: int) -> None:
    body = "x" * (2_000 - len(CUT) - shown) + KEY
    message = failed(error_of_response(400, {}, (body + "y" * 100).encode())).message
    assert KEY[:MIN_SECRET_CHARACTERS] not in message
    assert CUT in message
