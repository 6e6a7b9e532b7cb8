"""The cost of a run is what the server counts."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.client import Client

from bench.counters import ACTIONS, Counters
from bench.server import Server, embedded
from holdfast.hosting.temporal import usable_search_attributes
from tests.cli.conftest import Holdfast
from tests.support.backend import Launch, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call

ASK: dict[str, Any] = {
    "_tool": "ask",
    "description": "Ask the clerk.",
    "properties": {"text": {"type": "string"}},
    "_delegate": "clerk",
}
ANSWERS = {
    "Test.": [
        Answer("", [call("look_up", id=7), call("quick", text="a"), call("ask", text="pay 5")]),
        Answer("", [call("pay", amount=4)]),
        Answer("Done."),
    ],
    "You are a clerk.": [Answer("", [call("pay", amount=5)]), Answer("Paid.")],
}


def answers(turn: int, body: dict[str, Any]) -> Answer:
    """The answers of the run, and of its delegate."""
    return ANSWERS[body["messages"][0]["content"].partition("\n")[0]][turn - 1]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server that counts Actions for this test alone."""
    async with embedded() as server:
        await usable_search_attributes(server.client)
        yield server


@pytest.fixture
def client(server: Server) -> Client:
    """A client of that server."""
    return server.client


async def test_the_actions_of_a_run_and_its_delegates_are_those_that_the_server_counts(
    server: Server, launch: Launch, holdfast: Holdfast
) -> None:
    backend = await launch(answers, continue_after=15)
    run = await backend.start(["look_up", "quick", "pay", ASK])
    await eventually(lambda: _has_delegate(run))
    await run.delegate("t1c3").waiting()
    await run.delegate("t1c3").signal("t1c1", "approve")
    await run.waiting()
    await run.decide("t2c1", "approve")
    await run.result()
    counted = await billed(server.counters)

    said = await holdfast("cost", run.id, "--json")

    cost = json.loads(said.out)
    assert sum(cost["actions"].values()) == counted
    assert all(cost["actions"].values()), "a kind without an Action is not listed"
    assert cost["executions"] > 2  # it continued as new, and had a delegate
    assert cost["actions"]["request to a model"] == sum(map(len, ANSWERS.values()))
    assert (cost["usage"]["inputTokens"], cost["isPartial"]) == (50, False)
    assert "50 tokens in, 25 out" in (await holdfast("cost", run.id)).out


async def _has_delegate(run: Run) -> bool:
    return bool((await run.status())["delegates"])


async def billed(counters: Counters) -> int:
    """The Actions that are in histories; markers of one workflow task are one."""
    counts = await counters.settled()
    left_out = ("grpc_QueryWorkflow", "grpc_RecordActivityTaskHeartbeat")
    return sum(
        count
        for (metric, kind), count in counts.items()
        if metric == ACTIONS and kind not in left_out
    )
