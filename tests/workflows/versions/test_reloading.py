"""A catalog that changes while its worker runs: for new runs at once, for others never."""

import json
import logging
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support import tools
from tests.support.backend import Backend, Launch, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call

pytestmark = pytest.mark.usefixtures("ledger")

OFTEN = timedelta(milliseconds=10)
AGENT = "---\nmodel: {endpoint: fake, name: fake}\ntools: [spend]\n---\nTest."
SPEND = {
    "_tool": "spend",
    "_activity": "pay",
    "_sideEffects": True,
    "properties": {"amount": {"type": "number", "maximum": 10}},
    "required": ["amount"],
}
SPENDS = [Answer(calls=[call("spend", amount=5)]), Answer("spent")]


@pytest.fixture
def catalog(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Path:
    """A tool `spend`, bound to an activity of the worker, and an agent `desk`."""
    caplog.set_level(logging.INFO, "holdfast")
    folder = tmp_path / "catalog"
    for name in ("tools", "agents"):
        (folder / name).mkdir(parents=True)
    (folder / "tools/spend.json").write_text(json.dumps(SPEND))
    (folder / "agents/desk.md").write_text(AGENT)
    return folder


def put(path: Path, text: str) -> None:
    """Write a file in one step, as an editor does."""
    whole = path.with_name(f".{path.name}")
    whole.write_text(text)
    whole.replace(path)


async def start(backend: Backend, agent: str) -> Run:
    """Start a run of an agent of the catalog."""
    handle = await backend.client.start_workflow(
        "AgentWorkflow",
        {"agent": agent, "input": "go"},
        id=f"run-{uuid.uuid4().hex[:12]}",
        task_queue=backend.task_queue,
    )
    return Run(handle)


async def logged(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    """Everything that the worker has logged about its catalog, once it has logged this."""

    async def lines_with() -> list[str] | None:
        lines = [each.getMessage() for each in caplog.records if each.name == "holdfast"]
        return lines if any(text in line for line in lines) else None

    return await eventually(lines_with)


def offered(backend: Backend) -> Any:
    """The parameters of the first tool in the newest request to the model."""
    return backend.model.requests[-1]["tools"][0]["function"]["parameters"]["properties"]


async def test_a_changed_tool_is_for_new_runs_and_one_that_waits_keeps_its_own(
    launch: Launch, catalog: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = await launch(SPENDS, catalog=catalog, between_looks=OFTEN)
    old = await start(home, "desk")
    await old.waiting()
    stricter = {**SPEND, "properties": {"amount": {"type": "number", "maximum": 4}}}
    put(catalog / "tools/spend.json", json.dumps(stricter))
    await logged(caplog, "changed: tool `spend`, agent `desk`")

    new = await start(home, "desk")
    await new.result()
    assert offered(home)["amount"]["maximum"] == 4
    assert json.loads((await new.results())["t1c1"])["error"]["code"] == "invalid_arguments"
    assert tools.read() == []

    await old.decide("t1c1", "approve")
    assert (await old.result())["output"] == "spent"
    assert offered(home)["amount"]["maximum"] == 10
    assert tools.read() == [f"pay 5 {old.id}/t1c1"]
