"""A wire between a worker and its server that can be made to carry nothing back."""

import asyncio
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from types import TracebackType


class LoopbackWire:
    """Loopback TCP in front of a server; leaving the block cuts it.

    Once muted, the server is still read and no longer sent anything: a worker gets the work that
    it waits for, does it, and its report never arrives.
    """

    def __init__(self, server_address: str) -> None:
        self._host, _, self._port = server_address.rpartition(":")
        self._told = asyncio.Event()
        self._told.set()
        self._carrying: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where the worker finds it."""
        return f"127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    def mute(self) -> None:
        """Carry nothing to the server any more."""
        self._told.clear()

    async def __aenter__(self) -> "LoopbackWire":
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._listener.close()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        with suppress(asyncio.CancelledError, OSError):
            await self._carry(reader, writer)

    async def _carry(self, reader: StreamReader, writer: StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._host, int(self._port))
        heard = asyncio.create_task(_pump(far_reader, writer))
        try:
            await _pump(reader, far_writer, self._told)
        finally:
            heard.cancel()
            await asyncio.gather(heard, return_exceptions=True)
            writer.transport.abort()
            far_writer.transport.abort()


async def _pump(
    reader: StreamReader, writer: StreamWriter, gate: asyncio.Event | None = None
) -> None:
    while data := await reader.read(65_536):
        if gate is not None:
            await gate.wait()
        writer.write(data)
        await writer.drain()
