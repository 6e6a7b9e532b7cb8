"""`kill -9` of the worker where a run continues as new: before it, and behind it."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import CancelledError

from tests.support import tools
from tests.support.backend import TOOLS, Backend
from tests.support.eventually import eventually
from tests.support.model_server import Answer, ModelServer, call, serve
from tests.support.process import WorkerProcess

pytestmark = pytest.mark.usefixtures("ledger")

# A refund of more than 100 is asked about.
FROM = 100
BUDGET = {"maxTurns": 50, "maxIterations": 50, "maxCalls": 100}
# One turn takes about ten events: every second turn begins under a new run id.
OPTIONS = ("--continue-after", "20", "--heartbeat-timeout", "2s")


class Model:
    """A model that refunds something each turn, which a person has to approve; before each answer
    it waits until it is let."""

    def __init__(self, turns: int) -> None:
        self.gates = [threading.Event() for _ in range(turns)]
        refunds = [call("refund", amount=FROM + turn) for turn in range(1, turns)]
        answers = [
            Answer(calls=[each], hold=gate) for each, gate in zip(refunds, self.gates, strict=False)
        ]
        self.answers = [*answers, Answer("done", hold=self.gates[-1])]


@contextmanager
def stage(client: Client, folder: Path, model: Model) -> Iterator[tuple[Backend, WorkerProcess]]:
    """A worker that is a process, and the model."""
    queue = f"chain-{uuid.uuid4().hex[:8]}"
    with serve(model.answers) as server:
        endpoints = folder / "endpoints.yaml"
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{server.url}'}}\n")
        options = ["--tools", str(TOOLS), "--endpoints", str(endpoints), "--task-queue", queue]
        address = client.service_client.config.target_host
        with WorkerProcess(address, *options, *OPTIONS) as worker:
            yield Backend(client, queue, server), worker


async def asked(server: ModelServer, turn: int) -> None:
    """Wait until the model is asked for the answer of a turn."""

    async def is_asked() -> bool:
        return server.asked(turn) > 0

    await eventually(is_asked)


@pytest.mark.parametrize(
    ("turns", "killed"),
    [
        (4, (2, 3)),
        pytest.param(9, tuple(range(1, 10)), marks=pytest.mark.slow),
    ],
)
async def test_killed_before_and_behind_each_boundary(
    client: Client, tmp_path: Path, turns: int, killed: tuple[int, ...]
) -> None:
    model = Model(turns)
    said = [f"message {turn}" for turn in killed]
    with stage(client, tmp_path, model) as (backend, worker):
        run = await backend.start(["refund"], agent={"budget": BUDGET})
        for turn, gate in enumerate(model.gates, start=1):
            await asked(backend.model, turn)
            if turn in killed:
                # The turn ends, and the run goes on, in a worker that has never seen it.
                worker.kill()
                await run.handle.signal("message", {"content": f"message {turn}"})
            await run.signal(f"t{turn}c1", "approve", by="ada")
            if turn in killed:
                worker.start()
                assert (await run.status())["turn"] == turn - 1
            gate.set()
        result = await run.result()
        assert (result["status"], result["output"]) == ("completed", "done")
        refunds = [f"refund {FROM + n} {run.id}/t{n}c1" for n in range(1, turns)]
        assert sorted(tools.read(), key=refunds.index) == refunds
        entries = await run.context()
        assert [entry["n"] for entry in entries] == list(range(1, len(entries) + 1))
        users = [
            entry["message"]["content"]
            for entry in entries
            if entry["type"] == "message" and entry["message"]["role"] == "user"
        ]
        assert users == ["go", *said]
        answered = [turn for turn in range(1, turns + 1) if turn not in killed]
        assert [backend.model.asked(turn) for turn in answered] == [1] * len(answered)


async def test_cancelled_where_it_would_go_on(client: Client, tmp_path: Path) -> None:
    """Whoever cancels a run while no worker is there does so together with all that was said."""
    model = Model(4)
    for gate in model.gates:
        gate.set()
    with stage(client, tmp_path, model) as (backend, worker):
        run = await backend.start(["refund"], agent={"budget": BUDGET})
        await run.signal("t1c1", "approve")
        [waiting] = await run.waiting()
        assert waiting["callId"] == "t2c1"
        worker.kill()
        await run.signal("t2c1", "deny")
        await run.handle.cancel()
        worker.start()
        with pytest.raises(WorkflowFailureError) as ended:
            await run.result()
        assert isinstance(ended.value.cause, CancelledError)
        assert (await run.told())[-1] == "error"
