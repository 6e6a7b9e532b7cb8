"""Start a worker with a scripted model, and start runs on it."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError

from holdfast.catalog.loader import Catalog, CurrentCatalog, load_catalog
from holdfast.client.run_lists import status_query
from holdfast.hosting.resources import WorkerResources, load_resources
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.hosting.worker import WorkerSettings, build_worker
from holdfast.runtime.secrets import Secrets
from holdfast.schemas.run import RunStatus
from tests.support.eventually import eventually
from tests.support.identity.signing import run_of
from tests.support.model_server import Answer, ModelServer, serve
from tests.support.tools import read as read_ledger

ROOT = Path(__file__).parents[2]
TOOLS = Path(__file__).with_name("tools.py")
CATALOG = Path(__file__).with_name("catalog")
# Settings that alter what is loaded of these.
OF_CATALOG = {"catalog", "tools", "agents", "servers", "knowledge_urls", "notify", "plugins"}
OF_CATALOG |= {"budgets"}
# A run of a killed worker continues this much later.
SOON = timedelta(seconds=1)
# Settings for several runs at once, or for a long one: without room in the cache, one can hold up
# another for ten seconds, and each message to it replays it.
SIDE_BY_SIDE: dict[str, Any] = {"cached_runs": 100}


class Backend:
    """A running worker with its model, and the runs that a test starts on it."""

    def __init__(self, client: Client, task_queue: str, model: ModelServer) -> None:
        self.client = client
        self.task_queue = task_queue
        self.model = model

    async def start(self, tools: list[Any] | None = None, **request: Any) -> "Run":
        """Start a run of an inline agent with these tools; `agent` adds to its definition, and
        `task_timeout` is how soon a lost workflow task is missed."""
        more, task_timeout = request.pop("agent", {}), request.pop("task_timeout", None)
        model = {"instructions": "Test.", "model": {"endpoint": "fake", "name": "fake"}}
        agent = {
            "name": "tester",
            **({} if "calls" in more else model),
            "tools": tools or [],
            **more,
        }
        handle = await self.client.start_workflow(
            "AgentWorkflow",
            {"agent": agent, "input": "go", **request},
            id=run_of(request.get("principal")) or f"run-{uuid.uuid4().hex[:12]}",
            task_queue=self.task_queue,
            task_timeout=task_timeout,
        )
        return Run(handle, self.client)

    async def call(
        self, tool: Any, arguments: dict[str, Any] | None = None, **request: Any
    ) -> "Run":
        """Start a single call; it is looked at as a run is."""
        handle = await self.client.start_workflow(
            "CallWorkflow",
            {"tool": tool, "arguments": arguments or {}, **request},
            id=run_of(request.get("principal")) or f"call-{uuid.uuid4().hex[:12]}",
            task_queue=self.task_queue,
        )
        return Run(handle, self.client)


class Run:
    """One run, as any client sees it."""

    def __init__(self, handle: WorkflowHandle[Any, Any], client: Client | None = None) -> None:
        self.handle = handle
        self.id = handle.id
        self._client = client

    def delegate(self, call_id: str) -> "Run":
        """The delegate run of a call."""
        assert self._client is not None  # the backend started it
        return Run(self._client.get_workflow_handle(f"{self.id}.{call_id}"), self._client)

    @property
    def client(self) -> Client:
        """The client that started it."""
        assert self._client is not None  # the backend started it
        return self._client

    async def reset(self, task: int) -> "Run":
        """`temporal workflow reset` to one of its workflow tasks, by index; the run of after."""
        completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
        ended = [each.event_id for each in await self.history() if each.event_type == completed]
        await self.client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=self.client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=self.id),
                reason="an operator's",
                workflow_task_finish_event_id=ended[task],
                request_id=self.id,
            )
        )
        return Run(self.client.get_workflow_handle(self.id), self.client)

    async def result(self) -> dict[str, Any]:
        """The run's result."""
        result: dict[str, Any] = await self.handle.result()
        return result

    async def failure(self) -> ApplicationError:
        """The error that the run failed with."""
        with pytest.raises(WorkflowFailureError) as failed:
            await self.handle.result()
        assert isinstance(failed.value.cause, ApplicationError)
        return failed.value.cause

    async def waiting(self, count: int = 1) -> list[dict[str, Any]]:
        """The pending approvals, once there are so many and they are logged as pending: a query
        may be answered in the middle of a workflow task, which may yet be done over."""

        async def enough() -> list[dict[str, Any]] | None:
            if (place := await self._settled()) is None:
                return None
            waiting: list[dict[str, Any]] = await self.handle.query("approvals")
            is_enough = len(waiting) >= count and place == await self._settled()
            return waiting if is_enough else None

        return await eventually(enough)

    async def listed(self, status: RunStatus = "awaiting_approval") -> None:
        """Wait until Temporal's lists, which are a moment behind, have it with this status."""
        client, query = self._client, f'{status_query(status)} AND WorkflowId = "{self.id}"'
        assert client is not None  # the backend started it

        async def is_there() -> bool:
            return (await client.count_workflows(query)).count == 1

        await eventually(is_there)

    async def idle(self) -> None:
        """Wait until it waits for a message."""

        async def waits() -> bool:
            return bool((await self.status())["status"] == "awaiting_message")

        await eventually(waits)

    async def decide(self, call: str, decision: str, **more: Any) -> dict[str, Any]:
        """Decide by the update, and get its receipt."""
        receipt: dict[str, Any] = await self.handle.execute_update(
            "decide", {"callId": call, "decision": decision, **more}
        )
        return receipt

    async def run_again(self, call: str = "t1c1", **more: Any) -> dict[str, Any]:
        """Run a call again whose outcome is unknown, with the digest and nonce of this attempt."""
        [seen] = [each for each in await self.waiting() if each["callId"] == call]
        more |= {"digest": seen["digest"], "nonce": seen["nonce"]}
        return await self.decide(call, "did_not_happen", **more)

    async def signal(self, call: str, decision: str, **more: Any) -> None:
        """Decide by the signal."""
        await self.handle.signal("approve", {"callId": call, "decision": decision, **more})

    async def status(self) -> dict[str, Any]:
        """The query `status`."""
        status: dict[str, Any] = await self.handle.query("status")
        return status

    async def events(self) -> list[dict[str, Any]]:
        """Every event."""
        return await self._all("events")

    async def context(self) -> list[dict[str, Any]]:
        """The whole log."""
        return await self._all("context")

    async def event_lines(self) -> list[str]:
        """The log in short: `tool_call t1c1`, `turn_end`, …"""
        events = await self.events()
        return [" ".join(filter(None, [event["type"], event.get("callId")])) for event in events]

    async def results(self) -> dict[str, Any]:
        """What the model reads of each call, by call id; each call exactly once."""
        found: dict[str, Any] = {}
        for entry in await self.context():
            message = entry["message"] if entry["type"] == "message" else {}
            if message.get("role") == "tool":
                assert message["callId"] not in found, "a call has two results"
                found[message["callId"]] = message.get("content", "")
        return found

    async def error(self, call: str = "t1c1") -> dict[str, Any]:
        """The error of a call."""
        ends = [e for e in await self.events() if e["type"] == "tool_end" and e["callId"] == call]
        error: dict[str, Any] = ends[-1]["error"]
        return error

    async def history(self) -> list[Any]:
        """The events of the Temporal history."""
        return [event async for event in self.handle.fetch_history_events()]

    async def _settled(self) -> tuple[str, int] | None:
        """How far it has come, where no workflow task is running."""
        found = await self.handle.describe()
        at_work = found.raw_description.HasField("pending_workflow_task")
        return None if at_work else (found.run_id, found.history_length)

    async def _all(self, query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while page := await self.handle.query(query, {"after": len(found), "limit": 1000}):
            found += page
        return found


async def ledger_has(*lines: str) -> None:
    """Wait until tools have written these lines into the ledger; without any, one line."""

    async def written() -> bool:
        found = read_ledger()
        return bool(found) and {*lines} <= {*found}

    await eventually(written)


@cache
def _catalog() -> Catalog:
    python = [str(TOOLS)]
    return load_catalog(CATALOG, python, endpoints=["fake"], read_definition=activity_definition)


def _resources(settings: WorkerSettings, secrets: Secrets | None) -> WorkerResources:
    """Load a worker's resources, but its catalog only once: that takes a tenth of a second."""
    loaded = load_resources(replace(settings, catalog=None, tools=[]), secrets)
    world = replace(_catalog().definitions, task_queue=settings.task_queue)
    return replace(loaded, current_catalog=CurrentCatalog(replace(_catalog(), definitions=world)))


Answers = list[Answer] | Callable[[int, dict[str, Any]], Answer]
Launch = Callable[..., Awaitable[Backend]]
# What stands between the worker and the model at a URL: where it is.
Before = Callable[[str], AbstractAsyncContextManager[str]]


@asynccontextmanager
async def _nothing(url: str) -> AsyncIterator[str]:
    yield url


@asynccontextmanager
async def backend(
    client: Client, folder: Path, answers: Answers, before: Before = _nothing, **settings: Any
) -> AsyncIterator[Backend]:
    """A worker with the tools of `tests/support/tools.py`, and a model that gives the answers;
    `telemetry` is what reports it, `secrets` are those that it has beside its settings', and
    `provider` is the format that the model is asked in."""
    telemetry, provider = settings.pop("telemetry", None), settings.pop("provider", "openai")
    secrets: Secrets | None = settings.pop("secrets", None)
    task_queue = settings.pop("task_queue", None) or f"queue-{uuid.uuid4().hex[:8]}"
    with serve(answers) as model:
        async with before(model.url) as url:
            endpoints = folder / f"{task_queue}.yaml"
            fake = f"{{provider: {provider}, baseUrl: '{url}', timeout: 4m}}"
            endpoints.write_text(f"fake: {fake}\n")
            made = WorkerSettings(
                endpoints=endpoints,
                task_queue=task_queue,
                **{
                    "heartbeat_timeout": timedelta(seconds=6),
                    "sticky_timeout": SOON,
                    "tools": [str(TOOLS)],
                    "catalog": CATALOG,
                    "cached_runs": 0,
                    **settings,
                },
            )
            load = load_resources if OF_CATALOG & settings.keys() else _resources
            loaded = load(made, secrets)
            async with build_worker(client, made, replace(loaded, telemetry=telemetry)):
                yield Backend(client, task_queue, model)
