"""The workers of a process live as one, and requests wait in queues with names of their own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.activities.interceptors.auto_heartbeat import OutlivedAttempts
from holdfast.hosting.worker import WorkerGroup
from holdfast.schemas import names


class Fake:
    """A worker that writes down what is done with it, and stops when it is let."""

    def __init__(self, name: str, told: list[str], let: asyncio.Event) -> None:
        self._name, self._told, self._let = name, told, let
        self.is_running = False

    async def __aenter__(self) -> None:
        self.is_running = True
        self._told.append(f"{self._name} starts")

    async def __aexit__(self, *_: object) -> None:
        self.is_running = False

    async def shutdown(self) -> None:
        self._told.append(f"{self._name} is told to stop")
        await self._let.wait()
        self._told.append(f"{self._name} stops")


@asynccontextmanager
async def around(told: list[str]) -> AsyncIterator[None]:
    told.append("the house opens")
    yield
    told.append("the house closes")


async def test_all_are_told_to_stop_at_once_and_none_outlives_what_is_around_them() -> None:
    told: list[str] = []
    let = asyncio.Event()
    main, asking = (Fake(name, told, let) for name in ("main", "asking"))
    workers: Any = WorkerGroup(main, [asking], around(told), OutlivedAttempts(1))  # type: ignore[arg-type, list-item]
    async with workers:
        assert workers.is_running
        asking.is_running = False
        assert not workers.is_running
        asyncio.get_running_loop().call_later(0.01, let.set)
    assert told == [
        *("the house opens", "main starts", "asking starts"),
        *("main is told to stop", "asking is told to stop", "main stops", "asking stops"),
        "the house closes",
    ]


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
