"""Agents with constant calls in place of a model, and the limits of a catalog, on a server."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Launch, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call

DONE = Answer("done")
# Pay what is in the input for an item, and return its name.
PAYER: dict[str, Any] = {
    "input": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    "calls": [
        {"_tool": "look_up", "id": "†input.id"},
        {"_tool": "pay", "amount": "†state.item.id", "_outputPath": "†state.payment"},
        {"_tool": "echo", "text": "Paid †{state.payment.paid} for †{state.item.name}."},
    ],
    "answer": {"item": "†state.item.name", "paid": "†state.payment.paid"},
}
SETTLE = {
    "_tool": "settle",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
    "_delegate": "payer",
    "_outputPath": "†state.settled",
}
SHOPS: list[dict[str, Any]] = [
    {"type": "data", "kind": "state", "data": {}, "_instance": name} for name in ("north", "south")
]


def catalog(folder: Path, **files: Any) -> Path:
    """A catalog with the agent `payer` and these files."""
    for name, content in {"agents/payer": PAYER, **files}.items():
        path = folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    return folder


async def asks_people(run: Run, call_id: str = "t1c1") -> bool:
    """Return whether the only delegate of a run waits for a decision on this call."""
    pending = [one for each in (await run.status())["delegates"] for one in each["pending"]]
    return call_id in [one["callId"] for one in pending]


async def test_a_run_has_its_title_and_in_the_end_the_schema_of_its_output(launch: Launch) -> None:
    output = {"properties": {"paid": {"title": "Paid back"}}}
    agent = {**PAYER, "title": "Item {id}", "output": output}
    run = await (await launch([], **SIDE_BY_SIDE)).start(agent=agent, input={"id": 7})
    [asked] = await run.waiting()
    status = await run.status()
    assert (asked["runTitle"], status["title"]) == ("Item 7", "Item 7")
    assert status["outputSchema"] is None
    await run.decide("t1c2", "approve")
    await run.result()
    assert (await run.status())["outputSchema"] == output


async def test_a_fixed_graph_of_tools_runs_with_its_approval_and_no_model(launch: Launch) -> None:
    backend = await launch([], **SIDE_BY_SIDE)
    run = await backend.start(agent=PAYER, input={"id": 7})
    [asked] = await run.waiting()
    assert (asked["callId"], asked["tool"], asked["arguments"]) == ("t1c2", "pay", {"amount": 7})

    await run.decide("t1c2", "approve")
    result = await run.result()
    assert (result["status"], result["turns"], result["calls"]) == ("completed", 0, 3)
    assert result["output"] == {"item": "item 7", "paid": 7}
    assert (await run.results())["t1c3"] == "Paid 7.0 for item 7."
    assert backend.model.requests == []
    assert len(tools.read()) == 1


async def test_a_fixed_graph_is_a_tool_that_calls_tools_for_an_instance(
    launch: Launch, tmp_path: Path
) -> None:
    """The model calls one tool; the calls of the graph are approved in the delegate."""
    answers = [Answer(calls=[call("settle", id=7, _instance="north")]), DONE]
    backend = await launch(answers, catalog=catalog(tmp_path / "desk"), **SIDE_BY_SIDE)
    run = await backend.start([SETTLE], context=[{"content": SHOPS}])
    await eventually(lambda: asks_people(run, "t1c2"))
    [asked] = await run.delegate("t1c1").waiting()
    assert asked["arguments"] == {"amount": 7}

    await run.delegate("t1c1").decide("t1c2", "approve")
    result = await run.result()
    settled = {"settled": {"item": "item 7", "paid": 7}}
    assert result["instances"] == {"north": settled, "south": {}}
    assert (result["turns"], result["calls"]) == (2, 4)


@pytest.mark.parametrize("policy", [{"require": "never"}, {"auto": ["pay"]}])
async def test_the_limits_of_a_catalog_hold_for_an_agent_of_a_request(
    launch: Launch, tmp_path: Path, policy: dict[str, Any]
) -> None:
    limits = {"approval": {"require": "side_effects"}, "budget": {"maxTurns": 1}}
    folder = catalog(tmp_path / "desk", limits=limits)
    answers = [Answer(calls=[call("pay", amount=5)]), DONE]
    backend = await launch(answers, catalog=folder, **SIDE_BY_SIDE)
    run = await backend.start(["p?y"], agent={"approval": policy, "budget": {"maxTurns": 9}})
    await run.waiting()
    await run.decide("t1c1", "approve")
    assert (await run.result())["status"] == "budget_exceeded"


async def test_a_reference_counts_from_the_end_and_quotes_a_key(launch: Launch) -> None:
    agent = {
        "calls": [
            {"_tool": "echo", "text": "†state.names[-1]", "_outputPath": "†state.tags['of all']"}
        ],
        "answer": '†{state.tags["of all"]} of †{state.names[-2]}',
    }
    run = await (await launch([])).start(agent=agent, state={"names": ["Ada", "Bob"]})

    assert (await run.result())["output"] == "Bob of Ada"
