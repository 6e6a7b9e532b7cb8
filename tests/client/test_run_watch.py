"""A run is polled once for all that view it, and rarely while nothing happens."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import (
    Client,
    DescribeWorkflowInput,
    Interceptor,
    OutboundInterceptor,
    QueryWorkflowInput,
    WorkflowExecutionDescription,
)
from temporalio.contrib.pydantic import pydantic_data_converter

from holdfast.client.errors import UNREACHABLE, HoldfastError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.stream import run_watch
from holdfast.client.stream.heartbeats import AnswerProgress
from holdfast.client.stream.live_answers import LiveAnswers
from holdfast.client.stream.run_watch import Look, RunDescription, RunWatches
from tests.client.test_live_answers import WorkerConnection
from tests.support.backend import SIDE_BY_SIDE, backend
from tests.support.inbox import watches
from tests.support.model_server import Answer, call

VIEWERS = 100
RUN = "r"
LOOK = RunDescription(("r", 1), closed=False, streaming=None)
AWAY = HoldfastError("Temporal does not answer", "check it", UNREACHABLE)


class Watched:
    """A run, by what comes of each poll: one after the other, the last again and again."""

    def __init__(self, *found: RunDescription | HoldfastError) -> None:
        self.found, self.polls = found, 0
        self.live = LiveAnswers(pydantic_data_converter)
        self.watches = RunWatches(self.live)

    def looks(self) -> AsyncGenerator[Look, None]:
        return self.watches.looks(RUN, self._observe, inf)

    async def _observe(self) -> RunDescription:
        found = self.found[min(self.polls, len(self.found) - 1)]
        self.polls += 1
        await asyncio.sleep(0)
        if isinstance(found, HoldfastError):
            raise found
        return found


async def test_the_poll_slows_down_until_the_run_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def timeout(seconds: float) -> asyncio.Timeout:
        waited.append(seconds)
        return asyncio.Timeout(0)

    texts = [replace(LOOK, streaming=AnswerProgress("1/1", 1, "x" * n, 0, [])) for n in range(9)]
    changed = [replace(LOOK, attempts=n) for n in range(2, 9)]
    monkeypatch.setattr(run_watch, "monotonic", lambda: 0)
    monkeypatch.setattr(asyncio, "timeout", timeout)
    async with aclosing(Watched(*texts, *changed).looks()) as looks:
        for _ in (*texts, *changed):
            await anext(looks)

    slower = (0.15 * 1.6**n for n in range(9))
    assert waited[:9] == pytest.approx([min(each, 1.5) for each in slower]), "a text is no change"
    assert waited[9:] == [0.15] * 6


async def test_an_error_reaches_every_viewer_and_the_next_look_may_succeed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_watch, "SLOWEST_SECONDS", 0)
    run = Watched(AWAY, LOOK)

    async def seen() -> list[Look]:
        async with aclosing(run.looks()) as looks:
            return [await anext(looks), await anext(looks)]

    assert await asyncio.gather(*(seen() for _ in range(VIEWERS))) == [[AWAY, LOOK]] * VIEWERS
    assert run.polls == 2


async def test_a_viewer_that_comes_later_sees_the_run_as_it_is_then() -> None:
    later = replace(LOOK, position=("r", 2))
    run = Watched(LOOK, later)
    async with aclosing(run.looks()) as first:
        assert await anext(first) == LOOK
        async with aclosing(run.looks()) as second:
            assert await anext(second) == later
        assert await anext(first) == later
    assert run.polls == 2


async def test_a_viewer_that_leaves_takes_nothing_from_the_others() -> None:
    run = Watched(LOOK)
    async with aclosing(run.looks()) as first, aclosing(run.looks()) as second:
        leaving, staying = (asyncio.ensure_future(anext(each)) for each in (first, second))
        await asyncio.sleep(0)
        leaving.cancel()
        assert await staying == LOOK


def text_of(look: Look) -> str | None:
    assert isinstance(look, RunDescription)
    return None if look.streaming is None else look.streaming.text


async def test_a_live_answer_is_seen_between_two_polls_from_its_begin_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Only what comes live brings a look in time.
    monkeypatch.setattr(run_watch, "FASTEST_SECONDS", 60)
    run = Watched(LOOK, replace(LOOK, requests=["7"]))

    async with WorkerConnection(run.live).connected() as worker, aclosing(run.looks()) as looks:
        async with asyncio.timeout(120):
            assert text_of(await anext(looks)) is None
            await worker.change()
            found = []
            for offset, text, ended in ((0, "Goo", False), (3, "d", False), (4, "", True)):
                await worker.send(offset, text, key="7/1", ended=ended)
                found.append((text_of(await anext(looks)), run.polls))
            assert found == [("Goo", 2), ("Good", 2), ("Good", 3)], "a piece of it needs no poll"


@pytest.mark.parametrize(
    ("key", "heartbeat", "shown"),
    [
        ("7/1", None, "Good"),
        ("6/1", None, None),  # its request is over
        ("7/1", AnswerProgress("7/1", 1, "ood", 1, []), "Good"),
        ("7/1", AnswerProgress("7/1", 1, "d day", 3, []), "d day"),  # the worker is lost
    ],
)
async def test_the_longer_answer_of_a_request_that_runs_is_seen(
    key: str, heartbeat: AnswerProgress | None, shown: str | None
) -> None:
    run = Watched(replace(LOOK, requests=["7"], streaming=heartbeat))
    async with WorkerConnection(run.live).connected() as worker, aclosing(run.looks()) as looks:
        await anext(looks)
        await worker.change()
        await worker.send(0, "Good", key=key)
        assert text_of(await anext(looks)) == shown


async def test_what_viewers_read_at_the_same_time_is_read_once() -> None:
    found_there: list[list[int] | HoldfastError] = [[1], AWAY, [1, 2]]
    answers, shared = iter(found_there), watches()

    async def read() -> list[int]:
        answer = next(answers)
        await asyncio.sleep(0)
        if isinstance(answer, HoldfastError):
            raise answer
        return answer

    async def found() -> list[Any]:
        reads = (shared.share("run", "page", read) for _ in range(VIEWERS))
        return await asyncio.gather(*reads, return_exceptions=True)

    assert [await found() for _ in range(3)] == [[each] * VIEWERS for each in found_there]


async def test_what_a_viewer_has_read_is_read_again_only_after_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_watch, "FASTEST_SECONDS", 0)
    later, reads = replace(LOOK, position=("r", 2)), iter(range(VIEWERS))
    run = Watched(LOOK, LOOK, later)

    async def read() -> int:
        return next(reads)

    async def found(*, until_change: bool = True) -> int:
        return await run.watches.share(RUN, "page", read, until_change=until_change)

    assert [await found(), await found()] == [0, 1], "no one watches it"
    async with aclosing(run.looks()) as looks:
        assert [await anext(looks), await found()] == [LOOK, 2]
        assert [await anext(looks), await found()] == [LOOK, 2]
        assert await found(until_change=False) == 3
        assert [await anext(looks), await found()] == [later, 4]
        run.watches.poll(RUN)
        assert await found() == 5, "this process has sent something to it"


class RequestCounter(Interceptor):
    """A client's requests for the description of a run, and its queries."""

    def __init__(self) -> None:
        self.requests = self.queries = 0

    def intercept_client(self, next_: OutboundInterceptor) -> OutboundInterceptor:
        counting = self

        class Requests(OutboundInterceptor):
            async def describe_workflow(
                self, input: DescribeWorkflowInput
            ) -> WorkflowExecutionDescription:
                counting.requests += 1
                return await super().describe_workflow(input)

            async def query_workflow(self, input: QueryWorkflowInput) -> Any:
                counting.queries += 1
                return await super().query_workflow(input)

        return Requests(next_)


