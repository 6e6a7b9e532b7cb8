"""A TCP proxy on loopback, and what can go wrong on a wire: cut, refused, late, silent.

It knows nothing of what it carries. What is done to it holds for every connection there is, and
for later ones until it is undone.
"""

import asyncio
import socket
import struct
from typing import Self

HOST = "127.0.0.1"
_READ_BYTES = 64 * 1024
# On closing, a reset in the place of an end: on, for no seconds.
_RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Forwards bytes between the clients of `address` and a target."""

    def __init__(self, target_host: str, target_port: int) -> None:
        self._target = (target_host, target_port)
        self._open: set[_Connection] = set()
        self._is_refusing = False
        self._flowing = asyncio.Event()
        self.restore()
        self._delay_seconds = 0.0

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`."""
        return f"{HOST}:{self._port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, HOST, 0)
        self._port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.restore()
        self.cut()

    def cut(self) -> None:
        """Reset every connection, now."""
        for connection in list(self._open):
            connection.reset()

    def refuse(self) -> None:
        """Reset each connection, until set to `accept`."""
        self._is_refusing = True

    def accept(self) -> None:
        """Take connections again."""
        self._is_refusing = False

    def delay(self, seconds: float) -> None:
        """Carry every piece so much later; 0: at once again."""
        self._delay_seconds = seconds

    def blackhole(self) -> None:
        """Hold every byte back, with the connections open, until `restore`."""
        self._flowing.clear()

    def restore(self) -> None:
        """Carry what was held back, and whatever comes."""
        self._flowing.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._is_refusing:
                raise ConnectionRefusedError
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            return
        connection = _Connection(writer, back)
        self._open.add(connection)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(reader, back, connection))
                both.create_task(self._copy(there, writer, connection))
        finally:
            self._open.discard(connection)
            connection.close()

    async def _copy(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, connection: "_Connection"
    ) -> None:
        """Carry one direction to its end. A connection that breaks is broken on both sides."""
        try:
            while data := await source.read(_READ_BYTES):
                await asyncio.sleep(self._delay_seconds)
                await self._flowing.wait()
                sink.write(data)
                await sink.drain()
            sink.write_eof()
        except OSError:
            connection.reset()


class _Connection:
    """The two sides of one connection."""

    def __init__(self, *sides: asyncio.StreamWriter) -> None:
        self._sides = sides

    def close(self) -> None:
        """End it."""
        for side in self._sides:
            side.close()

    def reset(self) -> None:
        """Break it."""
        for side in self._sides:
            _reset(side)


def _reset(side: asyncio.StreamWriter) -> None:
    connection: socket.socket | None = side.get_extra_info("socket")
    if connection is not None and not side.transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    side.transport.abort()
