"""`kill -9` of the worker inside a delegate: it and its parent go on, and nothing is done twice."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from tests.support import tools
from tests.support.eventually import eventually
from tests.support.house import TOOLS, House, Run
from tests.support.model_server import Answer, call, serve
from tests.support.worker_process import WorkerProcess

ASK = {"_tool": "ask", "description": "Have it done.", "_delegate": "helper"}
HELPER = {"model": {"endpoint": "fake"}, "instructions": "Help.", "tools": ["pay"]}
WORK = [Answer(calls=[call("pay", amount=5)]), Answer("I did")]
MAIN = [Answer(calls=[("ask", {})]), Answer("thanks")]


def answer(turn: int, body: dict[str, Any]) -> Answer:
    """The helper waits, pays and is done; whoever asks it says thanks."""
    return (WORK if "Help." in body["messages"][0]["content"] else MAIN)[turn - 1]


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the tools of the killed and the new worker write down what they did."""
    monkeypatch.setenv(tools.LEDGER, str(tmp_path / "ledger"))


@pytest.fixture
def scene(client: Client, tmp_path: Path) -> Iterator[tuple[House, WorkerProcess]]:
    """A house whose worker can be killed, with the delegate `helper`."""
    queue = f"faults-{uuid.uuid4().hex[:8]}"
    (tmp_path / "catalog/agents").mkdir(parents=True)
    (tmp_path / "catalog/agents/helper.json").write_text(json.dumps(HELPER))
    with serve(answer) as model:
        endpoints = tmp_path / "endpoints.yaml"
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}', timeout: 60s}}\n")
        options = ["--tools", str(TOOLS), "--endpoints", str(endpoints), "--task-queue", queue]
        options += ["--catalog", str(tmp_path / "catalog"), "--heartbeat-timeout", "2s"]
        address = client.service_client.config.target_host
        with WorkerProcess(address, *options) as worker:
            yield House(client, queue, model), worker


async def test_while_a_delegate_waits(scene: tuple[House, WorkerProcess]) -> None:
    house, worker = scene
    run = await house.start([ASK])

    async def told() -> bool:
        return any(delegate["pending"] for delegate in (await run.status())["delegates"])

    await eventually(told)
    child = Run(house.client.get_workflow_handle(f"{run.id}.t1c1"))
    worker.kill()
    await child.signal("t1c1", "approve", by="ada")
    worker.start()

    assert (await run.result())["output"] == "thanks"
    assert await run.results() == {"t1c1": "I did"}
    assert tools.read() == [f"pay 5 {child.id}/t1c1"]
    asked = ["Help." in body["messages"][0]["content"] for body in house.model.requests]
    assert (asked.count(True), asked.count(False)) == (2, 2), "no request was made twice"
