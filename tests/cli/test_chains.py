"""What a run may do that today's engine does not yet: the command follows all the same.

`Canned` stands in for the engine here: its log goes on after continue-as-new, one entry a page.
"""

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from cli.follow import follow
from cli.jsonlines import JsonScreen
from cli.plain import PlainScreen

QUEUE = "canned"
TURNS = 3


@workflow.defn(name="AgentWorkflow")
class Canned:
    """Writes a turn, continues as new with its log, and ends after the last turn."""

    @workflow.init
    def __init__(self, log: list[dict[str, Any]]) -> None:
        self._log = log

    @workflow.run
    async def run(self, log: list[dict[str, Any]]) -> dict[str, Any]:
        at = workflow.now().isoformat()
        turn = len(self._log) + 1
        self._log.append({"n": turn, "at": at, "type": "turn_start", "turn": turn, "new": [1]})
        if turn < TURNS:
            workflow.continue_as_new(self._log)
        return {"status": "completed", "output": "x", "turns": turn, "calls": 0, "usage": {}}

    @workflow.query
    def context(self, page: dict[str, int]) -> list[dict[str, Any]]:
        """One entry at a time, however many are wanted."""
        return self._log[page["after"] : page["after"] + 1]

    @workflow.query
    def events(self, page: dict[str, int]) -> list[dict[str, Any]]:
        """The same."""
        return self.context(page)

    @workflow.query
    def status(self) -> dict[str, Any]:
        """Nothing waits."""
        return {"status": "running", "pending": []}


@pytest.fixture
async def chain(client: Client) -> AsyncIterator[str]:
    """The id of a run that is a chain of executions."""
    worker = Worker(
        client, task_queue=QUEUE, workflows=[Canned], workflow_runner=UnsandboxedWorkflowRunner()
    )
    async with worker:
        handle = await client.start_workflow(
            "AgentWorkflow", args=[[]], id="chain", task_queue=QUEUE
        )
        yield handle.id


async def test_a_run_is_followed_through_continue_as_new(client: Client, chain: str) -> None:
    out = io.StringIO()

    code = await follow(client, chain, out=PlainScreen(out, chain))

    assert code == 0
    turns = [line.split()[2] for line in out.getvalue().splitlines() if " turn " in line]
    assert turns == ["1", "2", "3"]


async def test_a_program_reads_a_whole_chain_and_fields_that_are_new(
    client: Client, chain: str
) -> None:
    out = io.StringIO()

    await follow(client, chain, out=JsonScreen(out))

    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["n"] for event in events[:-1]] == [1, 2, 3]
    assert events[0]["new"] == [1]
    assert events[-1] == {"type": "done", "status": "completed", "output": "x"}
