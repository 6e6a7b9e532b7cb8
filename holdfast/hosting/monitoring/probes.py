"""Probes over HTTP for an orchestrator that restarts workers and rolls them out.

    GET /live    200 while the event loop runs; otherwise there is no answer, or of one of several
                 processes 503
    GET /ready   200 while every worker of each process polls, Temporal answers, and not too many
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
from typing import Final, NamedTuple, Protocol

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


class ProbeAnswer(NamedTuple):
    """The answer to a probe, and its reason."""

    is_ok: bool
    text: str


ALIVE: Final = ProbeAnswer(True, "the worker is alive")
STARTING: Final = ProbeAnswer(False, "the worker is starting")
STOPPING: Final = ProbeAnswer(False, "the worker is stopping")


class Health(Protocol):
    """What probes are answered from: a worker, or the processes of several."""

    async def live(self) -> ProbeAnswer: ...

    async def ready(self) -> ProbeAnswer: ...


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

    async def live(self) -> ProbeAnswer:
        return ALIVE  # the event loop runs, if this does

    async def ready(self) -> ProbeAnswer:
        """Return whether the worker accepts work."""
        if self._stopping:
            return STOPPING
        if self._started is None:
            return STARTING
        is_running, client, outlived = self._started
        if not is_running():
            return ProbeAnswer(False, "the worker has stopped")
        words = "activities that still run although Temporal has given up their attempts"
        if outlived.full_seconds >= MAX_FULL_SECONDS:
            return ProbeAnswer(False, f"{words}: {len(outlived)}; restart the worker")
        try:
            async with asyncio.timeout(ASK_TIMEOUT_SECONDS):
                await _ask(client)
        except TimeoutError:
            return ProbeAnswer(False, "Temporal does not serve the worker: it does not answer")
        except RPCError as error:
            if error.status != RPCStatusCode.PERMISSION_DENIED:  # a denied permission is an answer
                text = f"Temporal does not serve the worker: {error.status.name}"
                return ProbeAnswer(False, text)
        note = f"; {words}: {len(outlived)}" if len(outlived) else ""
        return ProbeAnswer(True, f"the worker polls for tasks{note}")


async def _ask(client: Client) -> None:
    request = DescribeNamespaceRequest(namespace=client.namespace)
    timeout = timedelta(seconds=ASK_TIMEOUT_SECONDS)
    try:
        await client.workflow_service.describe_namespace(request, timeout=timeout)
    except RPCError as error:
        # Temporal closes each connection after minutes, and cancels what is queued there.
        if error.status != RPCStatusCode.CANCELLED:
            raise
        await client.workflow_service.describe_namespace(request, timeout=timeout)


@asynccontextmanager
async def serve_probes(where: ProbeAddress, health: Health) -> AsyncIterator[int]:
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


async def _answer(reader: asyncio.StreamReader, health: Health) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "request /live or /ready")
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        return _response(HTTPStatus.METHOD_NOT_ALLOWED, "use GET")
    probe = {b"/live": health.live, b"/ready": health.ready}.get(path)
    if probe is None:
        return _response(HTTPStatus.NOT_FOUND, "request /live or /ready", method)
    is_ok, text = await probe()
    return _response(HTTPStatus.OK if is_ok else HTTPStatus.SERVICE_UNAVAILABLE, text, method)


def _response(status: HTTPStatus, said: str, method: bytes = b"GET") -> bytes:
    body = f"{said}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)
