"""What is logged in an activity names its place: its run, turn and call, and its span."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadConverter
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ExecuteActivityInput

from holdfast.activities.interceptors.attempt_spans import AttemptSpans, current_tracing
from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.runtime.telemetry.trace_context import current_place
from holdfast.schemas.internal.tracing import HEADER, Place, TraceOrigin, Tracing
from tests.activities.interceptors.test_secret_redaction import Does
from tests.support.traces import Recorder

PLACE = Place("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
SENT = {HEADER: PayloadConverter.default.to_payload(PLACE.header())}


async def seen(
    activity: str,
    id: str,
    told: Any,
    telemetry: Telemetry | None = None,
    headers: Mapping[str, Payload] | None = None,
    do: Callable[[], None] = lambda: None,
) -> dict[str, str]:
    """Where an attempt was, as what is logged has it when it is over."""
    environment = ActivityEnvironment()
    environment.info = replace(
        environment.info, activity_type=activity, activity_id=id, workflow_id="run-1"
    )
    around = AttemptSpans(Does(do), telemetry)
    attempt = ExecuteActivityInput(
        fn=lambda: None, args=[told], executor=None, headers=headers or {}
    )

    async def doing() -> dict[str, str]:
        with suppress(ApplicationError, CancelledError, ValueError):
            await around.execute_activity(attempt)
        return current_place()

    return await environment.run(doing)


@pytest.mark.parametrize(
    ("activity", "id", "told", "place"),
    [
        ("generate", "7", {"turn": 3}, {"run": "run-1", "turn": "3"}),
        (
            "generate",
            "7",
            {"turn": 3, "call": "t3c1"},
            {"run": "run-1", "turn": "3", "call": "t3c1"},
        ),
        ("pay", "t2c11-again", {"turn": 9}, {"run": "run-1", "turn": "2", "call": "t2c11"}),
        ("tell_people", "t2c1x", {}, {"run": "run-1"}),
    ],
)
async def test_an_attempt_is_of_a_run_a_turn_and_a_call(
    activity: str, id: str, told: dict[str, Any], place: dict[str, str]
) -> None:
    assert await seen(activity, id, told) == place


async def test_when_it_is_over_it_is_known_still_in_which_span_it_was() -> None:
    recorder = Recorder()
    chat = await seen("generate", "7", {"turn": 1}, recorder.telemetry, SENT)
    assert (chat["trace_id"], chat["span_id"]) == (PLACE.trace_id, PLACE.span_id)
    paid = await seen("pay", "t1c1", {}, recorder.telemetry, SENT)
    [span] = recorder.seen()
    assert (span.name, span.parent_id) == ("RunActivity:pay", PLACE.span_id)
    assert (paid["trace_id"], paid["span_id"]) == (span.trace_id, span.span_id)


async def test_a_header_in_another_form_is_ignored() -> None:
    recorder = Recorder()
    broken = {HEADER: Payload(metadata={"encoding": b"json/plain"}, data=b"{")}
    paid = await seen("pay", "t1c1", {}, recorder.telemetry, broken)
    assert paid == {"run": "run-1", "turn": "1", "call": "t1c1"}
    assert recorder.seen() == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ApplicationError("no", type="telling_failed"), "telling_failed"),
        (CancelledError("too late"), "cancelled"),
        (ValueError("no"), "ValueError"),
    ],
)
async def test_a_failed_attempt_reports_its_kind_alone(error: Exception, kind: str) -> None:
    def fail() -> None:
        raise error

    recorder = Recorder()
    await seen("pay", "t1c1", {}, recorder.telemetry, SENT, fail)
    [span] = recorder.seen()
    assert span.attributes["error.type"] == kind
    assert str(error) not in str(span)


@pytest.mark.parametrize("flags", ["00", "01"])
async def test_a_run_is_traced_as_its_starter_requested(flags: str) -> None:
    telemetry, found = Recorder().telemetry, list[Tracing]()
    place = PayloadConverter.default.to_payload(replace(PLACE, flags=flags).header())

    def look() -> None:
        found.append(current_tracing(telemetry))

    await seen("resolve_agent", "1", {}, telemetry, {HEADER: place}, look)
    assert [each.flags for each in found] == [flags]


async def test_without_a_starter_it_is_traced_as_its_own_trace_is() -> None:
    telemetry, asked = Recorder().telemetry, list[tuple[str, Place | None]]()

    class Asked(Telemetry):
        def flags(self, trace_id: str, place: Place | None) -> str:
            asked.append((trace_id, place))
            return "00"

    info = ActivityEnvironment.default_info()

    def look() -> None:
        current_tracing(Asked())

    await seen("resolve_agent", "1", {}, telemetry, do=look)
    run = TraceOrigin(info.workflow_namespace or "", "run-1", info.workflow_run_id or "")
    assert asked == [(run.trace_id(), None)]
