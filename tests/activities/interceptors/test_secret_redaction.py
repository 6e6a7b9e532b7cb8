"""What an activity sends holds no secret of its worker, whichever way it leaves."""

import json
import logging
from collections.abc import Callable
from typing import Any, cast

import pytest
from pydantic import BaseModel, field_serializer
from temporalio.api.failure.v1 import Failure
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.testing import ActivityEnvironment
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
)

from holdfast.activities.interceptors.results import MAX_MESSAGE_CHARS, CheckedResults
from holdfast.runtime.data_converter import PlainFailureConverter
from holdfast.runtime.secrets import REPLACED, Secrets

KEY = 'sk-live-0123"x'
SECRETS = Secrets([KEY])
CONVERTER = pydantic_data_converter.payload_converter


class Does(ActivityInboundInterceptor):
    def __init__(self, something: Callable[[], Any]) -> None:
        self._something = something

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        self.outbound = outbound

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        return self._something()


class RecordingOutbound(ActivityOutboundInterceptor):
    def __init__(self) -> None:
        self.beats: list[Any] = []

    def heartbeat(self, *details: Any) -> None:
        payloads = CONVERTER.to_payloads(details)
        self.beats.append([json.loads(payload.data) for payload in payloads])


async def run_as_activity(something: Callable[[], Any]) -> Any:
    environment = ActivityEnvironment()
    environment.payload_converter = CONVERTER
    inner = CheckedResults(Does(something), secrets=SECRETS)
    raw = await environment.run(inner.execute_activity, cast(ExecuteActivityInput, None))
    assert isinstance(raw, RawValue)
    return raw.payload


async def raised(error: Exception) -> Failure:
    def fail() -> Any:
        raise error

    with pytest.raises(Exception) as failed:  # noqa: PT011
        await run_as_activity(fail)
    failure = Failure()
    PlainFailureConverter().to_failure(failed.value, CONVERTER, failure)
    assert not SECRETS.occur_in(failure.SerializeToString())
    return failure


class Found(BaseModel):
    environment: dict[str, str]


@pytest.mark.parametrize(
    ("result", "sent"),
    [
        (f"it is {KEY}", f"it is {REPLACED}"),
        (Found(environment={"KEY": KEY}), {"environment": {"KEY": REPLACED}}),
        ([{KEY: [json.dumps(KEY)]}, 1.0], [{REPLACED: [f'"{REPLACED}"']}, 1.0]),
        ({"plain": "ü†", "n": 10**20}, {"plain": "ü†", "n": 10**20}),
    ],
)
async def test_a_result(result: Any, sent: Any) -> None:
    payload = await run_as_activity(lambda: result)
    assert json.loads(payload.data) == sent
    assert payload.metadata["encoding"] == b"json/plain"


async def test_a_result_of_bytes() -> None:
    payload = await run_as_activity(lambda: b"\xff" + KEY.encode())
    assert payload.data == b"\xff" + REPLACED.encode()


async def test_an_error_with_its_details_and_its_causes() -> None:
    error = ApplicationError(
        f"no: {KEY}",
        {"seen": KEY},
        type="Refused",
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )
    error.__cause__ = KeyError(KEY)
    failure = await raised(error)
    info = failure.application_failure_info
    assert failure.message == f"no: {REPLACED}"
    assert (info.type, info.non_retryable) == ("Refused", True)
    assert info.category == int(ApplicationErrorCategory.BENIGN)
    assert json.loads(info.details.payloads[0].data) == {"seen": REPLACED}
    assert REPLACED in failure.cause.message
    assert failure.cause.application_failure_info.type == "KeyError"
    assert not failure.stack_trace, "it was raised on purpose"


async def test_a_bug_keeps_its_name_and_its_stack() -> None:
    failure = await raised(RuntimeError(f"environ({{'KEY': {KEY!r}}})"))
    assert failure.message == f"environ({{'KEY': '{REPLACED}'}})"
    assert failure.application_failure_info.type == "RuntimeError"
    assert "test_secret_redaction.py" in failure.stack_trace


async def test_one_that_is_too_long_is_shortened_and_clean() -> None:
    failure = await raised(RuntimeError(f"{KEY} {'x' * 200_000}"))
    assert failure.message.startswith(REPLACED)
    assert len(failure.message) < 2 * MAX_MESSAGE_CHARS


@pytest.mark.parametrize(
    ("text", "details"),
    [
        (f"401 for {KEY}", [object()]),
        (f"401 for {KEY}: \ud83d", []),
        (f"401 for {KEY} ", ["\ud83d"]),
    ],
)
async def test_one_that_cannot_be_encoded_keeps_its_message_and_type(
    text: str, details: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    error = ApplicationError(text, *details, type=f"Refused {KEY}\ud83d", non_retryable=True)
    failure = await raised(error)
    info = failure.application_failure_info
    assert failure.message == f"401 for {REPLACED}{text.partition(KEY)[2]}".replace("\ud83d", "?")
    assert (info.type, info.non_retryable) == (f"Refused {REPLACED}?", True)
    assert "`unknown` raised a secret of this worker" in caplog.text


async def test_the_error_of_a_result_that_cannot_be_encoded_is_clean() -> None:
    class Unreadable(BaseModel):
        field: str = ""

        @field_serializer("field")
        def refuse(self, _: str) -> str:
            raise ValueError(KEY)

    with pytest.raises(ApplicationError, match="its result is no JSON value") as failed:
        await run_as_activity(Unreadable)
    assert not SECRETS.occur_in(str(failed.value).encode())


async def test_an_error_without_one_is_raised_as_it_is() -> None:
    error = ValueError("plain")

    def fail() -> Any:
        raise error

    with pytest.raises(ValueError, match="plain") as failed:
        await run_as_activity(fail)
    assert failed.value is error


async def test_a_heartbeat() -> None:
    told = RecordingOutbound()
    inbound = Does(lambda: inbound.outbound.heartbeat({"text": f"so {KEY}"}, "plain"))
    environment = ActivityEnvironment()
    environment.payload_converter = CONVERTER
    measured = CheckedResults(inbound, secrets=SECRETS)
    measured.init(told)
    await environment.run(measured.execute_activity, cast(ExecuteActivityInput, None))
    assert told.beats == [[{"text": f"so {REPLACED}"}, "plain"]]


async def test_the_log_names_the_activity(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "holdfast"):
        await run_as_activity(lambda: KEY)
    [record] = caplog.records
    assert "`unknown` sent a secret of this worker" in record.getMessage()
