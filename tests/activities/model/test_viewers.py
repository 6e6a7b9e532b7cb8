"""A worker's connections to viewer processes, over loopback: what is sent, and when nothing is."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, PayloadCodec
from websockets.asyncio.server import ServerConnection, serve

from holdfast.activities.model.progress import MAX_PIECE_CHARACTERS, Progress
from holdfast.activities.model.viewers import CachedResult, QueryCached, Viewers, viewers_key
from holdfast.client.stream import local_viewer as local
from holdfast.client.stream.live_answers import LiveAnswer, LiveAnswers
from holdfast.client.stream.local_viewer import local_viewer
from holdfast.runtime.data_converter import with_encryption
from holdfast.schemas.internal.live_answer import MAX_RESULT_BYTES, VIEWERS_KEY
from holdfast.validation.problems import FixableError
from tests.encryption.keys import NEW, ring
from tests.support.eventually import eventually

KEY = "a-key-of-both-of-them"


@pytest.fixture(autouse=True)
def shared_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VIEWERS_KEY, KEY)


class CountingCodec(PayloadCodec):
    """A codec that counts what it encodes."""

    def __init__(self) -> None:
        self.encoded = 0

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        self.encoded += len(payloads)
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)


@asynccontextmanager
async def sending(
    answers: dict[str, Progress],
    *places: str,
    converter: DataConverter = pydantic_data_converter,
    query: QueryCached = lambda *_: None,
) -> AsyncIterator[None]:
    """A worker with these answers, and what it answers to queries."""
    task = asyncio.create_task(Viewers(answers, places, converter, query).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class ViewerProcess:
    """A viewer process that anyone may connect to, and all that it receives."""

    def __init__(self, live: LiveAnswers) -> None:
        self.live, self.address, self.port = live, "", 0
        self.received: list[bytes] = []
        self.connections: list[ServerConnection] = []

    async def accept(self, connection: ServerConnection) -> None:
        self.connections.append(connection)

        async def messages() -> AsyncIterator[bytes]:
            async for message in connection:
                assert isinstance(message, bytes)
                self.received.append(message)
                yield message

        await self.live.serve(messages(), connection.send)


@asynccontextmanager
async def listening(
    converter: DataConverter = pydantic_data_converter, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[ViewerProcess]:
    wire = ViewerProcess(LiveAnswers(converter))
    async with serve(wire.accept, host, port) as server:
        wire.port = server.sockets[0].getsockname()[1]
        wire.address = f"ws://{host}:{wire.port}"
        yield wire


def text_of(answer: LiveAnswer) -> str:
    return "" if answer.progress is None else answer.progress.text


async def until(check: Callable[[], bool]) -> None:
    async def is_so() -> bool:
        return check()

    await eventually(is_so)


async def test_an_answer_arrives_as_it_grows_and_a_lost_connection_repeats_nothing() -> None:
    progress = Progress("t1/1", attempt=1)
    progress.about = {"turn": 1}
    async with listening() as wire, sending({"r": progress}, wire.address):
        with wire.live.watch("r") as answer:
            progress.text("Good ")
            await until(lambda: text_of(answer) == "Good ")
            await wire.connections[0].close()
            progress.text("day")
            await until(lambda: text_of(answer) == "Good day")
            assert b"Good" not in wire.received[-1]
            progress.call(0, "mail", "{}")
            progress.text("x" * (2 * MAX_PIECE_CHARACTERS))
            progress.end()
            await until(lambda: answer.ended)
            assert len(text_of(answer)) == len("Good day") + 2 * MAX_PIECE_CHARACTERS
    assert len(wire.connections) == 2


async def test_each_address_of_a_name_is_a_viewer_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = {"r": Progress("t1/1", attempt=1)}
    answers["r"].text("Good")
    loop = asyncio.get_running_loop()
    async with listening() as one, listening(host="127.0.0.2", port=one.port) as other:
        found = [await loop.getaddrinfo(f"127.0.0.{n}", one.port) for n in (1, 2)]
        look_up = AsyncMock(return_value=[*found[0], *found[1]])
        monkeypatch.setattr(loop, "getaddrinfo", look_up)
        async with sending(answers, f"ws://inboxes:{one.port}"):
            with one.live.watch("r") as first, other.live.watch("r") as second:
                await until(lambda: text_of(first) == text_of(second) == "Good")


async def test_a_new_attempt_replaces_the_text() -> None:
    answers = {"r": Progress("t1/1", attempt=1)}
    async with listening() as wire, sending(answers, wire.address):
        with wire.live.watch("r") as answer:
            answers["r"].text("Good")
            await until(lambda: text_of(answer) == "Good")
            answers["r"] = Progress("t1/2", attempt=2)
            answers["r"].text("Bad")
            await until(lambda: text_of(answer) == "Bad")
            assert answer.progress is not None
            assert answer.progress.attempt == 2


async def test_nothing_is_encoded_for_a_run_that_is_not_watched() -> None:
    codec = CountingCodec()
    converter = DataConverter(payload_codec=codec)
    answers = {"r": Progress("t1/1", attempt=1), "other": Progress("t1/1", attempt=1)}
    async with listening() as wire, sending(answers, wire.address, converter=converter):
        await until(lambda: len(wire.connections) == 1)
        answers["r"].text("Good")
        with wire.live.watch("other"):
            await until(lambda: bool(wire.received))
        assert codec.encoded == len(wire.received) == 1


async def test_an_encrypted_run_s_text_is_encrypted_on_the_wire() -> None:
    converter = with_encryption(pydantic_data_converter, ring(NEW))
    progress = Progress("t1/1", attempt=1)
    async with (
        listening(converter) as wire,
        sending({"a run": progress}, wire.address, converter=converter),
    ):
        with wire.live.watch("a run") as answer:
            progress.text("This is private.")
            await until(lambda: text_of(answer) == "This is private.")
    captured = b"".join(wire.received)
    assert b"binary/encrypted" in captured
    assert b"private" not in captured
    assert b"a run" not in captured


async def test_a_query_is_answered_by_the_worker_that_has_the_run_in_its_cache() -> None:
    asked = list[tuple[str, str, str]]()

    def query(run: str, name: str, arguments: Sequence[Payload]) -> CachedResult | None:
        asked.append((run, name, "".join(each.data.decode() for each in arguments)))
        result = "x" * MAX_RESULT_BYTES if name == "events" else [7]
        [payload] = pydantic_data_converter.payload_converter.to_payloads([result])
        return (("run-1", 12), payload) if run == "r" else None

    async with (
        listening() as wire,
        sending({}, wire.address),
        sending({}, wire.address, query=query),
    ):
        await until(lambda: len(wire.connections) == 2)
        live = wire.live
        found = await live.query("r", "context", [{"after": 3}])
        assert found is not None
        assert (found.position, found.result) == (("run-1", 12), [7])
        assert await live.query("r", "events", []) is None  # it is too long
        assert await live.query("other", "status", []) is None
        assert await live.query("r", "state", ["a name"]) is None
    others = [("r", "events", ""), ("other", "status", "")]
    assert asked == [("r", "context", '{"after":3}'), *others]
    assert await live.query("r", "status", []) is None


async def test_a_viewer_that_reads_nothing_holds_up_no_one() -> None:
    """What it has not read is not kept twice: its answer continues in large pieces."""
    progress = Progress("t1/1", attempt=1)
    stuck = asyncio.Event()

    async def read_nothing(connection: ServerConnection) -> None:
        await connection.send('{"watch": [{"run": "r"}]}')
        await stuck.wait()

    async with (
        listening() as wire,
        serve(read_nothing, "127.0.0.1", 0, max_queue=1, close_timeout=0.1) as server,
        sending(
            {"r": progress},
            wire.address,
            f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}",
        ),
    ):
        with wire.live.watch("r") as answer:
            for _ in range(20):
                progress.text("x" * 40_000)
            await until(lambda: len(text_of(answer)) == 20 * 40_000)
        stuck.set()


async def test_a_wrong_key_is_reported_once_and_the_worker_continues(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "DEV_DATABASE", tmp_path / "t.db")
    async with local_viewer(LiveAnswers(pydantic_data_converter)):
        [file] = (tmp_path / "viewers").iterdir()
        address = "ws://" + file.read_text().partition("@")[2]
        with caplog.at_level(logging.WARNING, "holdfast"):
            async with sending({}, address, f"ws://{'a' * 64}:1"):
                await until(lambda: len(caplog.messages) == 2)
    [refused] = [each for each in caplog.messages if address in each]
    assert refused == (
        f"no live text at {address}, which is tried again: it answers 401; "
        "set HOLDFAST_VIEWERS_KEY to the same text here and at the inbox"
    )


async def test_a_viewer_of_this_machine_is_found_by_its_file_and_a_stale_file_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "DEV_DATABASE", tmp_path / "t.db")
    folder, progress = tmp_path / "viewers", Progress("t1/1", attempt=1)
    progress.text("Good")
    folder.mkdir()
    stale = folder / "1-1"
    stale.write_text("ws://worker:key@127.0.0.1:1")
    live = LiveAnswers(pydantic_data_converter)
    async with sending({"r": progress}, str(folder)):
        async with local_viewer(live):
            [file] = {*folder.iterdir()} - {stale}
            assert file.stat().st_mode & 0o777 == 0o600
            with live.watch("r") as answer:
                await until(lambda: text_of(answer) == "Good")
        await until(lambda: not [*folder.iterdir()])


@pytest.mark.parametrize(
    "text", ["https://a://", "ws://", "ws://[", "ws://a:x", "wss://u:secret@a", "wss://a#b"]
)
def test_a_text_that_is_no_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(FixableError) as error:
        viewers_key([text])
    assert str(error.value) == (
        "`viewers` has no address of an inbox; write wss://HOST or wss://HOST:PORT"
    )
