"""The proxy does to connections what it says: a fault that does not happen proves nothing."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.faults.stage.proxy import HOST, Proxy

SOON_SECONDS = 5


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """A proxy before a server that says everything again."""

    async def echo(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            while data := await reader.read(100_000):
                writer.write(data)
            writer.close()
        except ConnectionError:
            writer.transport.abort()

    server = await asyncio.start_server(echo, HOST, 0)
    async with Proxy(HOST, server.sockets[0].getsockname()[1]) as proxy, asyncio.timeout(30):
        yield proxy
    server.close()


class Caller:
    """Whoever has a connection through the proxy."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def end(self) -> None:
        """Say that no more comes."""
        self._writer.write_eof()

    def leave(self) -> None:
        """Have no connection any more."""
        self._writer.close()

    def say(self, said: bytes) -> None:
        """Send bytes."""
        self._writer.write(said)

    async def heard(self, size_bytes: int) -> bytes:
        """So many bytes that come back."""
        async with asyncio.timeout(SOON_SECONDS):
            return await self._reader.readexactly(size_bytes)

    async def is_reset(self) -> bool:
        """Whether the connection breaks, in the place of an end."""
        try:
            async with asyncio.timeout(SOON_SECONDS):
                await self._reader.read()
        except ConnectionResetError:
            return True
        return False


Call = Callable[[Proxy], Awaitable[Caller]]


@pytest.fixture
async def call() -> AsyncIterator[Call]:
    """Connect to a proxy, until the test is over."""
    callers: list[Caller] = []

    async def connected(proxy: Proxy) -> Caller:
        host, _, port = proxy.address.partition(":")
        callers.append(Caller(*await asyncio.open_connection(host, int(port))))
        return callers[-1]

    yield connected
    for caller in callers:
        caller.leave()


async def test_bytes_and_ends_are_carried(proxy: Proxy, call: Call) -> None:
    caller = await call(proxy)
    said = b"x" * 1_000_000
    caller.say(said)
    assert await caller.heard(len(said)) == said
    caller.end()
    assert not await caller.is_reset()


async def test_a_cut_resets_every_connection_and_none_that_comes_later(
    proxy: Proxy, call: Call
) -> None:
    callers = [await call(proxy) for _ in range(3)]
    for caller in callers:
        caller.say(b"hello")
        await caller.heard(5)
    proxy.cut()
    assert [await caller.is_reset() for caller in callers] == [True] * 3
    later = await call(proxy)
    later.say(b"hello")
    assert await later.heard(5) == b"hello"
    assert proxy.connections == 4


async def test_a_cut_after_some_bytes_lets_those_through(proxy: Proxy, call: Call) -> None:
    caller = await call(proxy)
    proxy.cut_after(3)
    caller.say(b"hello")
    assert await caller.heard(3) == b"hel"
    assert await caller.is_reset()


async def test_what_is_refused_is_reset_until_it_is_accepted(proxy: Proxy, call: Call) -> None:
    proxy.refuse()
    assert await (await call(proxy)).is_reset()
    assert (proxy.connections, proxy.refused) == (0, 1)
    proxy.accept()
    caller = await call(proxy)
    caller.say(b"hello")
    assert await caller.heard(5) == b"hello"


async def test_a_black_hole_holds_everything_until_it_is_filled(proxy: Proxy, call: Call) -> None:
    caller = await call(proxy)
    proxy.blackhole()
    caller.say(b"hello")
    hearing = asyncio.create_task(caller.heard(5))
    assert not (await asyncio.wait({hearing}, timeout=0.1))[0]
    proxy.restore()
    assert await hearing == b"hello"


async def test_a_mute_target_is_heard_from_when_it_may_speak(proxy: Proxy, call: Call) -> None:
    caller = await call(proxy)
    proxy.mute()
    caller.say(b"hello")
    hearing = asyncio.create_task(caller.heard(5))
    assert not (await asyncio.wait({hearing}, timeout=0.1))[0]
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        await hearing
    later = await call(proxy)
    proxy.restore()
    later.say(b"hello")
    assert await later.heard(5) == b"hello"


async def test_a_delay_makes_every_piece_late(proxy: Proxy, call: Call) -> None:
    caller = await call(proxy)
    proxy.delay(0.1)
    begun = asyncio.get_running_loop().time()
    caller.say(b"hello")
    await caller.heard(5)
    assert asyncio.get_running_loop().time() - begun > 0.19


async def test_a_server_that_is_gone_is_a_connection_that_breaks(call: Call) -> None:
    async with Proxy(HOST, 1) as proxy:
        assert await (await call(proxy)).is_reset()
