"""Runs of one worker, each in the middle of something, and their outcome when they continue.

One executes a call, one waits for a person, one waits for its model: wherever a fault of the
connection to Temporal may find a run.
"""

import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Backend, Run, backend
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call, turn_of


@asynccontextmanager
async def table(
    client: Client, folder: Path, stories: Mapping[str, list[Answer]], **settings: Any
) -> AsyncIterator[Backend]:
    """A worker whose model knows these stories: each begins with what the user says, the first
    word of it."""

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        told = stories[body["messages"][1]["content"].split()[0]]
        return told[min(turn, len(told)) - 1]

    async with backend(client, folder, answer, **{**SIDE_BY_SIDE, **settings}) as at:
        yield at


async def outcome(run: Run) -> dict[str, Any]:
    """What a run came to: its result, what happened in which order, and what the model read of each
    call."""
    return {
        "result": await run.result(),
        "events": await run.told(),
        "results": await run.results(),
    }


# A model that waits in the middle of its answer.
GATE = threading.Event()
STORIES = {
    "calls": [Answer(calls=[call("held", name="a"), call("look_up", id=1)]), Answer("called")],
    "waits": [Answer(calls=[call("pay", amount=7)]), Answer("paid")],
    "asks": [Answer(calls=[call("look_up", id=2)]), Answer("answered", hold=GATE)],
    "pays": [Answer(calls=[call("held_payment", name="rent")]), Answer("paid")],
}
TOOLS = ["held", "look_up", "pay", "held_payment"]
# A workflow task whose server died under it is missed after so long.
TASK_TIMEOUT = timedelta(seconds=2)
# And one whose end was lost with it, a call that may be made once, after the 30 s of an attempt.
MISSED_SECONDS = 60
Runs = dict[str, Run]


@contextmanager
def ledger(folder: Path) -> Iterator[None]:
    """What the tools do is written down in the folder; they and the model are held."""
    GATE.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(tools.LEDGER, str(folder / "ledger"))
        yield
        let_go()


def let_go() -> None:
    """The tools and the model go on."""
    GATE.set()
    tools.write(tools.RELEASE)


async def start(backend: Backend, story: str) -> Run:
    """A run of a story."""
    return await backend.start(TOOLS, input=story, task_timeout=TASK_TIMEOUT)


async def in_the_middle(backend: Backend, *stories: str) -> Runs:
    """A run of each story, once all of them are in its middle."""
    runs = {story: await start(backend, story) for story in stories}

    async def are_there() -> bool:
        asked = [
            body for body in backend.model.requests if body["messages"][1]["content"] == "asks"
        ]
        return (
            ("calls" not in runs or "begun a" in tools.read())
            and ("pays" not in runs or paid("paid rent", runs["pays"]) == 1)
            and ("asks" not in runs or any(turn_of(body) == 2 for body in asked))
        )

    await eventually(are_there)
    if "waits" in runs:
        await runs["waits"].waiting()
    return runs


async def ended(runs: Runs) -> dict[str, Any]:
    """What the runs come to, let go on: the person of `waits` approves, and the person of `pays`
    looks into the ledger where the run does not know whether it paid."""
    let_go()
    if "waits" in runs:
        await runs["waits"].decide("t1c1", "approve", by="ada")
    if "pays" in runs:
        await reconciled(runs["pays"], "paid rent", "rent")
    return {story: await outcome(run) for story, run in runs.items()}


async def reconciled(run: Run, what: str, result: Any) -> bool:
    """A run that asks about its payment is told what the ledger says of it; whether it asked."""

    async def asks_or_is_over() -> list[dict[str, Any]] | WorkflowExecutionStatus | None:
        described = await run.handle.describe()
        if described.status != WorkflowExecutionStatus.RUNNING:
            return described.status
        waiting: list[dict[str, Any]] = await run.handle.query("approvals")
        return waiting

    found = await eventually(asks_or_is_over, MISSED_SECONDS)
    if not isinstance(found, list):
        return False
    [question] = found
    assert question["kind"] == "reconcile"
    if paid(what, run):
        await run.decide("t1c1", "happened", result=result)
    else:
        await run.decide("t1c1", "did_not_happen", digest=question["digest"])
    return True


def paid(what: str, run: Run) -> int:
    """How often a run paid something, in the ledger's words: `pay 7`, `paid rent`."""
    return tools.read().count(f"{what} {run.id}/t1c1")
