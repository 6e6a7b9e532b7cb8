"""A server that gives away all that it is sent: models in every format, and pages.

What it does is the name of the model that it is asked for, or the first step of the path.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Refusals; all else is answered.
STATUS = {"refuses": 401, "complains": 400, "breaks": 500, "moves": 302}
PIECE_CHARACTERS = 3


@contextmanager
def echoing(tools: Sequence[str]) -> Iterator[str]:
    """The server's address. Its model calls these tools, then repeats what it was sent, in small
    pieces."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(tools))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(tools: Sequence[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            sent = f"{self.headers} {self.path} {json.dumps(str(self.headers))}"
            does = body.get("model") or self.path.rpartition("/")[2].partition(":")[0]
            if does == "drops":
                self.connection.close()
            elif does in STATUS:
                self._refuse(STATUS[does], sent)
            else:
                self._answer(body, sent if does == "repeats" else "Done.")

        def do_GET(self) -> None:
            self._refuse(500, self.path) if "/breaks" in self.path else self._refuse(302, "")

        def _refuse(self, status: int, sent: str) -> None:
            self.send_response(status)
            self.send_header("Location", f"http://127.0.0.1:9/{self.path}")
            self.end_headers()
            self.wfile.write(json.dumps({"error": {"message": sent, "status": sent}}).encode())

        def _answer(self, body: dict[str, Any], sent: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            is_begin = all(each["role"] != "assistant" for each in body["messages"])
            for event in _events(tools if is_begin else (), sent):
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Handler


def _events(tools: Sequence[str], sent: str) -> Iterator[dict[str, Any]]:
    """An answer in small pieces: calls of these tools, and a text, both with what was sent."""
    arguments = json.dumps({"note": sent})
    for index, tool in enumerate(tools):
        call = {"index": index, "id": f"c{index}", "function": {"name": tool, "arguments": ""}}
        yield _event({"tool_calls": [call]})
        for piece in _pieces(arguments):
            yield _event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    for piece in _pieces(sent):
        yield _event({"content": piece})
    yield _event({}, "tool_calls" if tools else "stop")


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE_CHARACTERS] for at in range(0, len(text), PIECE_CHARACTERS))


def _event(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
