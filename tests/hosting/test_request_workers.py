"""The workers of a process live as one, and requests wait in queues with names of their own."""

import asyncio
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.hosting.plugin import worker_parts
from holdfast.hosting.worker import WorkerSettings, build_worker
from holdfast.hosting.worker_parts import WorkerParts
from holdfast.schemas import names
from tests.support.eventually import eventually


class RequestWorker:
    """A worker for requests that writes down what is done with it, and stops when it is let."""

    def __init__(self, told: list[str], let: asyncio.Event) -> None:
        self._told, self._let = told, let
        self.is_running = False

    async def __aenter__(self) -> None:
        self.is_running = True

    async def __aexit__(self, *_: object) -> None:
        await self._let.wait()
        self._told.append("ends")

    async def shutdown(self) -> None:
        self._told.append("shutdown")


async def test_workers_for_requests_are_stopped_with_the_worker_and_awaited(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, let = list[str](), asyncio.Event()
    asking: Any = RequestWorker(told, let)
    monkeypatch.setattr(WorkerParts, "request_workers", lambda *_: [asking])
    worker = build_worker(client, WorkerSettings(task_queue="requests-stop"))
    parts = worker_parts(worker)

    async def is_running() -> bool:
        return worker.is_running and asking.is_running

    async def is_shut_down() -> bool:
        return told == ["shutdown"]

    running = asyncio.create_task(worker.run())
    await eventually(is_running)
    states = []
    for state in (True, False):
        asking.is_running = state
        states.append(parts.is_running)
    assert states == [True, False]
    stopping = asyncio.create_task(worker.shutdown())
    await eventually(is_shut_down)
    assert not running.done()
    let.set()
    await asyncio.gather(stopping, running)
    assert told == ["shutdown", "ends"]


def test_the_queues_of_two_endpoints_are_never_the_same() -> None:
    assert names.request_queue("holdfast", "openai") == "holdfast.requests.openai"
    assert names.request_queue("q", "a.requests.b") != names.request_queue("q.requests.a", "b")


def test_a_short_name_is_its_own_key_and_another_has_a_digest_that_the_server_takes() -> None:
    for who in ("ada", "ada@example.com", "Ада 7", "a" * 64):
        assert names.fairness_key(who) == who
    for who in ("a" * 65, "ä" * 33, "half a character: \ud83d", "two\nlines"):
        key = names.fairness_key(who)
        assert len(key.encode()) == 64
        assert key != names.fairness_key(who + "!")
