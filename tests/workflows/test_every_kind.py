"""Each kind of question is decided with the `temporal` command and what Temporal's page shows."""

import re
from typing import Any

import pytest
from temporalio.client import Client

from tests.support.backend import Launch
from tests.support.model_server import Answer, call
from tests.workflows.approvals.test_person import ASKS, ESCALATE, details, temporal

PAYS, DONE = Answer(calls=[call("pay", amount=5)]), Answer("done")
LOOKS, UNSURE = Answer(calls=[call("look_up", id=7)]), Answer(calls=[call("unsure")])
LIMITED = {"tools": ["look_up"], "budget": {"maxTurns": 1}, "onLimit": {"maxTurns": "ask"}}
# By the kind of the first question: what the model calls, its agent, and the result of the call.
KINDS: dict[str, tuple[Answer, dict[str, Any], str]] = {
    "call": (PAYS, {"tools": ["pay"]}, '{"paid": 5.0}'),
    "plan": (PAYS, {"tools": ["pay"], "plan": "lazy"}, '{"paid": 5.0}'),
    "input": (ASKS, {"tools": [ESCALATE]}, '{"answer": "YOUR ANSWER"}'),
    "budget": (LOOKS, LIMITED, '{"id": 7, "name": "item 7"}'),
    "reconcile": (UNSURE, {"tools": ["unsure"]}, "null"),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_it_is_decided(launch: Launch, client: Client, kind: str) -> None:
    first, agent, result = KINDS[kind]
    run = await (await launch([first, DONE])).start(agent=agent)
    [waiting] = await run.waiting()
    assert waiting["kind"] == kind
    decision = re.findall(r"^`(\{\n.*?\n\})`$", await details(run), re.S | re.M)[0]
    words = ("workflow", "update", "execute", "--workflow-id", run.id, "--name", "decide")
    assert "missing" in await temporal(client, *words, "--input", decision)
    assert (await run.result())["output"] == "done"
    assert await run.results() == {"t1c1": result}
