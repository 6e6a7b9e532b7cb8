"""What a budget counts beside the provider's own bill: workers are killed, and models fail."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.schemas.names import BUDGET_WORKFLOW
from tests.support.backend import Backend
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call, serve, turn_of
from tests.support.process import WorkerProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("ledger", "quick_starts"),
]

TOOLS = Path(__file__).parents[2] / "support" / "tools.py"
MOST, RESERVE, RUNS, KILLS = 15_000, 100, 100, 12
# A worker whose heartbeats end is soon known to be dead.
OPTIONS = ("--tools", str(TOOLS), "--cached-runs", "100", "--heartbeat-timeout", "2s")


class BillingModel:
    """A model that fails now and then, and what it bills: an answer, whether or not it arrives.

    Until `gate` is set, every third answer waits for it in its middle.
    """

    def __init__(self) -> None:
        self._chance = random.Random(38)
        self.bill = self.answers = self.waiting = 0
        self.gate = threading.Event()

    def answer(self, _: int, body: dict[str, Any]) -> Answer:
        """Answer a request, or refuse it without a charge."""
        if self._chance.random() < 0.1:
            return Answer(status=503)
        usage = (self._chance.randrange(20, 70), self._chance.randrange(5, 30))
        self.bill += sum(usage)
        self.answers += 1
        hold = self.gate if self.answers % 3 == 0 and not self.gate.is_set() else None
        self.waiting += hold is not None
        calls = [] if turn_of(body) == 3 else LOOKS
        return Answer("Done.", calls, usage=usage, hold=hold)

    def hold(self) -> None:
        """Have answers wait from now on."""
        self.waiting, self.gate = 0, threading.Event()


LOOKS = [call("look_up", id="7")]


@pytest.fixture
def workers(client: Client, tmp_path: Path) -> Iterator[tuple[BillingModel, Backend, list[Any]]]:
    """Three workers of one catalog, whose budget is too small for all runs."""
    provider = BillingModel()
    (tmp_path / "budgets.yaml").write_text(
        f"[{{name: {tmp_path.name}, per: all, window: month, maxTokens: {MOST}, reserve: {RESERVE},"
        " onLimit: fail}]"
    )
    with ExitStack() as stack:
        server = stack.enter_context(serve(provider.answer))
        endpoints = tmp_path / "endpoints.yaml"
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{server.url}'}}")
        words = ["--catalog", str(tmp_path), "--endpoints", str(endpoints)]
        words += [*OPTIONS, "--task-queue", tmp_path.name]
        address = client.service_client.config.target_host
        found = [stack.enter_context(WorkerProcess(address, *words)) for _ in range(3)]
        yield provider, Backend(client, tmp_path.name, server), found


async def test_the_bill_is_within_what_a_budget_counts_but_for_what_workers_lost(
    workers: tuple[BillingModel, Backend, list[WorkerProcess]], tmp_path: Path
) -> None:
    provider, backend, processes = workers
    runs = [await backend.start(["look_up"]) for _ in range(RUNS)]
    ends = [asyncio.create_task(run.result()) for run in runs]
    for n in range(KILLS):

        async def held() -> bool:
            # The last ones may be fewer: all others have ended.
            return provider.waiting >= min(3, sum(not end.done() for end in ends))

        await eventually(held)
        await asyncio.to_thread(processes[n % 3].kill)
        gate = provider.gate
        provider.hold()
        gate.set()
        await asyncio.to_thread(processes[n % 3].start)
    provider.gate.set()
    ended = Counter(result["status"] for result in await asyncio.gather(*ends))
    # Those that stop return what they have leased; what is left was of those that were killed.
    for each in processes:
        await asyncio.to_thread(each.stop)
    await asyncio.to_thread(processes[0].start)

    [id] = [
        each.id
        async for each in backend.client.list_workflows(f"WorkflowType = '{BUDGET_WORKFLOW}'")
        if each.id.startswith(f"holdfast-budget/{tmp_path.name}/")
    ]
    [use] = (await backend.client.get_workflow_handle(id).query("read"))["uses"]
    lost = use.get("reserved", 0) + use.get("estimated", 0)
    assert provider.bill <= use["used"] <= MOST
    assert use["used"] <= provider.bill + lost
    assert lost > 0
    assert ended.keys() == {"completed", "budget_exceeded"}
