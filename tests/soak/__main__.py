"""`make test-soak ARGS="--for 1h"`: worker, inbox and `holdfast mcp` under steady work.

People sign in, watch runs while a model writes, and approve their calls on the list; MCP clients
connect, and call a tool. What each process holds is read from outside; the first third of the time
fills caches, and the last third is compared with the second. The exit code is 1 where a process
grows, or a part of the work fails.
"""

import argparse
import asyncio
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from mcp import Client as McpClient
from temporalio.client import Client

from bench.measures.inbox import Visitor
from bench.measures.many import ASKS, MAX_SECONDS, check
from bench.measures.viewers import Page
from bench.process import Program, our_worker, running
from bench.programs.work import TOOL, Work
from holdfast.hosting.dev_server import DevServer, run_dev_server
from holdfast.hosting.process_exit import exit_process
from holdfast.schemas import names
from holdfast.schemas.base import parse_duration
from tests.soak.flatness import MAX_GROWTH, Sample, growths, sample, thirds

SAMPLES = 180
STREAM_SECONDS = "0.5"
# Runs beyond these are replayed, so that the cache is full before the first third has ended.
CACHED_RUNS = "20"
LANES = {"runs": 3, "sign_ins": 1, "assistants": 1}
REST_SECONDS = 0.5
# Unlike a browser, httpx does not repeat a request whose kept connection the server has closed.
BROWSER: dict[str, Any] = {"timeout": 60, "limits": httpx.Limits(max_keepalive_connections=0)}
HTML = {"accept": "text/html"}


@dataclass
class People:
    """People at work, and how often each kind of them has done it."""

    client: Client
    queue: str
    inbox: str
    mcp: str
    done: Counter[str] = field(default_factory=Counter)

    async def runs(self) -> None:
        """Start a run, watch it on a page, and approve its call on the list of its own."""
        id = f"{self.queue}-{uuid.uuid4().hex[:8]}"
        agent = {"name": id, "model": {"endpoint": "fake"}, "tools": [ASKS]}
        request = {"agent": agent, "input": Work(turns=2).prompt}
        handle = await self.client.start_workflow(
            names.AGENT_WORKFLOW, request, id=id, task_queue=self.queue
        )
        async with httpx.AsyncClient(base_url=httpx.URL(self.inbox).join("/"), **BROWSER) as http:
            visitor = Visitor(http, self.inbox)
            await visitor.sign_in()
            page = Page(http, f"/run/{id}", HTML)
            async with asyncio.TaskGroup() as both:
                both.create_task(page.watch())
                both.create_task(self._approve(visitor, id))
        result = await handle.result()
        check(result["status"] == "completed", f"the run {id} has the result {result}")

    async def _approve(self, visitor: Visitor, id: str) -> None:
        is_sent = is_listed = False
        async with asyncio.timeout(MAX_SECONDS):
            while is_listed or not is_sent:
                page = await visitor.get(f"/?agent={id}")
                is_listed = 'name="chosen"' in page
                if is_listed:
                    is_sent = True
                    with suppress(RuntimeError):  # a busy worker has not answered in time
                        await visitor.approve(page)
                await asyncio.sleep(REST_SECONDS)

    async def sign_ins(self) -> None:
        """Sign in, read pages, and close the browser."""
        async with httpx.AsyncClient(**BROWSER) as http:
            visitor = Visitor(http, self.inbox)
            await visitor.sign_in()
            for path in ("/", "/home", "/run"):
                await visitor.get(path)

    async def assistants(self) -> None:
        """Connect an MCP client, call a tool, and disconnect."""
        async with McpClient(self.mcp) as client:
            await client.list_tools()
            result = await client.call_tool(TOOL, {"name": "a", "size": 100})
            check(not result.is_error, f"the call of {TOOL} failed: {result.content}")

    async def again(self, name: str, until: float) -> None:
        """Do one of these until the time is over."""
        do: Callable[[], Awaitable[None]] = getattr(self, name)
        while time.monotonic() < until:
            await do()
            self.done[name] += 1
            await asyncio.sleep(REST_SECONDS)


async def main(seconds: float) -> int:
    """Work for so long, and print what the processes held."""
    queue = f"soak-{uuid.uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = await enter(run_dev_server(DevServer(folder / "temporal.db", port=0, ui_port=0)))
        key = {"HOLDFAST_VIEWERS_KEY": uuid.uuid4().hex, "TEMPORAL_ADDRESS": address}
        holdfast = [sys.executable, "-m", "holdfast"]
        model = await enter(running([sys.executable, "-m", "bench.programs.model", STREAM_SECONDS]))
        inbox = await enter(running([*holdfast, "inbox", "--port", "0"], key))
        link = inbox.said.split()[-1]
        viewers = ("--viewers", str(httpx.URL(link).copy_with(scheme="ws", raw_path=b"/")))
        options = (*viewers, "--cached-runs", CACHED_RUNS)
        worker = await enter(our_worker(address, queue, model.said.split()[-1], *options, **key))
        listen = ("--listen", "0", "--tools", "bench/programs/tools.py", "--task-queue", queue)
        mcp = await enter(running([*holdfast, "mcp", *listen], key))
        people = People(await Client.connect(address), queue, link, mcp.said.split()[-1])
        programs = {"worker": worker, "inbox": inbox, "holdfast mcp": mcp}
        return report(await observed(programs, people, seconds), people.done)


async def observed(
    programs: dict[str, Program], people: People, seconds: float
) -> dict[str, list[Sample]]:
    """Have the work done, and return what each program held meanwhile."""
    samples: dict[str, list[Sample]] = {name: [] for name in programs}
    until = time.monotonic() + seconds
    async with asyncio.TaskGroup() as tasks:
        for name in (name for name, lanes in LANES.items() for _ in range(lanes)):
            tasks.create_task(people.again(name, until))
        while time.monotonic() < until:
            for name, program in programs.items():
                samples[name].append(sample(program.process.pid))
            await asyncio.sleep(seconds / SAMPLES)
    return samples


def report(samples: dict[str, list[Sample]], done: Counter[str]) -> int:
    """Print the thirds side by side; return 1 where a process has grown."""
    print(f"done: {', '.join(f'{count:,} {name}' for name, count in done.items())}")
    grown = []
    for name, of_process in samples.items():
        figures = [f"{what} {thirds(of_process, what)}" for what in MAX_GROWTH]
        print(f"{name}, second and last third: {'; '.join(figures)}")
        grown += [f"{name} has grown: {growth}" for growth in growths(of_process)]
    print("\n".join(grown) or "flat: no process has grown")
    return 1 if grown else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make test-soak ARGS=…", description=__doc__)
    parser.add_argument("--for", dest="length", type=parse_duration, default="3m", metavar="TIME")
    exit_process(asyncio.run(main(parser.parse_args().length.total_seconds())))
