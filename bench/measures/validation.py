"""Our validation of values beside `jsonschema`: what keeps that library out of a workflow.

A workflow task has two seconds, and its result has to be the same in each replay.
"""

import importlib.metadata
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jsonschema

from bench.measures.measured import shown
from holdfast.validation.schema_check import schema_problems
from holdfast.validation.validator import errors

LETTERS = 24
OBJECTS = 3_000
LEVELS = 400
SLOW: dict[str, tuple[Any, Any]] = {
    f"`pattern: ^(a+)+$`, {LETTERS} letters `a` and `!`": (
        {"pattern": "^(a+)+$"},
        "a" * LETTERS + "!",
    ),
    f"`uniqueItems`, {OBJECTS:,} objects": (
        {"uniqueItems": True},
        [{"kind": "order", "currency": "EUR", "tags": ["new"], "id": n} for n in range(OBJECTS)],
    ),
}


def theirs(value: Any, schema: Any) -> list[str]:
    """The errors that `jsonschema` finds, as a program uses it by default."""
    validator = jsonschema.Draft202012Validator(schema)
    return [error.message for error in validator.iter_errors(value)]


def timed(check: Callable[[Any, Any], Any], schema: Any, value: Any) -> float:
    """How many seconds of CPU time a check takes."""
    began = time.process_time()
    check(value, schema)
    return time.process_time() - began


def nested(levels: int) -> Any:
    """Lists in lists."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@contextmanager
def counting_server() -> Iterator[tuple[str, list[str]]]:
    """A server of a schema on loopback: its address, and the requests that it has received."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "integer"}')

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/integer.json", requests
    finally:
        server.shutdown()
        server.server_close()


def outcome(check: Callable[[Any, Any], list[str]], value: Any, schema: Any) -> str:
    """The errors that a check finds, or the exception that it raises."""
    try:
        return "; ".join(check(value, schema)) or "fits"
    except RecursionError as error:
        return type(error).__name__


async def table() -> str:
    """The figures as a Markdown table."""
    version = importlib.metadata.version("jsonschema")
    rows = [f"| CPU time | Holdfast | jsonschema {version} | ratio |"]
    rows.append("| --- | ---: | ---: | ---: |")
    for title, (schema, value) in SLOW.items():
        ours, other = (timed(check, schema, value) for check in (errors, theirs))
        rows.append(f"| {title} | {shown(ours)} s | {shown(other)} s | {shown(other / ours)} |")
    tree, value = {"items": {"$ref": "#"}}, nested(LEVELS)
    results = [outcome(check, value, tree) for check in (errors, theirs)]
    rows.append(f"| a list of {LEVELS} levels | {' | '.join(results)} | |")
    with counting_server() as (address, requests):
        schema = {"$ref": address}
        refused = [each.reason for each in schema_problems(schema)]
        at_ours = len(requests)
        theirs(1, schema)
        rows.append(f"| requests for a remote `$ref` | {at_ours} | {len(requests)} | |")
        rows.append(f"\nOurs does not load: {refused[0].replace(address, 'http://…')}.")
    return "\n".join(rows)
