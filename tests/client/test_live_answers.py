"""What a viewer process makes of the pieces of answers that workers send."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock

from temporalio.api.common.v1 import Payloads
from temporalio.contrib.pydantic import pydantic_data_converter

from holdfast.client.stream.live_answers import LiveAnswer, LiveAnswers
from holdfast.schemas.internal.live_answer import AnswerPosition, QueryResult, WatchChange


class WorkerConnection:
    """The connection of a worker: what it sends, and what it is sent."""

    def __init__(self, live: LiveAnswers) -> None:
        self._live = live
        self._sent = asyncio.Queue[bytes | None]()
        self._received = asyncio.Queue[WatchChange]()

    async def _messages(self) -> AsyncIterator[bytes]:
        while (message := await self._sent.get()) is not None:
            yield message

    async def _receive(self, text: str) -> None:
        self._received.put_nowait(WatchChange.model_validate_json(text))

    @asynccontextmanager
    async def connected(self) -> AsyncIterator["WorkerConnection"]:
        serving = asyncio.create_task(self._live.serve(self._messages(), self._receive))
        try:
            yield self
        finally:
            self._sent.put_nowait(None)
            await serving

    async def send(self, offset: int, text: str, key: str = "t1/1", **more: Any) -> None:
        details = {"attempt": 1, "offset": offset, "text": text, **more}
        piece = {"run": "r", "key": key, "ended": False, **details}
        await self._send(piece)

    async def answer(self, result: QueryResult) -> None:
        await self._send(result.to_json())

    async def _send(self, value: dict[str, Any]) -> None:
        encoded = await pydantic_data_converter.encode([value])
        self._sent.put_nowait(Payloads(payloads=encoded).SerializeToString())

    async def change(self) -> WatchChange:
        async with asyncio.timeout(120):
            return await self._received.get()


async def after(answer: LiveAnswer) -> str | None:
    """The text after the next change."""
    async with asyncio.timeout(120):
        await answer.changed.wait()
    answer.changed.clear()
    return None if answer.progress is None else answer.progress.text


async def test_an_answer_grows_by_its_pieces_to_its_end() -> None:
    live = LiveAnswers(pydantic_data_converter)
    async with WorkerConnection(live).connected() as worker:
        with live.watch("r") as answer:
            assert (await worker.change()).watch == [AnswerPosition(run="r")]
            await worker.send(0, "Good", turn=1)
            assert (await after(answer), answer.ended) == ("Good", False)
            await worker.send(4, " day", turn=1, ended=True)
            assert (await after(answer), answer.ended) == ("Good day", True)
            await worker.send(0, "Next", key="t2/1")
            assert (await after(answer), answer.ended) == ("Next", False)
        assert (await worker.change()).leave == ["r"]


async def test_a_piece_of_another_answer_and_nonsense_are_left_out() -> None:
    live = LiveAnswers(pydantic_data_converter)
    async with WorkerConnection(live).connected() as worker:
        with live.watch("r") as answer:
            await worker.send(4, " day")
            await worker.send(0, "Good")
            await worker.send(4, " evening", key="t1/2")
            await worker.send(3, "d day")
            worker._sent.put_nowait(b"\xff")
            await worker.send(4, " night")
            texts = [await after(answer)]
            while texts[-1] != "Good night":
                texts.append(await after(answer))
            assert set(texts) <= {"Good", "Good night"}


async def test_after_a_lost_connection_the_rest_is_wanted_and_nothing_is_shown() -> None:
    live = LiveAnswers(pydantic_data_converter)
    with live.watch("r") as answer:
        async with WorkerConnection(live).connected() as worker:
            await worker.send(0, "Good")
            await after(answer)
        assert await after(answer) is None
        async with WorkerConnection(live).connected() as worker:
            [position] = (await worker.change()).watch
            assert position == AnswerPosition(run="r", key="t1/1", offset=4)
            await worker.send(4, " day")
            assert await after(answer) == "Good day"


async def test_viewers_share_an_answer_until_the_last_of_them_leaves() -> None:
    live = LiveAnswers(pydantic_data_converter)
    async with WorkerConnection(live).connected() as worker:
        with live.watch("r") as one:
            with live.watch("r") as other:
                assert one is other
            assert len((await worker.change()).watch) == 1
            await worker.send(0, "Good")
            await after(one)
        with live.watch("r") as again:  # it has no text: the worker is asked for all of it
            assert again.progress is None
            assert (await worker.change()).watch == [AnswerPosition(run="r")]


async def test_a_query_is_answered_though_the_connection_of_another_worker_is_lost() -> None:
    live = LiveAnswers(pydantic_data_converter)
    live._workers[asyncio.Event()] = AsyncMock(side_effect=ConnectionResetError)
    async with WorkerConnection(live).connected() as worker:
        asking = asyncio.create_task(live.query("r", "status", []))
        [query] = (await worker.change()).queries
        await worker.answer(QueryResult(query=query.id, position=("run-1", 3), result=[7]))
        async with asyncio.timeout(120):
            found = await asking
    assert found is not None
    assert found.result == [7]
