"""A run hangs in the trace of whoever starts it: as HTTP says where that is, and an environment."""

import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.converter import DataConverter

from holdfast.client.start import MAX_STATE_CHARACTERS, environment_caller, trace_caller
from holdfast.schemas.internal.tracing import HEADER
from tests.cli.conftest import Holdfast
from tests.support.house import House, OpenHouse
from tests.support.model_server import Answer

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_an_environment_says_it_in_capitals() -> None:
    found = environment_caller({"TRACEPARENT": PARENT, "TRACESTATE": "a=1", "BAGGAGE": "who=ada"})
    assert found is not None
    assert found.header() == {"traceparent": PARENT, "tracestate": "a=1"}
    assert environment_caller({"traceparent": PARENT}) is None


@pytest.mark.parametrize("wrong", ["", "00-xyz", f"{PARENT},{PARENT}", f"{PARENT}\n"])
def test_who_says_it_wrongly_is_in_no_trace(wrong: str) -> None:
    assert trace_caller({"traceparent": wrong, "tracestate": "a=1"}) is None


@pytest.mark.parametrize("state", ["", "a=\n1", "a=é", "a" * (MAX_STATE_CHARACTERS + 1)])
def test_a_state_that_is_no_good_costs_the_trace_nothing(state: str) -> None:
    found = trace_caller({"traceparent": PARENT, "tracestate": state})
    assert found is not None
    assert found.header() == {"traceparent": PARENT}


async def test_what_a_command_starts_hangs_where_its_environment_says(
    open_house: OpenHouse, holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = await open_house([Answer("done")])
    agent = tmp_path / "clerk.json"
    agent.write_text(json.dumps({"name": "clerk", "model": {"endpoint": "fake", "name": "fake"}}))
    queue = ("--task-queue", house.task_queue)
    run = ("run", f"@{agent}", *queue, "--input", "go", "--detach")
    monkeypatch.delenv("TRACEPARENT", raising=False)
    alone = await holdfast(*run)
    monkeypatch.setenv("TRACEPARENT", PARENT)
    inside = await holdfast(*run)
    single = await holdfast("call", "look_up", *queue, "--arguments", '{"id": 7}', "--detach")

    assert await sent(house, alone.out.strip()) is None
    for one in (inside, single):
        assert await sent(house, one.out.strip()) == {"traceparent": PARENT}


async def sent(house: House, run_id: str) -> Any:
    """What a run was told of where its starter is in a trace."""
    history = await house.client.get_workflow_handle(run_id).fetch_history()
    fields = history.events[0].workflow_execution_started_event_attributes.header.fields
    if HEADER not in fields:
        return None
    return DataConverter.default.payload_converter.from_payload(fields[HEADER])
