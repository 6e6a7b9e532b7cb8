"""What every activity of a worker returns or raises: measured before it is sent.

Each case runs as an activity and as a local activity of a workflow on a real server: unmeasured,
the local ones would fail the workflow task for ever.
"""

import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import Worker

from holdfast.activities.interceptors.chain import ActivityInterceptors
from holdfast.activities.interceptors.results import MAX_RESULT_BYTES, CheckedResults
from holdfast.hosting.sdk_workarounds.activity_definitions import with_raw_arguments
from holdfast.schemas import names
from tests.catalog.catalog_folder import Folder

STRICT = """
from datetime import date
from pydantic import BaseModel, field_validator
from temporalio import activity

class Order(BaseModel):
    order_id: str
    on: date

    @field_validator("order_id")
    @classmethod
    def known(cls, value: str) -> str:
        if not value.startswith("o-"):
            raise ValueError("an order's id begins with o-")
        return value

@activity.defn
async def look_up(order: Order) -> str:
    return f"{order.order_id} on {order.on:%d.%m.%Y}"

@activity.defn
def look_up_in_a_thread(order: Order) -> str:
    return f"{order.order_id} on {order.on:%d.%m.%Y}"
"""


@activity.defn
async def long_text(characters: int) -> str:
    return "x" * characters


@activity.defn
async def long_error(characters: int) -> None:
    raise RuntimeError("x" * characters)


@activity.defn
async def long_final_error(characters: int) -> None:
    raise ApplicationError("it is gone", "x" * characters, type="Gone", non_retryable=True)


@workflow.defn(sandboxed=False)
class Carry:
    @workflow.run
    async def run(self, name: str, argument: Any, local: bool) -> Any:
        execute: Any = workflow.execute_local_activity if local else workflow.execute_activity
        retry = RetryPolicy(maximum_attempts=2, initial_interval=timedelta(milliseconds=1))
        timeout = timedelta(minutes=2)
        try:
            return await execute(name, argument, start_to_close_timeout=timeout, retry_policy=retry)
        except (ActivityError, ApplicationError) as error:
            # A local activity's failure comes as it is, any other inside of one more.
            failed = error.cause if isinstance(error, ActivityError) else error
            assert isinstance(failed, ApplicationError)
            return {"type": failed.type, "message": failed.message, "final": failed.non_retryable}


class Carrier:
    def __init__(self, client: Client, queue: str, local: bool) -> None:
        self._client, self._queue, self._local = client, queue, local

    async def __call__(self, name: str, argument: Any) -> Any:
        return await self._client.execute_workflow(
            "Carry",
            args=[name, argument, self._local],
            id=f"carry-{uuid.uuid4().hex}",
            task_queue=self._queue,
            execution_timeout=timedelta(minutes=4),
        )


@pytest.fixture(params=[False, True], ids=["remote", "local"])
async def carry(
    client: Client, folder: Folder, request: pytest.FixtureRequest
) -> AsyncIterator[Carrier]:
    folder.module("strict.py", STRICT)
    queue = f"queue-{uuid.uuid4().hex[:8]}"
    with ThreadPoolExecutor(100) as threads:
        async with Worker(
            client,
            task_queue=queue,
            workflows=[Carry],
            activities=[
                *(long_text, long_error, long_final_error),
                *(with_raw_arguments(each.run) for each in folder.load().python.activities),
            ],
            activity_executor=threads,
            interceptors=[ActivityInterceptors(CheckedResults)],
        ):
            yield Carrier(client, queue, request.param)


LONG = 3_000_000
BOUND = MAX_RESULT_BYTES - len('""')
TOO_LARGE = (
    "it was run; its result has 3000002 bytes, and at most 2000000 can be kept: "
    "return less of it, or store it, and return its address; it begins: " + "x" * 2_000
)
SHORTENED = "x" * 10_000 + f"… ({LONG} characters)"
INVALID = (
    "`order_id`: Value error, an order's id begins with o-; "
    "`on`: Input should be a valid date or datetime, input is too short"
)


async def test_each_way_to_end(carry: Carrier) -> None:
    assert await carry("long_text", BOUND) == "x" * BOUND
    for name, argument, kind, message, final in (
        ("long_text", LONG, names.RESULT_TOO_LARGE, TOO_LARGE, True),
        ("long_error", LONG, "RuntimeError", SHORTENED, False),
        ("long_final_error", LONG, "Gone", "it is gone", True),
    ):
        assert await carry(name, argument) == {"type": kind, "message": message, "final": final}
    for name in ("look_up", "look_up_in_a_thread"):
        assert await carry(name, {"order_id": "o-1", "on": "2026-01-02"}) == "o-1 on 02.01.2026"
        refused = {"type": "invalid_arguments", "message": INVALID, "final": True}
        assert await carry(name, {"order_id": "1", "on": "soon"}) == refused
