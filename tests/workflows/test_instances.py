"""Instances (§8): one run, several data contexts, none of which sees another's."""

import json

import pytest
from temporalio.client import WorkflowQueryFailedError

from tests.support.house import OpenHouse
from tests.support.model_server import Answer, call

DONE = Answer("done")


def said(instance: str, number: int) -> dict[str, object]:
    """The data that one instance begins with."""
    return {"type": "data", "kind": "input", "data": {"id": number}, "_instance": instance}


async def test_two_instances_go_their_own_ways_in_one_run(open_house: OpenHouse) -> None:
    answers = [
        Answer(
            calls=[
                call("look_up", id="†input.id", _instance="first"),
                call("look_up", id="†input.id", _instance="second"),
                call("echo", text="†state.item.name", _instance="second"),
                call("look_up", id="†input.id"),
            ]
        ),
        DONE,
    ]
    house = await open_house(answers)
    context = [{"content": [said("first", 1), said("second", 2)]}]
    run = await house.start(["look_up", "echo"], context=context, state={"tone": "kind"})
    result = await run.result()

    first, second = {"id": 1, "name": "item 1"}, {"id": 2, "name": "item 2"}
    assert result["instances"] == {"first": {"item": first}, "second": {"item": second}}
    assert result["state"] == {"tone": "kind"}
    results = await run.results()
    assert results["t1c3"] == "item 2"
    assert "name one of [first, second]" in results["t1c4"]

    assert await run.handle.query("state") == {"tone": "kind"}
    assert await run.handle.query("state", "second") == {"tone": "kind", "item": second}
    with pytest.raises(WorkflowQueryFailedError, match="no instance `frist`; did you mean `first`"):
        await run.handle.query("state", "frist")

    first_asked, then_asked = house.model.requests
    assert '"enum": ["first", "second"]' in json.dumps(first_asked["tools"])
    assert "of its own" not in first_asked["messages"][-1]["content"]
    assert 'second: {"item": {"id": 2, "name": "item 2"}}' in then_asked["messages"][-1]["content"]
