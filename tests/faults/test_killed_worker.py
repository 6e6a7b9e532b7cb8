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


async def _ended(run: Run, call_id: str) -> bool:
    calls = (await run.status())["calls"]
    return any(one["callId"] == call_id and one["stage"] == "ended" for one in calls)


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


GATE_TOOL = {
    "_tool": "gate",
    "_activity": {"type": "held", "startToCloseTimeout": "5s"},
    "properties": {"name": {"type": "string"}, "_outputPath": {"type": "string"}},
}
GIVE = {"_tool": "give", "_activity": "refund", "properties": {"amount": {}}, "_sideEffects": True}
GRAPH = [
    call("give", amount="†state.item.id"),
    call("gate", name="†{state.b}c", _outputPath="†state.c"),
    *[call("gate", name=name, _outputPath=f"†state.{name}") for name in ("a", "b")],
    call("look_up", id=7),
]


@answers(Answer(calls=GRAPH), Answer("done"))
async def test_inside_a_graph(scene: Scene) -> None:
    run = await scene.backend.start([GATE_TOOL, {**GIVE, "_idempotent": True}, "look_up"])
    await run.waiting()
    await eventually(lambda: _said("begun a"))
    tools.write("open b")
    await eventually(lambda: _said("begun bc"))
    scene.restart()
    tools.write("open a")
    scene.restart()
    tools.write("open bc")
    await _decided(run, "t1c1", "approve")
    result = await _ends(run, "done")

    assert result["state"] == {"a": "a", "b": "b", "c": "bc", "item": {"id": 7, "name": "item 7"}}
    assert [scene.model.asked(turn) for turn in (1, 2)] == [1, 1]
    assert tools.read().count("ended b") == 1
    assert [line for line in tools.read() if "refund" in line] == [f"refund 7 {run.id}/t1c1"]


PLAN = [
    call("plan_gate", name="a"),
    call("plan_pay", amount=7, note="†state.gate"),
    call("pay", amount=8),
]
PLANNED = [
    {
        "_tool": "plan_gate",
        "_activity": {"type": "held", "startToCloseTimeout": "20s"},
        "_outputPath": "†state.gate",
        "properties": {"name": {"type": "string"}},
    },
    {
        "_tool": "plan_pay",
        "_activity": "pay",
        "_sideEffects": True,
        "properties": {"amount": {"type": "number"}, "note": {"type": "string"}},
    },
    "pay",
]


@answers(Answer(calls=PLAN), Answer("done"))
async def test_inside_a_plan(scene: Scene) -> None:
    run = await scene.backend.start(PLANNED, agent={"plan": "lazy"})
    [before] = await run.waiting()
    scene.restart()
    assert await run.waiting() == [before]
    await _decided(run, "t1-plan", "approve", by="ada")
    await eventually(lambda: _said("begun a"))
    # Killed between the payment and its report, the run would ask whether it happened.
    await eventually(lambda: _ended(run, "t1c3"))
    scene.restart()
    tools.write("open a")
    await _ends(run, "done")
    paid = sorted(line for line in tools.read() if line.startswith("pay"))
    assert paid == [f"pay 7 {run.id}/t1c2", f"pay 8 {run.id}/t1c3"]
    asked = [event for event in await run.events() if event["type"] == "confirmation_required"]
    assert len(asked) == 1
    assert [scene.model.asked(turn) for turn in (1, 2)] == [1, 1]
