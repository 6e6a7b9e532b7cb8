"""The answers that models are writing, as workers send them to this process, and their own answers.

A process has one `LiveAnswers`. A worker that connects is sent the runs that are watched here, each
with the position that this process has, and sends the rest of their answers. Who watches a run
reads its `LiveAnswer`:

    with live.watch(run_id) as answer:
        await answer.changed.wait()
        answer.changed.clear()
        show(answer.progress)

No worker has to connect: the end of an answer is in Temporal, and its heartbeats show parts of it.

A worker that is connected also answers queries of the runs in its cache, which are no Action there.
"""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from temporalio.api.common.v1 import Payloads
from temporalio.converter import DataConverter

from holdfast.client.stream.heartbeats import AnswerProgress, answer_progress
from holdfast.schemas.internal.live_answer import (
    MAX_LIVE_CHARACTERS,
    AnswerPosition,
    LiveQuery,
    QueryResult,
    WatchChange,
)

_Send = Callable[[str], Awaitable[None]]


class LiveAnswer:
    """The answer that a model is writing for one run.

    `changed` is set at each change. `ended`: the request of `progress` has ended, and Temporal has
    its result now or soon.
    """

    def __init__(self, run: str) -> None:
        self.changed = asyncio.Event()
        self.ended = False
        self.viewers = 0
        self._run = run
        self._received: AnswerProgress | None = None
        # The connection that sent it, None after that was lost.
        self._sender: object = None

    @property
    def progress(self) -> AnswerProgress | None:
        """Return the whole text so far; None if no worker that is connected has sent it.

        After the end of the request it is the last one until another request begins.
        """
        return None if self._sender is None else self._received

    @property
    def position(self) -> AnswerPosition:
        """Return what this process has, for a worker that connects."""
        if self._received is None:
            return AnswerPosition(run=self._run)
        received = self._received
        return AnswerPosition(run=self._run, key=received.key, offset=len(received.text))

    def receive(self, piece: AnswerProgress, sender: object, *, ended: bool) -> None:
        """Add a piece, unless it belongs to an answer whose beginning is missing here."""
        if piece.offset:
            have = self.position
            if (have.key, have.offset) != (piece.key, piece.offset) or self._received is None:
                return
            text = (self._received.text + piece.text)[:MAX_LIVE_CHARACTERS]
            piece = replace(piece, text=text, offset=0)
        self._received, self._sender, self.ended = piece, sender, ended
        self.changed.set()

    def lose(self, sender: object) -> None:
        """Note that a connection is lost: what it sent may be of a worker that has stopped."""
        if self._sender is sender:
            self._sender = None
            self.changed.set()


class LiveAnswers:
    """The live answers of the runs that are watched in this process.

    `converter` decodes what workers send, as it decodes the payloads of their runs.
    """

    def __init__(self, converter: DataConverter) -> None:
        self._converter = converter
        self._answers: dict[str, LiveAnswer] = {}
        # The connected workers: what wakes each, and what sends to it.
        self._workers: dict[asyncio.Event, _Send] = {}
        self._ids = count(1)
        self._queries: dict[int, _Query] = {}

    @contextmanager
    def watch(self, run_id: str) -> Iterator[LiveAnswer]:
        """Watch a run in the body of the `with` statement; all its viewers share one answer."""
        answer = self._answers.setdefault(run_id, LiveAnswer(run_id))
        answer.viewers += 1
        self._wake()
        try:
            yield answer
        finally:
            answer.viewers -= 1
            if not answer.viewers:
                del self._answers[run_id]
                self._wake()

    async def query(self, run: str, name: str, args: list[Any]) -> QueryResult | None:
        """Return the answer of a worker that has the run in its cache; None if none has.

        Where a connection is lost, it may never return.
        """
        query = _Query(set(self._workers), asyncio.get_running_loop().create_future())
        if not query.workers:
            return None
        change = WatchChange(queries=[LiveQuery(id=next(self._ids), run=run, name=name, args=args)])
        self._queries[change.queries[0].id] = query
        try:
            text = change.model_dump_json()
            sending = (send(text) for send in self._workers.values())
            await asyncio.gather(*sending, return_exceptions=True)  # one may be lost by now
            return await query.answer
        finally:
            del self._queries[change.queries[0].id]

    async def serve(self, messages: AsyncIterable[str | bytes], send: _Send) -> None:
        """Serve the connection of a worker, which has shown the key, until it is closed.

        Raises:
            Exception: as `messages` and `send` do where the connection is lost.
        """
        wake = asyncio.Event()
        self._workers[wake] = send
        telling = asyncio.create_task(self._send_changes(send, wake))
        try:
            async for message in messages:
                if isinstance(message, bytes):
                    await self._receive(message, wake)
        finally:
            del self._workers[wake]
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            for answer in self._answers.values():
                answer.lose(wake)

    async def _receive(self, message: bytes, sender: asyncio.Event) -> None:
        try:
            payloads = Payloads.FromString(message).payloads
            [value] = await self._converter.decode(payloads)
        except Exception:
            return  # from a worker with other keys: the heartbeat reports it
        match value:
            case {"run": str() as run, "key": str() as key, "ended": bool() as ended}:
                piece, answer = answer_progress(key, value), self._answers.get(run)
                if piece is not None and answer is not None:
                    answer.receive(piece, sender, ended=ended)
            case {"query": int() as id} if id in self._queries:
                self._queries[id].receive(QueryResult.read(value), sender)

    async def _send_changes(self, send: _Send, wake: asyncio.Event) -> None:
        sent: dict[str, LiveAnswer] = {}
        while True:
            wake.clear()
            # A run that was left and is watched again has lost its text.
            new = [each for run, each in self._answers.items() if sent.get(run) is not each]
            leave = [run for run in sent if run not in self._answers]
            sent = dict(self._answers)
            if new or leave:
                change = WatchChange(watch=[each.position for each in new], leave=leave)
                await send(change.model_dump_json())
            await wake.wait()

    def _wake(self) -> None:
        for each in self._workers:
            each.set()


@dataclass
class _Query:
    """A query, and the workers that have not answered yet."""

    workers: set[asyncio.Event]
    answer: asyncio.Future[QueryResult | None]

    def receive(self, result: QueryResult, sender: asyncio.Event) -> None:
        self.workers.discard(sender)
        if not self.answer.done() and (result.position or not self.workers):
            self.answer.set_result(result if result.position else None)
