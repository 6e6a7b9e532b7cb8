"""§8: a delegate may do no more than the run that it works for, asks people for itself, and ends
with that run; on a real server."""

import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from tests.engine.execution.test_delegation import asks as request_of
from tests.engine.execution.test_delegation import helper
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Launch
from tests.support.model_server import Answer, call
from tests.workflows.commands.test_child_workflows import ASK, agents, by_agent, ends, waits

PAYS = [Answer(calls=[call("pay", amount=5)]), Answer("paid")]
ASKS = [Answer(calls=[call("ask", task="Pay 5.")]), Answer("done")]
MOOD = {"type": "object", "properties": {"mood": {"type": "string"}}}
GUESS = {"_tool": "ask", "description": "Guess", "_delegate": "anonymous", "_output": MOOD}
FREE = {"auto": ["pay", "ask"], "require": "never", "onTimeout": "approve"}


@pytest.fixture
async def home(launch: Launch, tmp_path: Path) -> Any:
    """A backend whose helper pays."""
    catalog = agents(tmp_path / "catalog", helper={"tools": ["pay"]})
    guesses = [PAYS[0], Answer(json.dumps({"mood": "good"}))]
    said = by_agent(Test=ASKS, helper=PAYS, Guess=guesses)
    return await launch(said, catalog=catalog, **SIDE_BY_SIDE)


async def test_leave_of_the_one_who_asks_is_none_of_a_delegate(home: Any) -> None:
    run = await home.start([ASK, "pay"], agent={"approval": FREE})
    child = run.delegate("t1c1")
    assert [one["tool"] for one in await waits(child)] == ["pay"]
    for call_id in ("t1c1", "t1c1.t1c1", f"{child.id} t1c1"):
        await run.signal(call_id, "approve", by="ann", remember=True)
    await child.decide("t1c1", "deny", by="ann")
    await run.result()

    assert tools.read() == []


async def test_a_run_that_may_not_wait_has_no_delegate_that_does(home: Any) -> None:
    run = await home.start([ASK], approvals="deny")
    await run.result()

    assert (await run.delegate("t1c1").error())["code"] == "denied"
    assert tools.read() == []


async def test_an_anonymous_one_has_none_of_its_parents_tools(home: Any) -> None:
    run = await home.start([GUESS, "pay"], agent={"approval": FREE})
    await run.result()

    assert (await run.delegate("t1c1").error())["code"] == "tool_not_allowed"
    assert tools.read() == []


async def test_none_outlives_its_run_to_pay(home: Any) -> None:
    run = await home.start([ASK])
    child = run.delegate("t1c1")
    await waits(child)
    await run.handle.cancel()
    await ends(child, WorkflowExecutionStatus.CANCELED)

    with pytest.raises(RPCError):
        await child.decide("t1c1", "approve", by="ann")
    assert tools.read() == []


# What it is asked: decided without a server.


@pytest.mark.parametrize("principal", [None, {"id": "ada"}])
def test_text_given_to_a_delegate_makes_no_principal_of_it(principal: Any) -> None:
    asked = request_of(helper(scopes=["principal", "approvals"]), principal=principal).request

    assert asked.get("principal") == principal
    assert asked["input"] == {"text": "hello"}
