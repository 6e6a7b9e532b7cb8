"""A real collector on loopback, and what it hands on: OTLP over HTTP, in and out.

The collector is Rotel, of `bench/peers/collector`: a program of others that takes, batches and
sends OTLP. What comes out of it is read by the published protocol.
"""

import asyncio
import gzip
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.eventually import eventually
from tests.support.process import ROOT
from tests.support.traces import Seen

ENVIRONMENT = ROOT / "bench/.venv/collector"


class Behind(ThreadingHTTPServer):
    """The server to which the collector hands on what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.spans: list[Seen] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}"


class _Request(BaseHTTPRequestHandler):
    server: Behind

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        if self.path == "/v1/traces":
            self.server.spans += _read(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def _read(request: ExportTraceServiceRequest) -> Iterator[Seen]:
    for of in request.resource_spans:
        for scope in of.scope_spans:
            for span in scope.spans:
                yield Seen(
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex() or None,
                    start=span.start_time_unix_nano,
                    end=span.end_time_unix_nano,
                    # Of spans that others make, the status alone shows that they failed.
                    attributes=_failure(span)
                    | {one.key: _value(one.value) for one in span.attributes},
                )


def _failure(span: Span) -> dict[str, Any]:
    return {"error.type": "failed"} if span.status.code == Status.STATUS_CODE_ERROR else {}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return None if kind is None else getattr(value, kind)


async def _made() -> Path:
    """The collector's program; its environment is made where it is missing."""
    stamp = (ENVIRONMENT / ".made").relative_to(ROOT)
    make = await asyncio.create_subprocess_exec("make", "-s", str(stamp), cwd=ROOT)
    if await make.wait():
        raise RuntimeError("the collector's environment could not be made: see above")
    [program] = ENVIRONMENT.glob("lib/python3.*/site-packages/rotel/rotel-agent")
    return program


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[str, Behind]]:
    """Where the collector takes OTLP, and what stands behind it."""
    program_file = await _made()
    behind = Behind()
    threading.Thread(target=behind.serve_forever, daemon=True).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = await asyncio.create_subprocess_exec(
        *(program_file, "start", "--otlp-http-endpoint", f"127.0.0.1:{port}"),
        *("--exporter", "otlp", "--otlp-exporter-endpoint", behind.url),
        *("--otlp-exporter-protocol", "http", "--otlp-grpc-endpoint", "127.0.0.1:0"),
    )
    try:
        await eventually(lambda: _listens(port))
        yield f"http://127.0.0.1:{port}", behind
    finally:
        program.terminate()
        await program.wait()
        behind.shutdown()
        behind.server_close()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
