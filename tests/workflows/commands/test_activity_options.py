"""The options of a tool's activity: timeouts and retries, as its binding states them."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.schemas.tool import ActivityBinding
from holdfast.workflows.commands.activity_options import activity_config
from tests.engine.driver import Play, call, reply, tool

STATED = {
    "startToCloseTimeout": "5s",
    "scheduleToCloseTimeout": "1m",
    "retry": {
        "maximumAttempts": 2,
        "initialInterval": "2s",
        "backoffCoefficient": 1.5,
        "maximumInterval": "9s",
        "nonRetryableErrorTypes": ["NoSuchOrder"],
    },
}
ONCE = {"side_effects": True, "idempotent": False}


def options(stated: dict[str, Any], **rules: Any) -> dict[str, Any]:
    """The options with which the first call of a run is scheduled."""
    binding = ActivityBinding.model_validate({"type": "look", **stated})
    look = tool().model_copy(update={"activity": binding, **rules})
    play = Play(look, model=[reply("", call("look"))])
    play.take(play.next())
    play.next()
    assert play.run.phases.turn is not None
    [one] = play.run.phases.turn.calls
    config = activity_config(one, binding, "look", None)
    retry = config["retry_policy"]
    assert retry is not None
    return {
        "attempts": retry.maximum_attempts,
        "interval": (retry.initial_interval, retry.backoff_coefficient, retry.maximum_interval),
        "final": set(retry.non_retryable_error_types or ()),
        **{name: value for name, value in config.items() if name.endswith("timeout")},
    }


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


@pytest.mark.parametrize(
    ("stated", "attempts", "interval", "one", "all_of_them"),
    [
        ({}, 5, (seconds(1), 2.0, seconds(60)), seconds(30), timedelta(hours=24)),
        (STATED, 2, (seconds(2), 1.5, seconds(9)), seconds(5), seconds(60)),
    ],
)
def test_a_tool_is_attempted_as_its_binding_states(
    stated: dict[str, Any], attempts: int, interval: Any, one: timedelta, all_of_them: timedelta
) -> None:
    found = options(stated)

    assert (found["attempts"], found["interval"]) == (attempts, interval)
    assert found["start_to_close_timeout"] == one
    assert found["schedule_to_close_timeout"] == all_of_them
    assert ("NoSuchOrder" in found["final"]) is bool(stated)
    assert "StopRun" in found["final"]


def test_a_call_that_may_run_once_is_attempted_once() -> None:
    found = options(STATED, **ONCE)

    assert found["attempts"] == 1
    assert found["schedule_to_start_timeout"] == seconds(60)
    assert "schedule_to_close_timeout" not in found
