"""What the request of a fork takes from the run that it begins with, and what it has to name."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import JsonValue
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.contrib.pydantic import pydantic_data_converter

from holdfast.client.errors import HoldfastError
from holdfast.client.holdfast_client import HoldfastClient, fork_request
from holdfast.client.remote_run import origin_of, summary_of
from holdfast.client.run import Run
from holdfast.client.run_lists import RunListing
from holdfast.schemas import names
from holdfast.schemas.run import Fork
from tests.support.backend import SIDE_BY_SIDE, Launch
from tests.support.model_server import Answer, call


@pytest.mark.parametrize("agent", [None, names.UNNAMED_AGENT])
async def test_an_agent_that_only_its_request_had_is_named_again(
    monkeypatch: pytest.MonkeyPatch, agent: str | None
) -> None:
    async def describe(_: Run) -> None: ...

    listing: Any = SimpleNamespace(agent=agent, single=False, status="failed")
    monkeypatch.setattr(Run, "describe", describe)
    monkeypatch.setattr(RunListing, "of", lambda _: listing)
    temporal: Any = SimpleNamespace(
        data_converter=pydantic_data_converter, get_workflow_handle=lambda _: None
    )
    client = HoldfastClient(temporal)

    with pytest.raises(HoldfastError, match="name the agent that continues it"):
        await fork_request(client, "run-1", {})
    assert await fork_request(client, "run-1", {"agent": "desk"}, 0) == {
        "agent": "desk",
        "fork": {"run": "run-1", "turn": 0},
    }


async def test_a_program_forks_a_run(launch: Launch, client: Client) -> None:
    says = [Answer(calls=[call("look_up", id=7)]), Answer("Seven."), Answer("Still seven.")]
    backend = await launch(says, **SIDE_BY_SIDE)
    source = await backend.start(["look_up"])
    await source.result()
    agents = HoldfastClient(client, backend.task_queue)
    clerk: dict[str, JsonValue] = {
        "model": {"endpoint": "fake", "name": "fake"},
        "tools": ["look_up"],
    }

    early = await agents.run(source.id).fork(at=1, agent=clerk)
    late = await agents.fork(source.id, "And now?", agent=clerk, id=f"{source.id}-late")

    assert [await early.result(), await late.result()] == ["Seven.", "Still seven."]
    assert await late.state() == {"item": {"id": 7, "name": "item 7"}}
    with pytest.raises(HoldfastError, match="ended with an answer"):
        await agents.fork(source.id, agent=clerk)
    beyond = await agents.fork(source.id, turn=9, agent=clerk)
    with pytest.raises(HoldfastError, match="invalid_request"):
        await beyond.result()
    about = await beyond.describe()
    assert await origin_of(about) == Fork(run=source.id, turn=9), "although it could not begin"
    assert await about.static_summary() == f"agent: Fork of {source.id} at turn 9"
    again = await agents.fork(source.id, "And now?", agent=clerk, id=f"{source.id}-late")
    assert await again.result() == "Still seven.", "the same id starts nothing twice"


async def test_what_any_client_may_write_of_a_run_breaks_no_list() -> None:
    async def memo(*_: object, **__: object) -> Any:
        return "x"

    async def summary() -> Any:
        return 7

    run = cast(
        WorkflowExecutionDescription, SimpleNamespace(memo_value=memo, static_summary=summary)
    )
    assert (await origin_of(run), await summary_of(run)) == (None, None)
