"""`kill -9` of an external worker after the money was booked and before that was reported."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from tests.languages.payments import Payments
from tests.languages.wire import LoopbackWire
from tests.support.backend import Launch, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call

ANSWERS = [Answer(calls=[call("refund", order_id="1042", amount=249)]), Answer("done")]

CutOff = Callable[[], Awaitable[Run]]


@pytest.fixture
def cut_off(payments: Payments, launch: Launch) -> CutOff:
    """Have a refund executed by a worker that is killed before it can report it."""

    async def cut_off_() -> Run:
        async with LoopbackWire(payments.address) as wire:
            await payments.start(wire.address)
            run = await (await launch(ANSWERS)).start(["refund"])
            await run.waiting()
            wire.mute()
            await run.decide("t1c1", "approve", by="ada")
            await eventually(_booked)
            payments.kill()
        return run

    async def _booked() -> list[dict[str, Any]]:
        return payments.booked()

    return cut_off_


async def _attempts(run: Run) -> list[int]:
    """Of each refund that was started, how many attempts it took."""
    events = await run.history()
    scheduled = {
        event.event_id
        for event in events
        if event.activity_task_scheduled_event_attributes.activity_type.name == "RefundOrder"
    }
    began = [
        event.activity_task_started_event_attributes
        for event in events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED
    ]
    return [each.attempt for each in began if each.scheduled_event_id in scheduled]


async def test_the_refund_is_made_exactly_once(payments: Payments, cut_off: CutOff) -> None:
    run = await cut_off()
    [payment] = payments.booked()
    assert payment["key"] == f"{run.id}/t1c1"
    await payments.start()
    result = await run.result()
    assert await _attempts(run) == [2]
    assert payments.booked() == [payment]
    refund = {name: payment[name] for name in ("refund_id", "order_id", "amount")}
    assert result["state"] == {"refund": refund}


async def test_a_refund_without_a_key_is_asked_about_and_never_repeated(
    payments: Payments, cut_off: CutOff, tools: Path
) -> None:
    written = (tools / "refund.yaml").read_text("utf-8")
    careless = re.sub(r"^_idempotent: true.*\n", "", written, flags=re.MULTILINE)
    assert careless != written
    (tools / "refund.yaml").write_text(careless, "utf-8")
    run = await cut_off()
    [payment] = payments.booked()
    await payments.start()
    [waiting] = await run.waiting()
    assert (waiting["callId"], waiting["kind"]) == ("t1c1", "reconcile")
    refund = {name: payment[name] for name in ("refund_id", "order_id", "amount")}
    await run.decide("t1c1", "happened", result=refund)
    assert (await run.result())["state"] == {"refund": refund}
    assert await _attempts(run) == [1]
    assert payments.booked() == [payment]
