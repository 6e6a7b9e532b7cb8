"""`python -m bench.programs.model [SECONDS]`: a model as a process of its own.

It answers at once, or streams a text for so many seconds before its answer: `@` and the time of
each piece.

Chat completions over HTTP, streamed or whole, as the request asks. What it says follows from the
request alone: the prompt tells how the work is to go (`ExecutionBase.prompt`), and how many answers
of its own the request holds tells the turn. It looks for both in the bytes as they came, and reads
no
JSON: a request of megabytes costs it next to nothing, so it does not take the time of whom it
answers. `GET …/turn` is the furthest turn that it was asked for since that was last asked.
"""

import asyncio
import json
import re
import sys
import time
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from typing import Any

from bench.programs.work import ASKED, TOOL, call

HOST = "127.0.0.1"
BYTES_PER_TOKEN = 4
_PIECES = 50
_ANSWERED = re.compile(rb'"role": ?"assistant"')
_STREAMED = re.compile(rb'"stream": ?true')
_LENGTH = re.compile(rb"content-length: ?(\d+)", re.IGNORECASE)
_ROOM_BYTES = 1 << 20


async def main() -> None:
    """Serve until the process is ended; the first line says where."""
    model = Model(*map(float, sys.argv[1:]))
    server = await asyncio.start_server(model.serve, HOST, 0, limit=_ROOM_BYTES, backlog=1024)
    async with server:
        print(f"ready http://{HOST}:{server.sockets[0].getsockname()[1]}/v1", flush=True)
        await server.serve_forever()


class Model:
    """What is answered, and the furthest turn that was asked for."""

    def __init__(self, stream_seconds: float = 0.0) -> None:
        self._stream_seconds = stream_seconds
        self._furthest = 0

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer the requests of one connection, for as long as it is kept open."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length.group(1)) if length else 0)
                if self._stream_seconds:
                    await self._stream(body, writer)
                    writer.close()
                    return
                writer.write(self._told() if head.startswith(b"GET") else self.answered(body))
                await writer.drain()
        except (IncompleteReadError, ConnectionResetError, BrokenPipeError):
            writer.close()

    async def _stream(self, body: bytes, writer: StreamWriter) -> None:
        """Stream a text, and then the answer, over a connection that ends with it."""
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        for _ in range(_PIECES):
            delta = {"role": "assistant", "content": f"@{time.time()} "}
            piece = {**_said("chunk"), "choices": [{"index": 0, "delta": delta}]}
            writer.write(f"data: {json.dumps(piece)}\n\n".encode())
            await asyncio.sleep(self._stream_seconds / _PIECES)
        writer.write(self.answered(body).partition(b"\r\n\r\n")[2])
        await writer.drain()

    def _told(self) -> bytes:
        furthest, self._furthest = self._furthest, 0
        return _http("application/json", str(furthest))

    def answered(self, body: bytes) -> bytes:
        """What is sent back for a request: head and body."""
        turn = 1 + len(_ANSWERED.findall(body))
        self._furthest = max(self._furthest, turn)
        return _answer(body, turn)


def _answer(body: bytes, turn: int) -> bytes:
    message = _message(body, turn)
    if _STREAMED.search(body):
        chunks = [*_chunks(message), {**_said("chunk"), "choices": [], "usage": _usage(body)}]
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        return _http("text/event-stream", "".join([*lines, "data: [DONE]\n\n"]))
    choice = {"index": 0, "message": message, "finish_reason": _finish(message)}
    said = {**_said(), "choices": [choice], "usage": _usage(body)}
    return _http("application/json", json.dumps(said))


def _message(body: bytes, turn: int) -> dict[str, Any]:
    """Calls in every turn, and a text in the last. A request that asks for nothing is answered."""
    asked = ASKED.search(body)
    turns, calls, size = map(int, asked.groups()) if asked else (1, 0, 0)
    message: dict[str, Any] = {"role": "assistant", "content": "Done."}
    if turn < turns:
        names = [f"r{turn}.{index}" for index in range(calls)]
        made = [_call(name, size) for name in names]
        message |= {"content": None, "tool_calls": made}
    return message


def _call(name: str, size: int) -> dict[str, Any]:
    arguments = json.dumps(call(name, size))
    return {
        "id": f"call_{name.replace('.', '_')}",
        "type": "function",
        "function": {"name": TOOL, "arguments": arguments},
    }


def _chunks(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("tool_calls", [])
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": message["content"]}]
    deltas += [{"tool_calls": [{"index": at, **call}]} for at, call in enumerate(calls)]
    ends = [*[None] * len(deltas), _finish(message)]
    return [
        {**_said("chunk"), "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in zip([*deltas, {}], ends, strict=True)
    ]


def _said(kind: str = "") -> dict[str, Any]:
    name = "chat.completion" + (f".{kind}" if kind else "")
    return {"id": "chatcmpl-1", "object": name, "created": 1_700_000_000, "model": "fake"}


def _finish(message: dict[str, Any]) -> str:
    return "tool_calls" if "tool_calls" in message else "stop"


def _usage(body: bytes) -> dict[str, int]:
    spent, said = len(body) // BYTES_PER_TOKEN, 20
    return {"prompt_tokens": spent, "completion_tokens": said, "total_tokens": spent + said}


def _http(kind: str, text: str) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


if __name__ == "__main__":
    asyncio.run(main())
