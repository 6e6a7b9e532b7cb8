"""Streams of events of every kind: a sign of life, an end, and nothing kept for absent readers."""

import asyncio
import itertools
import math
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from starlette.requests import Request
from temporalio.client import Client

from holdfast.client.errors import EncryptedError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.remote_run import RemoteRun
from holdfast.client.stream.run_feed import Frame
from holdfast.web.api import runs as of_runs
from holdfast.web.api.api_request import ApiRequest
from holdfast.web.auth.sessions import Person
from holdfast.web.http import streaming
from holdfast.web.http.problems import HttpProblem
from holdfast.web.http.streaming import EventStream, SessionEnd, StreamLimit, frame
from holdfast.web.services import Services
from tests.web.conftest import FULL_FOR_ANN


async def _never(*_: Any) -> Any:
    await asyncio.Event().wait()


async def _nothing() -> AsyncGenerator[str, None]:
    await _never()
    yield ""


async def read(stream: EventStream, send: Any = None, receive: Any = _never) -> list[str]:
    """What a reader receives from a stream until it ends."""
    told: list[str] = []

    async def sent(message: Any) -> None:
        told.append(message.get("body", b"").decode())
        if send is not None:
            await send(len(told))

    async with asyncio.timeout(120):
        session = SessionEnd(math.inf, asyncio.Event())
        await stream({"type": "http", "state": {"session": session}}, receive, sent)
    return told


def test_what_has_several_lines_is_one_event() -> None:
    assert frame("news", "one\ntwo", "7") == "id: 7\nevent: news\ndata: one\ndata: two\n\n"
    assert frame("over", "") == "event: over\ndata: \n\n"


@pytest.mark.parametrize(("method", "holds"), [("GET", True), ("HEAD", False)])
async def test_who_asks_for_the_head_alone_holds_no_stream(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch, method: str, holds: bool
) -> None:
    async def describe(self: RemoteRun) -> None:
        """It is there."""

    monkeypatch.setattr(RemoteRun, "describe", describe)
    scope = {"type": "http", "method": method, "headers": [], "query_string": b""}
    asked = Request(scope | {"state": {"person": Person("ann")}})
    answer = await of_runs.follow(ApiRequest(asked, Services(HoldfastClient(nowhere)), "r"))
    assert isinstance(answer, EventStream) == holds
    assert answer.headers["content-type"].startswith(streaming.MEDIA_TYPE)
    for bound in ((of_runs, "STREAM_LIMIT", StreamLimit(0)), FULL_FOR_ANN):
        with monkeypatch.context() as full:
            full.setattr(*bound)
            again = of_runs.follow(ApiRequest(asked, Services(HoldfastClient(nowhere)), "r"))
            if holds:
                with pytest.raises(HttpProblem) as refused:
                    await again
                assert refused.value.code == "too_many_streams"
            else:
                await again


async def test_the_reason_of_a_silence_is_a_comment_and_no_event() -> None:
    forged = "no worker\n\nevent: done\ndata: {}"

    async def events() -> AsyncGenerator[Frame | str, None]:
        yield forged
        raise EncryptedError(forged, "name its key")

    found = [each async for each in of_runs._written(events())]

    assert [each.count("\n") for each in found] == [2, 2]
    assert found[0] == ": no worker event: done data: {}\n\n"
    assert found[1].startswith(": No worker event: done data: {}; name its key.")


async def test_a_stream_without_events_stays_open_and_ends_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "KEEP_ALIVE_SECONDS", 0.001)
    seconds = itertools.count()
    monkeypatch.setattr(streaming, "monotonic", lambda: next(seconds))
    room = StreamLimit(1)

    told = await read(EventStream(room, "ann", _nothing(), life_seconds=4))

    assert told[1] == f"retry: {streaming.RETRY_MILLISECONDS}\n\n"
    assert told[2:-1] == [": still there\n\n"] * 3
    assert told[-1] == ""
    assert not room.is_full("ann")


async def test_a_reader_who_stops_reading_is_let_go_and_nothing_is_kept_for_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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

    await read(EventStream(StreamLimit(1), "ann", many()), send)

    assert len(made) <= 4
    assert not caplog.records, "a reader that has gone is no fault"


async def test_one_person_in_any_spelling_takes_a_share_of_all_places() -> None:
    room = StreamLimit(5, 2)
    with room.open_stream("ann"), room.open_stream("bob"):
        with room.open_stream("Ann"):
            assert (room.is_full("ANN"), room.is_full("bob")) == (True, False)
            with room.open_stream("bob"), room.open_stream("cat"):
                assert room.is_full("dan")
        assert not room.is_full("ann")


async def test_a_reader_who_takes_all_but_the_end_makes_room_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "STALLED_SECONDS", 0.05)
    room = StreamLimit(1)

    async def one() -> AsyncGenerator[str, None]:
        yield frame("over", "")

    async def send(told: int) -> None:
        if told == 4:  # the head, the delay of a retry, the frame, and the end
            await _never()

    assert len(await read(EventStream(room, "ann", one()), send)) == 4
    assert not room.is_full("ann")


async def test_one_that_fails_is_logged_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    async def events() -> AsyncGenerator[str, None]:
        yield frame("started", "")
        raise ZeroDivisionError

    assert (await read(EventStream(StreamLimit(1), "ann", events())))[-1] == ""
    [record] = caplog.records
    assert record.exc_info
    assert record.exc_info[0] is ZeroDivisionError


async def test_a_stream_is_released_when_its_reader_leaves() -> None:
    room, let_go, started = StreamLimit(2, 1), asyncio.Event(), asyncio.Event()
    full: list[str] = []

    async def events() -> AsyncGenerator[str, None]:
        try:
            yield frame("started", "")
            started.set()
            await _never()
        finally:
            let_go.set()

    async def leave() -> Any:
        await started.wait()
        full.extend(name for name in ("ann", "bob") if room.is_full(name))
        return {"type": "http.disconnect"}

    await read(EventStream(room, "ann", events()), receive=leave)

    assert full == ["ann"]
    assert let_go.is_set()
    assert not room.is_full("ann")
