"""The inbox over many calls that wait: the first list, a filter, a page further down, a decision.

The inbox is the command, asked over HTTP as a browser asks it. Beside it stands what one would do
without it: list all runs that wait, and ask each what it waits for.
"""

import re
import statistics
import sys
import uuid
from dataclasses import dataclass
from html import unescape
from time import perf_counter

import httpx
from temporalio.client import Client

from bench.measures import many
from bench.measures.many import ASKS, CACHED, MAX_SECONDS, check, each, took
from bench.process import Program, fake_model, our_worker, running
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import RunFilter
from holdfast.schemas import names
from holdfast.web.http.requests import FIELD
from tests.support.eventually import eventually

# As `holdfast approvals` does: a worker answers one query after the other.
ASKED_AT_ONCE = 32
WAITING = RunFilter(status="awaiting_approval")
PRINCIPALS = 10
TAKEN = 9
# Of the naive way, so many runs are asked: all of ten thousand would take as many times longer.
MAX_ASKED = 1_000
TIMEOUT_SECONDS = 60


async def table(client: Client, calls: int) -> str:
    """The figures of so many calls, as a Markdown table."""
    address = client.service_client.config.target_host
    queue = f"inbox-{uuid.uuid4().hex[:8]}"
    environ = {"TEMPORAL_ADDRESS": address}
    command = [sys.executable, "-m", "holdfast", "inbox", "--port", "0"]
    async with (
        fake_model() as model,
        our_worker(address, queue, model, *CACHED) as worker,
        running(command, environ) as inbox,
        httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as http,
    ):
        rows = await Bench(
            client, queue, calls, worker, Visitor(http, inbox.said.split()[-1])
        ).rows()
    return many.table(f"{calls:,} pending approvals", rows)


class Visitor:
    """Somebody with a browser."""

    def __init__(self, http: httpx.AsyncClient, link: str) -> None:
        self._http, self._link = http, link
        self._origin = str(httpx.URL(link).copy_with(raw_path=b"/")).rstrip("/")

    async def sign_in(self) -> None:
        """Open the link that the inbox has printed."""
        answer = await self._http.get(self._link)
        check(answer.status_code == 303, f"nobody was let in: {answer.text}")

    async def get(self, path: str) -> str:
        """A page."""
        answer = await self._http.get(f"{self._origin}{path}", headers={"accept": "text/html"})
        check(answer.status_code == 200, f"{path} came to this: {answer.text}")
        return answer.text

    async def approve(self, page: str) -> None:
        """Approve the first call of a page."""
        [token] = set(re.findall(rf'name="{FIELD}" value="([^"]+)"', page))
        chosen = re.findall(r'name="chosen" value="([^"]+)"', page)[:1]
        # A browser sends which of the chosen were on its screen.
        fields = {FIELD: token, "chosen": chosen, "seen": chosen, "decision": "approve"}
        headers = {"accept": "text/html", "origin": self._origin}
        answer = await self._http.post(f"{self._origin}/", data=fields, headers=headers)
        check("accepted for 1 of 1 call" in answer.text, f"nothing was decided: {answer.text}")


@dataclass(frozen=True)
class Bench:
    """Single calls of one tool, on one worker, and the inbox before them."""

    client: Client
    queue: str
    calls: int
    worker: Program
    visitor: Visitor

    async def rows(self) -> dict[str, float]:
        """Start them, look at them, decide on some."""
        started = await took(self._start())
        await self.visitor.sign_in()
        first = await took(self._page("/"))
        cpu = self.worker.cpu_seconds
        again = await self._median("/")
        expiring = await self._median("/?order=expiring")
        filtered = await self._median("/?principal=p7")
        further = await self._median(await self._tenth_page())
        cpu = (self.worker.cpu_seconds - cpu) / (4 * TAKEN + 10)
        decided = [await self._decide() for _ in range(TAKEN)]
        naive_list, naive_ask = await self._naively()
        return {
            "until all wait, s": started,
            "to the first list, ms": first * 1000,
            "to the list again, ms": again * 1000,
            "soonest to expire first, ms": expiring * 1000,
            "to filter, ms": filtered * 1000,
            "the tenth page, ms": further * 1000,
            "of a page, CPU time of the worker, ms": cpu * 1000,
            "to decide one, ms": statistics.median(decided) * 1000,
            "naively: to list all, ms": naive_list * 1000,
            f"naively: to query {min(self.calls, MAX_ASKED):,} of them, ms": naive_ask * 1000,
        }

    async def _start(self) -> None:
        await each(self._start_one, [f"{self.queue}-{n}" for n in range(self.calls)])
        await eventually(self._all_wait, MAX_SECONDS)

    async def _start_one(self, id: str) -> None:
        principal = {"id": f"p{int(id.rpartition('-')[2]) % PRINCIPALS}"}
        arguments = {"name": id, "size": 100}
        request = {"tool": ASKS, "arguments": arguments, "principal": principal}
        await self.client.start_workflow(names.CALL_WORKFLOW, request, id=id, task_queue=self.queue)

    async def _all_wait(self) -> bool:
        return await HoldfastClient(self.client).count_runs(WAITING) == self.calls

    async def _page(self, path: str) -> str:
        """A page with all its rows answered."""
        text = await self.visitor.get(path)
        check("Querying the run" not in text, f"{path} came without all of its rows")
        return text

    async def _median(self, path: str) -> float:
        return statistics.median([await took(self._page(path)) for _ in range(TAKEN)])

    async def _tenth_page(self) -> str:
        path = "/"
        for _ in range(9):
            further = re.search(r'href="([^"]+)">Next page', await self._page(path))
            if further is None:  # there are not so many
                break
            path = unescape(further[1])
        return path

    async def _decide(self) -> float:
        page = await self._page("/")
        return await took(self.visitor.approve(page))

    async def _naively(self) -> tuple[float, float]:
        began = perf_counter()
        runs = await HoldfastClient(self.client).list_runs(WAITING)
        there = perf_counter()
        await each(self._ask, [run.id for run in runs[:MAX_ASKED]], ASKED_AT_ONCE)
        return there - began, perf_counter() - there

    async def _ask(self, id: str) -> None:
        await HoldfastClient(self.client).run(id).approvals()
