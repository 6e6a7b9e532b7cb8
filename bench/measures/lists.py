"""What open lists of pending approvals cost a server: requests to its visibility.

The runs have no worker: lists need none. The inbox is the command, behind a proxy that names five
people. A viewer does what a browser does: it loads the page, follows its changes, and loads it
again after each.
"""

import asyncio
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from html import unescape
from pathlib import Path
from time import perf_counter

import httpx

from bench.measures.many import check
from bench.measures.measured import shown
from bench.process import Program, running
from bench.server import Server
from bench.stage import told
from holdfast.hosting.dev_server import free_port
from holdfast.hosting.temporal import usable_search_attributes
from tests.client.crowd import Asks, Crowd
from tests.support.eventually import eventually

PEOPLE = 5
PRINCIPALS = 50
STARTED_AT_ONCE = 100
COLUMNS = ("visibility requests a second", "pages that failed", "CPU time of the inbox, %")
# Until all have opened their list; where the server limits visibility, some never do.
OPENING_SECONDS = 20
# Each as a list that a viewer of its own has open.
LISTS = [
    f"/?order={order}&principal=p{n}" for order in ("newest", "expiring") for n in range(PRINCIPALS)
]
HEADERS = {"accept": "text/html", "host": "inbox.example.com"}
_OPERATION = "(?:List|Count)WorkflowExecutions"
_REQUESTS = re.compile(
    rf'^service_requests{{namespace="default",operation="{_OPERATION}".*}} (\S+)$', re.MULTILINE
)


async def table(server: Server, runs: int, viewers: int, seconds: int) -> str:
    """The requests a second while so many lists are open, as a Markdown table."""
    await usable_search_attributes(server.client)
    crowd = Crowd(server.client)
    for n in range(0, runs, STARTED_AT_ONCE):
        await crowd.start(map(_asks, range(n, min(runs, n + STARTED_AT_ONCE))))
    rows, started = [], runs
    async with proxied_inbox(server.client.service_client.config.target_host) as (inbox, url):
        for name, paths in (
            ("one list", ["/"] * viewers),
            ("a list each", (LISTS * viewers)[:viewers]),
        ):
            async with _watching(url, paths) as browsers:
                for title, starts in (
                    ("nothing changes", []),
                    ("a new run each second", range(started, started + seconds)),
                ):
                    browsers.failed = 0
                    before, cpu, began = await _counted(server), inbox.cpu_seconds, perf_counter()
                    for n in starts:
                        await crowd.start_one(_asks(n))
                        await asyncio.sleep(1)
                    await asyncio.sleep(max(0.0, began + seconds - perf_counter()))
                    took = perf_counter() - began
                    requests = await _counted(server) - before
                    used = (inbox.cpu_seconds - cpu) / took * 100
                    figures = shown(requests / took), f"{browsers.failed:,}", shown(used)
                    cells = f"{viewers} viewers of {name}", title, *figures
                    rows.append(f"| {' | '.join(cells)} |")
                    told(rows[-1])
                started += seconds
    title = f"| {runs:,} pending approvals | | {' | '.join(COLUMNS)} |"
    return "\n".join([title, f"| --- | --- |{' ---: |' * len(COLUMNS)}", *rows])


def _asks(n: int) -> Asks:
    return Asks(f"{n}", timedelta(seconds=n), principal=f"p{n % PRINCIPALS}")


async def _counted(server: Server) -> int:
    """The requests to visibility that the server has counted."""
    await asyncio.sleep(1.5)  # it publishes its counters once a second
    async with httpx.AsyncClient() as http:
        pages = [(await http.get(url)).text for url in server.counters.urls]
    return sum(int(float(count)) for count in _REQUESTS.findall("\n".join(pages)))


@asynccontextmanager
async def proxied_inbox(address: str, **environ: str) -> AsyncIterator[tuple[Program, str]]:
    """The inbox behind a proxy, and its address."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "inbox.yaml"
        proxy = "proxy: {userHeader: X-User, networks: [127.0.0.0/8]}"
        settings.write_text(f"url: https://{HEADERS['host']}\n{proxy}\n", encoding="utf-8")
        command = [sys.executable, "-m", "holdfast", "inbox", "--settings", str(settings)]
        port = free_port()
        command += ["--port", str(port)]
        async with running(command, {"TEMPORAL_ADDRESS": address, **environ}) as program:
            yield program, f"http://127.0.0.1:{port}"


class Browsers:
    """Viewers with a list each, which they load again until they have it."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.opened = self.failed = 0
        self._http = http

    async def watch(self, path: str, person: str) -> None:
        """Look at a list."""
        headers = {**HEADERS, "x-user": person}
        [changes] = re.findall(r'sse-connect="([^"]+)"', await self._load(path, headers))
        while True:
            async with self._http.stream("GET", unescape(changes), headers=headers) as stream:
                check(stream.status_code == 200, f"{path} is not followed: {stream.status_code}")
                self.opened += 1
                async for line in stream.aiter_lines():
                    if line == "event: changed":
                        await self._load(path, headers)

    async def _load(self, path: str, headers: Mapping[str, str]) -> str:
        while True:
            page = await self._http.get(path, headers=headers)
            if page.status_code == 200:
                return page.text
            self.failed += 1
            await asyncio.sleep(1)


@asynccontextmanager
async def _watching(url: str, paths: Sequence[str]) -> AsyncIterator[Browsers]:
    """Viewers of these lists."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=None, limits=limits) as http:
        browsers = Browsers(http)
        viewers = [
            asyncio.create_task(browsers.watch(path, f"person-{n % PEOPLE}"))
            for n, path in enumerate(paths)
        ]

        async def all_opened() -> bool:
            return browsers.opened == len(paths)

        with suppress(TimeoutError):
            await eventually(all_opened, OPENING_SECONDS)
        told(f"{browsers.opened} of {len(paths)} lists are open")
        yield browsers
        for viewer in viewers:
            viewer.cancel()
        for ended in await asyncio.gather(*viewers, return_exceptions=True):
            check(isinstance(ended, asyncio.CancelledError), f"a viewer has left: {ended!r}")
