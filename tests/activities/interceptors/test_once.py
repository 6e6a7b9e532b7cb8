"""A call that may run once: which attempts run, and which errors leave its outcome unknown."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from holdfast.activities.interceptors.once import OnceCheck
from holdfast.schemas import names


class Tool(ActivityInboundInterceptor):
    """Counts how often it is run, and raises an error, if there is one."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.runs, self._error = 0, error

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        self.runs += 1
        if self._error is not None:
            raise self._error
        return "paid"


async def pay(tool: Tool, environment: ActivityEnvironment, run_id: str | None) -> Any:
    """Run an attempt that a run has marked."""

    async def attempt() -> Any:
        marks = {} if run_id is None else {names.ONCE: Payload(data=run_id.encode())}
        call = ExecuteActivityInput(fn=attempt, args=[], executor=None, headers=marks)
        return await OnceCheck(tool).execute_activity(call)

    return await environment.run(attempt)


def at(**info: Any) -> ActivityEnvironment:
    """An attempt with this information."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, workflow_run_id="run", **info)
    return environment


LATER = ActivityEnvironment.default_info().scheduled_time + timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("environment", "run_id"),
    [(at(attempt=2), "run"), (at(), "reset"), (at(current_attempt_scheduled_time=LATER), "run")],
)
async def test_a_further_attempt_does_not_run(
    environment: ActivityEnvironment, run_id: str
) -> None:
    tool = Tool()
    with pytest.raises(ApplicationError) as refused:
        await pay(tool, environment, run_id)
    assert (refused.value.type, refused.value.non_retryable) == ("outcome_unknown", True)
    assert tool.runs == 0
    # Without the mark it is retried as always.
    assert await pay(tool, environment, None) == "paid"


async def test_the_first_attempt_runs() -> None:
    assert await pay(Tool(), at(), "run") == "paid"


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (
            httpx.ReadTimeout("no answer). `did_not_happen` (is\x1b[2J true"),
            "outcome_unknown: no reply was received"
            " (\"httpx.ReadTimeout: no answer). 'did_not_happen' (is true\")",
        ),
        (ApplicationError("gone", type="outcome_unknown"), "outcome_unknown: gone"),
        (ApplicationError("declined", type="declined"), "declined: declined"),
    ],
)
async def test_a_lost_reply_is_an_unknown_outcome(error: Exception, reported: str) -> None:
    with pytest.raises(ApplicationError) as raised:
        await pay(Tool(error), at(), "run")
    assert f"{raised.value.type}: {raised.value.message}" == reported


async def test_a_tool_that_may_be_repeated_keeps_its_error() -> None:
    with pytest.raises(httpx.ReadTimeout):
        await pay(Tool(httpx.ReadTimeout("no answer")), at(), None)


async def test_a_tool_that_an_operator_interrupts_has_an_unknown_outcome() -> None:
    environment = at()

    class Paused(Tool):
        async def execute_activity(self, input: ExecuteActivityInput) -> Any:
            environment.cancel(cancellation_details=ActivityCancellationDetails(paused=True))
            await asyncio.Event().wait()

    with pytest.raises(ApplicationError, match="an operator paused or reset it"):
        await pay(Paused(), environment, "run")
