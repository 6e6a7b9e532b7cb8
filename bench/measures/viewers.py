"""What people who watch a run cost: its Actions, and how soon they see the first token.

A run of four requests whose answers stream for ten seconds each, with three calls. Each viewer is a
page of the inbox in a browser of its own: an event stream, which it reads on while it loads the new
entries that the stream announces.
"""

import asyncio
import json
import re
import statistics
import sys
import time
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import httpx

from bench.counters import ACTIONS, Counts, total
from bench.engines import ENGINES
from bench.measures.lists import HEADERS, proxied_inbox
from bench.measures.many import check
from bench.measures.measured import shown
from bench.process import our_worker, running
from bench.programs.work import Work
from bench.server import Server
from bench.stage import told
from holdfast.schemas import names

WORK = Work(turns=4)
STREAM_SECONDS = 10.0
VIEWERS = (0, 1, 100)
PEOPLE = 10
TIMEOUT_SECONDS = 300.0
# Shorter than the server keeps an idle connection: unlike a browser, httpx does not repeat a
# request whose connection the server has just closed.
LIMITS = httpx.Limits(keepalive_expiry=2.0)
_LAST = re.compile(r'id="entries" data-last="(\d*)"')
_WRITTEN_AT = re.compile(r"@(\d+\.\d+)")


async def table(server: Server, viewers: tuple[int, ...] = VIEWERS) -> str:
    """The figures as a Markdown table."""
    address, queue = server.client.service_client.config.target_host, f"live-{uuid.uuid4().hex[:8]}"
    key = {"HOLDFAST_VIEWERS_KEY": uuid.uuid4().hex}
    command = [sys.executable, "-m", "bench.programs.model", str(STREAM_SECONDS)]
    rows = list[tuple[str, ...]]()
    async with (
        running(command) as model,
        proxied_inbox(address, **key) as (_, url),
        our_worker(
            *(address, queue, model.said.split()[-1]),
            *("--viewers", url.replace("http:", "ws:")),
            **key,
        ),
    ):
        for count in viewers:
            before = await server.counters.settled()
            seen = await _watched(server, queue, url, count)
            found = await server.counters.settled() - before
            rows.append(_row(count, found, seen))
            told(str(rows[-1]))
    head = (
        "| viewers | Actions | heartbeats | queries | other | first token, ms: median | slowest |"
    )
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, f"|{' ---: |' * 7}", *lines])


def _row(count: int, found: Counts, seen: list["Page"]) -> tuple[str, ...]:
    heartbeats = found[ACTIONS, "grpc_RecordActivityTaskHeartbeat"]
    queries = found[ACTIONS, "grpc_QueryWorkflow"]
    actions = total(found, ACTIONS)
    delays = [delay * 1000 for page in seen for delay in page.delays]
    shown_delays = (shown(statistics.median(delays)), shown(max(delays))) if delays else ("–", "–")
    counts = (count, actions, heartbeats, queries, actions - heartbeats - queries)
    return (*map(str, counts), *shown_delays)


async def _watched(server: Server, queue: str, url: str, viewers: int) -> list["Page"]:
    """Have a run done while people watch it; return what they saw."""
    engine, id = ENGINES["holdfast"], f"watched-{uuid.uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        # With a client each: one pool looks at all its connections before and after each request.
        browsers = [
            await stack.enter_async_context(
                httpx.AsyncClient(
                    base_url=url, timeout=TIMEOUT_SECONDS, limits=LIMITS, verify=False
                )
            )
            for _ in range(viewers)
        ]
        handle = await server.client.start_workflow(
            names.AGENT_WORKFLOW, args=engine.arguments(WORK), id=id, task_queue=queue
        )
        people = [HEADERS | {"x-user": f"p{n % PEOPLE}"} for n in range(viewers)]
        pages = [
            Page(http, f"/run/{id}", person) for http, person in zip(browsers, people, strict=True)
        ]
        await asyncio.gather(handle.result(), *(page.watch() for page in pages))
    for page in pages:
        check(len(page.delays) == WORK.turns, f"a page saw {len(page.delays)} answers")
    return pages


@dataclass
class Page:
    """A page of a run in a browser; `delays` is how late the first token of each answer was."""

    http: httpx.AsyncClient
    path: str
    headers: Mapping[str, str]
    delays: list[float] = field(default_factory=list)
    _last: str = ""
    _answers: set[str] = field(default_factory=set)
    _has_news: bool = False
    _loading: asyncio.Task[None] | None = None

    async def watch(self) -> None:
        """Follow the run to its end."""
        await self._news()
        event = ""
        async with (
            asyncio.TaskGroup() as tasks,
            self.http.stream("GET", f"{self.path}/changes", headers=self.headers) as stream,
        ):
            async for line in stream.aiter_lines():
                if line.startswith("event:"):
                    event = line.partition(": ")[2]
                elif line.startswith("data:") and event == "changed":
                    self._has_news = True
                    if self._loading is None or self._loading.done():
                        self._loading = tasks.create_task(self._load())
                elif line.startswith("data:") and event == "token":
                    self._token(json.loads(line.partition(": ")[2]))
                elif event == "over":
                    return

    async def _load(self) -> None:
        """Load the news, and again if there are others by then."""
        while self._has_news:
            self._has_news = False
            await self._news()

    async def _news(self) -> None:
        after = f"?after={self._last}" if self._last else ""
        answer = await self.http.get(f"{self.path}/news{after}", headers=self.headers)
        check(answer.status_code == 200, f"no news: {answer.text}")
        [self._last] = _LAST.findall(answer.text) or [self._last]

    def _token(self, news: dict[str, str]) -> None:
        written = _WRITTEN_AT.search(news.get("text", ""))
        if written is not None and news["key"] not in self._answers:
            self._answers.add(news["key"])
            self.delays.append(time.time() - float(written[1]))
