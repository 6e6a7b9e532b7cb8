"""A scripted model provider: chat completions over real HTTP on loopback.

It is the one fake of the tests. An answer is chosen by how many assistant messages the request
holds, so the same request gets the same answer, from any caller and however often.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from math import ceil
from typing import Any, Literal

BYTES_PER_TOKEN = 4


@dataclass
class Answer:
    """What the model answers: text, calls (`(tool, arguments)`, an object or a text), and how.

    `hold` keeps the answer back, in its middle, until the event is set. `status` other than 200
    refuses instead, with `body`. `events` are sent in place of all else, in any
    format. A `usage` that is `counted` is a token for every four bytes of the request as it was
    sent, and of the text, the tools' names and the arguments as they are sent.
    """

    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    ids: list[str | None] | None = None
    finish: str | None = None
    usage: tuple[int, int] | tuple[int, int, int] | Literal["counted"] | None = (10, 5)
    hold: threading.Event | None = None
    events: list[dict[str, Any]] | None = None
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def call(tool: str, **arguments: Any) -> tuple[str, Any]:
    """A call of a tool."""
    return tool, arguments


@dataclass
class ModelServer:
    """The server; `requests` are the bodies that it was sent, in order."""

    answer: Callable[[int, dict[str, Any]], Answer]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def asked(self, turn: int) -> int:
        """The number of requests of a turn."""
        return sum(1 for body in self.requests if turn_of(body) == turn)


def openai_refuses(tokens: int, window: int) -> Answer:
    """The error of OpenAI for a conversation that is too long."""
    said = (
        f"This model's maximum context length is {window} tokens. However, your messages resulted"
    )
    said += f" in {tokens} tokens. Please reduce the length of the messages."
    kind = {"type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
    return Answer(status=400, body={"error": {"message": said, **kind}})


def turn_of(body: dict[str, Any]) -> int:
    """The turn, from 1, that a request belongs to."""
    if "input" in body:  # the Responses API: an answer is several items
        own = ("reasoning", "function_call")
        said = [each["type"] in own or each.get("role") == "assistant" for each in body["input"]]
        return 1 + sum(1 for by_model, _ in groupby(said) if by_model)
    return 1 + sum(1 for message in body["messages"] if message["role"] == "assistant")


@contextmanager
def serve(
    answers: list[Answer] | Callable[[int, dict[str, Any]], Answer],
) -> Iterator[ModelServer]:
    """Serve the answers, one a turn, until the block is left."""

    def choose(turn: int, body: dict[str, Any]) -> Answer:
        assert isinstance(answers, list)
        return answers[min(turn, len(answers)) - 1]

    model = ModelServer(choose if isinstance(answers, list) else answers)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(model))
    server.daemon_threads = True
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(model: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            body = json.loads(sent)
            with model.arrived:
                model.requests.append(body)
                model.arrived.notify_all()
            self._send(_counted(model.answer(turn_of(body), body), _tokens(len(sent))))

        def _send(self, answer: Answer) -> None:
            try:
                self._refuse(answer) if answer.status != 200 else self._stream(answer)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _refuse(self, answer: Answer) -> None:
            data = json.dumps(answer.body or {"error": {"message": "refused"}}).encode()
            self.send_response(answer.status)
            for key, value in {**answer.headers, "Content-Length": str(len(data))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, answer: Answer) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for index, chunk in enumerate(answer.events or _chunks(answer)):
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.flush()
                if index == 0 and answer.hold is not None:
                    answer.hold.wait(600)
            self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Log nothing: tests check the requests."""

    return Handler


def _chunks(answer: Answer) -> Iterator[dict[str, Any]]:
    yield _chunk({"role": "assistant", "content": answer.text})
    for index, (tool, arguments) in enumerate(answer.calls):
        function = {"name": tool, "arguments": _written(arguments)}
        given = answer.ids[index] if answer.ids is not None else f"call_{index}_{tool}"
        yield _chunk(
            {
                "tool_calls": [
                    {"index": index, "id": given, "type": "function", "function": function}
                ]
            }
        )
    yield _chunk({}, answer.finish or ("tool_calls" if answer.calls else "stop"))
    if isinstance(answer.usage, tuple):
        spent, said, *cached = answer.usage
        usage: dict[str, Any] = {"prompt_tokens": spent, "completion_tokens": said}
        usage["total_tokens"] = spent + said
        if cached:
            usage["prompt_tokens_details"] = {"cached_tokens": cached[0]}
        yield {**_chunk({}), "choices": [], "usage": usage}


def _written(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _counted(answer: Answer, spent: int) -> Answer:
    """The answer with its usage, where that is to be counted."""
    if not isinstance(answer.usage, str):
        return answer
    said = [answer.text, *(tool + _written(arguments) for tool, arguments in answer.calls)]
    said_bytes = len("".join(said).encode())
    usage = (spent, _tokens(said_bytes))
    return replace(answer, usage=usage)


def _tokens(size_bytes: int) -> int:
    return ceil(size_bytes / BYTES_PER_TOKEN)


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "fake",
        "choices": [choice],
    }


MANY = {"budget": {"maxTurns": 200, "maxIterations": 200, "maxCalls": 200}}


class Small:
    """A model that takes in so many tokens. It looks something up, makes so many echoes, each so
    long, and at last one of what it looked up; then it is done."""

    def __init__(self, window: int, echoes: int = 14, size: int = 1_000) -> None:
        self.window = window
        self.echoes = echoes
        self.size = size
        self.refused = 0
        self.summaries = 0

    def __call__(self, turn: int, body: dict[str, Any]) -> Answer:
        text = json.dumps(body["messages"])
        tokens = len(json.dumps(body)) // BYTES_PER_TOKEN
        if tokens > self.window:
            self.refused += 1
            return openai_refuses(tokens, self.window)
        done = max((int(found) for found in re.findall(r"(\d+)#", text)), default=0)
        if "a summary will replace all messages" in body["messages"][-1]["content"]:
            self.summaries += 1
            return Answer(f"It echoed up to {done}#.", usage="counted")
        if '"assistant"' not in text and not done:
            return Answer(calls=[call("look_up", id=7)], usage="counted")
        if done < self.echoes:
            echo = f"{done + 1}#" + "x" * self.size
            return Answer(calls=[call("echo", text=echo)], usage="counted")
        if "name: " not in text:
            return Answer(calls=[call("echo", text="name: †{state.item.name}")], usage="counted")
        return Answer("done", usage="counted")
