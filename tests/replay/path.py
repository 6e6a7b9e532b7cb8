"""What a path is of which a history is stored, and the people on it."""

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

from holdfast.client.holdfast_client import HoldfastClient
from tests.support.backend import Answers, Backend, Run
from tests.support.identity.signing import Approver, write_keys
from tests.support.news_receivers import SECRET, listening, posts
from tests.support.traces import Recorder

People = Callable[[Run], Awaitable[Any]]


@dataclass
class Path:
    """One path of a run: what the model answers, its request, and what people do meanwhile.

    The history that is stored is the run's own, or that of the workflow that `other` names; of a
    run that continues as new it is the last one's, or what the `first` one left. `settings` are the
    worker's; with `told`, a program is notified, and a collector receives all; with `posted`, a
    Slack app is notified. `outage` is what people do while no worker runs, once an approval is
    pending.
    """

    answers: Answers
    tools: list[Any] = field(default_factory=list)
    request: dict[str, Any] = field(default_factory=dict)
    people: People | None = None
    other: Callable[[Run], str] | None = None
    first: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    told: bool = False
    posted: bool = False
    outage: People | None = None

    @asynccontextmanager
    async def settings_in(self, folder: FilePath) -> AsyncIterator[dict[str, Any]]:
        """The channels and the collector, as settings of the worker."""
        if not (self.told or self.posted):
            yield {}
            return
        os.environ["SECRET"] = SECRET
        async with listening() as program:
            channel: dict[str, Any] = {"webhook": {"url": program.url, "secretEnv": "SECRET"}}
            if self.posted:
                program.answer = posts
                slack = {"tokenEnv": "SECRET", "channel": "C024BE91L", "api": program.url}
                channel = {"slack": slack, "content": "full"}
            said = {"inbox": "https://inbox.x", "channels": {"desk": channel}}
            file = folder / "notify.json"
            file.write_text(json.dumps(said))
            yield {"notifiers": file, "telemetry": Recorder(content=True).telemetry}

    async def start(self, backend: Backend) -> Run:
        """Start it."""
        return await backend.start(self.tools, **self.request)

    def stored(self, run: Run, client: Client) -> WorkflowHandle[Any, Any]:
        """What has the history that is stored."""
        id = run.id if self.other is None else self.other(run)
        run_id = run.handle.first_execution_run_id if self.first else None
        return client.get_workflow_handle(id, run_id=run_id)

    async def walk(self, run: Run) -> None:
        """Do what people do, and see it to its end."""
        if self.people is not None:
            await self.people(run)
        with suppress(WorkflowFailureError):
            await run.result()


@dataclass
class CallPath(Path):
    """One path of a single call of a tool."""

    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)

    async def start(self, backend: Backend) -> Run:
        """Start it."""
        return await backend.call(self.tool, self.arguments, **self.request)


@dataclass
class ClientPath(Path):
    """One path of a run that our own client starts, with the run's first search attributes."""

    async def start(self, backend: Backend) -> Run:
        """Start it."""
        model = {"endpoint": "fake", "name": "fake"}
        agent: dict[str, Any] = {"name": "tester", "instructions": "Test.", "model": model}
        agents = HoldfastClient(backend.client, backend.task_queue)
        run = await agents.start({**agent, "tools": self.tools}, "go")
        return Run(backend.client.get_workflow_handle(run.id), backend.client)


@dataclass
class ForkPath(Path):
    """One path of a run that begins with another one, after its first turn."""

    async def start(self, backend: Backend) -> Run:
        """Start it, once the other one has ended."""
        source = await super().start(backend)
        await source.result()
        fork = {"run": source.id, "turn": 1}
        return await backend.start(self.tools, input="And now?", fork=fork)


@dataclass
class ServerPath(Path):
    """One path of a run with the tools of the MCP server `airline`."""

    @asynccontextmanager
    async def settings_in(self, folder: FilePath) -> AsyncIterator[dict[str, Any]]:
        """The server, as a setting of the worker."""
        os.environ["AIRLINE_LEDGER"] = str(folder / "flights")
        script = FilePath(__file__).parents[1] / "activities/mcp/servers/airline.py"
        server = {"command": sys.executable, "args": [str(script)], "envFrom": ["AIRLINE_LEDGER"]}
        file = folder / "servers.json"
        file.write_text(json.dumps({"airline": server}))
        yield {"servers": file}


@dataclass
class LatePath(CallPath):
    """One path of a single call whose principal's token has expired, within the clocks' leeway."""

    ann: Approver = field(default_factory=Approver)

    @asynccontextmanager
    async def settings_in(self, folder: FilePath) -> AsyncIterator[dict[str, Any]]:
        """The key of the principal, as a setting of the worker."""
        yield {"keys": str(write_keys(folder / "keys.json", self.ann))}

    async def start(self, backend: Backend) -> Run:
        """Start it."""
        late = {"token": self.ann.principal(exp=time.time() - 1)}
        return await backend.call(self.tool, self.arguments, principal=late)

    async def walk(self, run: Run) -> None:
        """Approve it, renew the token, and see it to its end."""
        await run.waiting()
        await run.decide("t1c1", "approve", by="bob")
        await run.waiting()
        await run.handle.execute_update("renew", {"token": self.ann.principal(jti=run.id)})
        await run.result()


def single(
    tool: str, arguments: dict[str, Any], people: People | None = None, **request: Any
) -> CallPath:
    """The path of a single call."""
    return CallPath([], request=request, people=people, tool=tool, arguments=arguments)


def decides(*decisions: dict[str, Any]) -> People:
    """People who decide, one after the other, once all calls wait."""

    async def people(run: Run) -> None:
        await run.waiting(len({decision["callId"] for decision in decisions}))
        for decision in decisions:
            await run.handle.execute_update("decide", decision)

    return people


def decision_on(call_id: str, decision: str, **more: Any) -> dict[str, Any]:
    """A decision."""
    return {"callId": call_id, "decision": decision, **more}
