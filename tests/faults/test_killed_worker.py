"""`kill -9` of the worker while several things are under way: no request to a model is made twice.

What becomes of a run wherever its worker dies, `test_pass.py` says.
"""

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from holdfast.schemas.names import NO_SUCH_CALL
from tests.support import tools
from tests.support.backend import TOOLS, Backend, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, ModelServer, call, serve
from tests.support.process import WorkerProcess

pytestmark = pytest.mark.usefixtures("ledger")


class Scene:
    """A worker that can be killed, and a model that counts how often it was asked."""

    def __init__(self, backend: Backend, worker: WorkerProcess) -> None:
        self.backend = backend
        self.worker = worker

    @property
    def model(self) -> ModelServer:
        """The model's server."""
        return self.backend.model

    def restart(self) -> None:
        """Kill the worker and start another."""
        self.worker.kill()
        self.worker.start()


@pytest.fixture
def scene(client: Client, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """The worker is a process; the answers are the test's parameter."""
    queue = f"faults-{uuid.uuid4().hex[:8]}"
    with serve(request.param) as model:
        endpoints = tmp_path / "endpoints.yaml"
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}', timeout: 60s}}\n")
        options = ["--tools", str(TOOLS), "--endpoints", str(endpoints), "--task-queue", queue]
        address = client.service_client.config.target_host
        with WorkerProcess(address, *options, "--heartbeat-timeout", "2s") as worker:
            yield Scene(Backend(client, queue, model), worker)


def answers(*given: Answer) -> pytest.MarkDecorator:
    """The answers that a test's scene gives."""
    return pytest.mark.parametrize("scene", [list(given)], indirect=True)


async def _said(line: str) -> bool:
    return any(found.startswith(line) for found in tools.read())


async def _decided(run: Run, call_id: str, decision: str, **more: Any) -> None:
    """Decide as people do after a crash: again, where the run has not come to its question anew."""

    async def is_taken() -> bool:
        try:
            await run.decide(call_id, decision, **more)
        except WorkflowUpdateFailedError as error:
            if not (isinstance(error.cause, ApplicationError) and error.cause.type == NO_SUCH_CALL):
                raise
            return False
        return True

    await eventually(is_taken)


async def _ends(run: Run, output: str) -> dict[str, Any]:
    result = await run.result()
    assert result["status"] == "completed"
    assert result["output"] == output
    return result


@answers(Answer(calls=[call("held", name="a")]), Answer("done"))
async def test_while_a_call_runs(scene: Scene) -> None:
    run = await scene.backend.start(["held"])
    await eventually(lambda: _said("begun a"))
    scene.restart()
    tools.write("open a")
    await _ends(run, "done")
    assert [scene.model.asked(turn) for turn in (1, 2)] == [1, 1]
    assert tools.read().count("ended a") == 1


GATE = threading.Event()


@answers(Answer(calls=[call("look_up", id=1)]), Answer("done", hold=GATE))
async def test_while_the_model_answers(scene: Scene) -> None:
    run = await scene.backend.start(["look_up"])

    async def answering() -> bool:
        return scene.model.asked(2) > 0

    await eventually(answering)
    scene.restart()
    GATE.set()
    await _ends(run, "done")
    assert scene.model.asked(1) == 1
    assert scene.model.asked(2) == 2


LONG = {"startToCloseTimeout": "10m"}
ERRAND = {
    "_tool": "errand",
    "_activity": {"type": "held", **LONG},
    "properties": {"name": {"type": "string"}},
}
TRANSFER = {
    "_tool": "transfer",
    "_activity": {"type": "held_payment", **LONG},
    "_sideEffects": True,
    "_approval": {"require": "never"},
    "properties": {"name": {"type": "string"}},
}


@answers(Answer(calls=[call("errand", name="a"), call("transfer", name="rent")]), Answer("done"))
async def test_what_may_take_long_is_missed_soon(scene: Scene) -> None:
    run = await scene.backend.start([ERRAND, TRANSFER])
    await eventually(lambda: _said("begun a"))
    await eventually(lambda: _said("paid rent"))
    scene.restart()
    [waiting] = await run.waiting()
    assert waiting["kind"] == "reconcile"
    await _decided(run, "t1c2", "happened", result="rent")
    tools.write("open a")
    await _ends(run, "done")
    assert [line for line in tools.read() if "paid" in line] == [f"paid rent {run.id}/t1c2"]
    assert tools.read().count("ended a") == 1
