"""What stands before a model's server, and is rude in its place whenever a test says so.

The server behind it is any that speaks HTTP; it says what the good answer would be.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import httpx

from tests.faults.stage.speech import Polite, Row, say, whole

Choose = Callable[[bytes], Row | None]
"""How a request, by its body, is to be answered; None: as the server behind would."""


class Front:
    """Rude as `choose` says.

    `kind` is the format of the server behind. `asked` are the times at which each request came, by
    the clock of the loop.
    """

    def __init__(self, choose: Choose, kind: str = "openai") -> None:
        self._choose = choose
        self._kind = kind
        self.asked: dict[bytes, list[float]] = {}

    @asynccontextmanager
    async def before(self, url: str) -> AsyncIterator[str]:
        """Stand before the server at a URL; where it is to be asked instead."""
        async with httpx.AsyncClient(timeout=60) as http:
            answer = partial(self._answer, http, httpx.URL(url))
            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            try:
                port = server.sockets[0].getsockname()[1]
                yield str(httpx.URL(url).copy_with(port=port))
            finally:
                server.close()

    async def _answer(
        self,
        http: httpx.AsyncClient,
        behind: httpx.URL,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        path, body = await _request(reader)
        self.asked.setdefault(body, []).append(asyncio.get_running_loop().time())
        row = self._choose(body)
        good = (await http.post(behind.copy_with(raw_path=path), content=body)).content
        first, end, _ = good.partition(b"\n\n")
        polite = Polite(self._kind, good, first + end)
        await say(row.speak(polite) if row else iter((whole("200 OK", good),)), reader, writer)


async def _request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return head.split()[1], await reader.readexactly(length)
