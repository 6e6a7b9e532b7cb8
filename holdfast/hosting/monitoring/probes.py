"""Probes over HTTP for an orchestrator that restarts workers and rolls them out.

    GET /live    200 while the event loop runs; otherwise there is no answer
    GET /ready   200 while every worker of the process polls, Temporal answers, and not too many
                 activities run on after their attempts; else 503, and why

The probes listen from before the worker connects until after it has stopped: a worker that lets its
activities finish is alive, and not ready. They reveal nothing of any run and read only the first
lines of a request, so that no HTTP server from another package is needed.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from http import HTTPStatus
from typing import Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from holdfast.activities.interceptors.auto_heartbeat import OutlivedAttempts
from holdfast.hosting.options import ProbeAddress
from holdfast.validation.problems import FixableError

MAX_REQUEST_BYTES: Final = 8_192
MAX_CONNECTIONS: Final = 32
REQUEST_TIMEOUT_SECONDS: Final = 2.0
ASK_TIMEOUT_SECONDS: Final = 2.0
# For so long as many activities as there are slots may run on after their attempts.
MAX_FULL_SECONDS: Final = 60.0


class WorkerHealth:
    """The state of this process's worker: starting, running or stopping."""

    def __init__(self) -> None:
        self._started: tuple[Callable[[], bool], Client, OutlivedAttempts] | None = None
        self._stopping = False

    def started(
        self, is_running: Callable[[], bool], client: Client, outlived: OutlivedAttempts
    ) -> None:
        """Record that the workers started, with a client for requests to Temporal."""
        self._started = is_running, client, outlived

    def stopping(self) -> None:
        self._stopping = True

    def describe_outlived(self) -> str:
        """Return how many activities run on after their attempts; empty if none does."""
        if self._started is None or not (count := len(self._started[2])):
            return ""
        return f"activities that still run although Temporal has given up their attempts: {count}"

    async def unready_reason(self) -> str | None:
        """Return the reason why the worker accepts no work, or None if it does."""
        if self._stopping:
            return "the worker is stopping"
        if self._started is None:
            return "the worker is starting"
        is_running, client, outlived = self._started
        if not is_running():
            return "the worker has stopped"
        if outlived.full_seconds >= MAX_FULL_SECONDS:
            return f"{self.describe_outlived()}; restart the worker"
        request = DescribeNamespaceRequest(namespace=client.namespace)
        timeout = timedelta(seconds=ASK_TIMEOUT_SECONDS)
        try:
            await client.workflow_service.describe_namespace(request, timeout=timeout)
        except RPCError as error:
            if error.status != RPCStatusCode.PERMISSION_DENIED:  # a denied permission is an answer
                return f"Temporal does not serve the worker: {error.status.name}"
        return None


@asynccontextmanager
async def serve_probes(where: ProbeAddress, health: WorkerHealth) -> AsyncIterator[int]:
    """Answer probes at an address while the context is open, and yield the port.

    Raises:
        FixableError: the port is not available.
    """
    connections: set[asyncio.StreamWriter] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(connections) >= MAX_CONNECTIONS:
            writer.close()
            return
        connections.add(writer)
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS + ASK_TIMEOUT_SECONDS):
                    writer.write(await _answer(reader, health))
                    await writer.drain()
        finally:
            connections.discard(writer)
            writer.close()

    try:
        server = await asyncio.start_server(
            connected, where.host, where.port, limit=MAX_REQUEST_BYTES
        )
    except OSError as error:
        wrong = f"{where.host} port {where.port} is not available: {os.strerror(error.errno or 0)}"
        todo = "stop what listens there, or choose another `--health`"
        raise FixableError(wrong, todo) from None
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for writer in connections:
            writer.close()


async def _answer(reader: asyncio.StreamReader, health: WorkerHealth) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "request /live or /ready")
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        return _response(HTTPStatus.METHOD_NOT_ALLOWED, "use GET")
    if path == b"/live":
        return _response(HTTPStatus.OK, "the worker is alive", method)
    if path != b"/ready":
        return _response(HTTPStatus.NOT_FOUND, "request /live or /ready", method)
    why = await health.unready_reason()
    if why is not None:
        return _response(HTTPStatus.SERVICE_UNAVAILABLE, why, method)
    said = "; ".join(filter(None, ("the worker polls for tasks", health.describe_outlived())))
    return _response(HTTPStatus.OK, said, method)


def _response(status: HTTPStatus, said: str, method: bytes = b"GET") -> bytes:
    body = f"{said}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)
