"""Streams of events of every kind: a sign of life, an end, and nothing kept for who has gone."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from inbox import streaming
from inbox.streaming import EventStream, Room, frame


async def _never(*_: Any) -> Any:
    await asyncio.Event().wait()


async def _nothing() -> AsyncGenerator[str, None]:
    await _never()
    yield ""


async def read(stream: EventStream, send: Any = None, receive: Any = _never) -> list[str]:
    """What somebody is told by a stream until it ends."""
    told: list[str] = []

    async def sent(message: Any) -> None:
        told.append(message.get("body", b"").decode())
        if send is not None:
            await send(len(told))

    async with asyncio.timeout(5):
        await stream({"type": "http"}, receive, sent)
    return told


def test_what_has_several_lines_is_one_event() -> None:
    assert frame("news", "one\ntwo", "7") == "id: 7\nevent: news\ndata: one\ndata: two\n\n"
    assert frame("over", "") == "event: over\ndata: \n\n"


async def test_one_that_has_nothing_to_tell_lives_and_ends_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "KEEP_ALIVE_SECONDS", 0.02)
    room = Room(1)

    told = await read(EventStream(room, _nothing(), life_seconds=0.1))

    assert told[1] == f"retry: {streaming.RETRY_MILLISECONDS}\n\n"
    assert set(told[2:-1]) == {": still there\n\n"}
    assert len(told) > 4
    assert told[-1] == ""
    assert not room.is_full


async def test_a_reader_who_stops_reading_is_let_go_and_nothing_is_kept_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "STALLED_SECONDS", 0.05)
    made: list[int] = []

    async def many() -> AsyncGenerator[str, None]:
        for n in range(1000):
            made.append(n)
            yield frame("turn_start", str(n))

    async def send(told: int) -> None:
        if told > 4:
            await _never()

    await read(EventStream(Room(1), many()), send)

    assert len(made) <= 4


async def test_what_is_told_is_let_go_of_when_the_reader_leaves() -> None:
    room, let_go, begun = Room(1), asyncio.Event(), asyncio.Event()

    async def told() -> AsyncGenerator[str, None]:
        try:
            yield frame("begun", "")
            begun.set()
            await _never()
        finally:
            let_go.set()

    async def leave() -> Any:
        await begun.wait()
        assert room.is_full
        return {"type": "http.disconnect"}

    await read(EventStream(room, told()), receive=leave)

    assert let_go.is_set()
    assert not room.is_full
