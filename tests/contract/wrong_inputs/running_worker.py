"""One worker with its runs, for all the rows: what they are wrong about is there."""

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from temporalio.client import Client
from temporalio.service import RPCError

from holdfast.hosting.worker import WorkerSettings, build_worker
from tests.support.backend import TOOLS, Backend, Run
from tests.support.model_server import Answer, ModelServer, call, serve

# For anyone; for two of finance, not for anna; to be denied; beyond what is asked about.
CALLS = [call("pay", amount=5), call("guarded", amount=7), call("pay", amount=9)]
GUARDED = {
    "_tool": "guarded",
    "type": "object",
    "properties": {"amount": {"type": "number"}},
    "required": ["amount"],
    "_activity": "pay",
    "_sideEffects": True,
    "_approval": {"approvers": ["finance"], "quorum": 2, "notBy": "principal"},
}
_MODEL = "model: {endpoint: fake, name: fake}\n"
AGENTS = {
    "helper": _MODEL,
    "clerk": f"""{_MODEL}
input: {{type: object, properties: {{order: {{type: string}}}}, required: [order],
         additionalProperties: false}}
state: {{type: object, properties: {{count: {{type: integer}}}}}}
""",
}


@dataclass(frozen=True)
class PreparedRuns:
    """Running runs: one whose calls wait, a conversation, one that asks for more turns, one whose
    plan waits.

    `marks` are the values of the rows' marks.
    """

    backend: Backend
    waiting: Run
    talking: Run
    asking: Run
    planning: Run
    marks: Mapping[str, str]


@asynccontextmanager
async def stage(client: Client, folder: Path) -> AsyncIterator[PreparedRuns]:
    """Have all of it, and leave nothing open behind."""
    with serve(_answer) as model:
        settings = _settings(folder, model)
        async with build_worker(client, settings):
            backend = Backend(client, settings.task_queue, model)
            waiting, talking = await _waiting(backend), await _talking(backend)
            asking, planning = await _asking(backend), await _planning(backend)
            other = await client.start_workflow(
                "Other", id=_id("other"), task_queue="nobody-polls-this"
            )
            ended = await backend.start(agent={"tools": []})
            await ended.result()
            marks = {
                "run": waiting.id,
                "plan": planning.id,
                "ended": ended.id,
                "other": other.id,
                "queue": settings.task_queue,
                "server": client.service_client.config.target_host,
                "http": str(urlsplit(model.url).port),
            }
            yield PreparedRuns(backend, waiting, talking, asking, planning, marks)
            runs = (waiting.id, talking.id, asking.id, planning.id, other.id)
            for run in runs:
                with suppress(RPCError):  # it has ended, as it should
                    await client.get_workflow_handle(run).terminate()


def _answer(turn: int, body: dict[str, Any]) -> Answer:
    return Answer(calls=CALLS) if body.get("tools") and turn == 1 else Answer("done")


def _settings(folder: Path, model: ModelServer) -> WorkerSettings:
    endpoints = folder / "endpoints.yaml"
    endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}', timeout: 20s}}\n")
    (folder / "agents").mkdir()
    for name, definition in AGENTS.items():
        (folder / "agents" / f"{name}.yaml").write_text(definition)
    return WorkerSettings(
        catalog=folder, tools=[str(TOOLS)], endpoints=endpoints, task_queue=_id("queue")
    )


async def _waiting(backend: Backend) -> Run:
    """A run with two pending approvals, and a call that was denied."""
    run = await backend.start(["pay", GUARDED], principal={"id": "anna"})
    await run.waiting(3)
    await run.decide("t1c3", "deny", by="ben", reason="no")
    await run.decide("t1c2", "approve", by="dora", groups=["finance"])
    return run


async def _talking(backend: Backend) -> Run:
    run = await backend.start(conversation=True)
    await run.handle.execute_update("send", "hello")
    return run


async def _asking(backend: Backend) -> Run:
    """A run that has had its one turn."""
    budget = {"budget": {"maxTurns": 1}, "onLimit": {"maxTurns": "ask"}}
    run = await backend.start(["look_up"], agent=budget)
    await run.waiting()
    return run


async def _planning(backend: Backend) -> Run:
    """A run whose plan waits for two of finance who are not anna."""
    run = await backend.start(["pay", GUARDED], principal={"id": "anna"}, agent={"plan": "lazy"})
    await run.waiting()
    return run


def _id(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"