async def test_a_hundred_viewers_cost_the_requests_of_one(client: Client, tmp_path: Path) -> None:
    counting, gate = RequestCounter(), threading.Event()
    counted = Client(**(client.config() | {"interceptors": [counting]}))
    agents = HoldfastClient(counted)

    async def looks_at(run_id: str) -> int:
        """View a run to its end; the model continues when every viewer had six looks."""
        seen = 0
        async with aclosing(agents.run(run_id).looks()) as looks:
            async for look in looks:
                seen += 1
                if seen == 6:
                    gate.set()
                if isinstance(look, RunDescription) and look.closed:
                    return seen
        raise AssertionError

    async def events_of(run_id: str) -> list[str]:
        return [record.entry.type async for record in agents.run(run_id).events()]

    answer = Answer("I looked it up. " * 4, hold=gate)
    async with backend(client, tmp_path, [answer], **SIDE_BY_SIDE) as made:
        run = await made.start([])
        seen = await asyncio.gather(*(looks_at(run.id) for _ in range(VIEWERS)))
        polls = counting.requests
        queries = []
        for readers in (1, VIEWERS):
            before = counting.queries
            found = await asyncio.gather(*(events_of(run.id) for _ in range(readers)))
            assert all(types == found[0] and types[-1] == "done" for types in found)
            queries.append(counting.queries - before)

    assert seen == [polls] * VIEWERS
    assert queries[1] <= 2 * queries[0]


@pytest.mark.usefixtures("ledger")
async def test_what_this_process_decides_is_seen_at_once(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_watch, "FASTEST_SECONDS", 60)
    said = [Answer(calls=[call("pay", amount=5)]), Answer("Paid.")]
    async with backend(client, tmp_path, said, **SIDE_BY_SIDE) as made:
        started = await made.start(["pay"])
        await started.waiting()
        run = HoldfastClient(client).run(started.id)
        async with asyncio.timeout(120), aclosing(run.looks()) as looks:
            before = await anext(looks)
            [pending] = await run.approvals()
            await pending.approve(by="ada")
            after = await anext(looks)
        await started.result()

    assert isinstance(before, RunDescription)
    assert isinstance(after, RunDescription)
    assert after.position > before.position
