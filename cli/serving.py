"""An application at work: from its socket to a signal that stops it."""

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

# A page of the UI asks some six at a time.
MAX_CONNECTIONS = 200
STOP_TIMEOUT_SECONDS = 5


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the command: one that was stopped as was asked has done its work."""
        yield


def server(app: ASGIApp, most_connections: int = MAX_CONNECTIONS) -> uvicorn.Server:
    """An application behind a server of HTTP."""
    return _Server(
        uvicorn.Config(
            app,
            # Requests are private.
            access_log=False,
            log_config=None,
            limit_concurrency=most_connections,
            lifespan="off",
            # A client could send any address.
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=STOP_TIMEOUT_SECONDS,
            ws="none",
            # The other one takes headers without end.
            http="h11",
        )
    )


async def serve(
    app: ASGIApp,
    listening: socket.socket,
    ready: str,
    *,
    stopping: asyncio.Event | None = None,
    most_connections: int = MAX_CONNECTIONS,
) -> None:
    """Serve until SIGINT or SIGTERM; say that it is `ready` before.

    `stopping` is set when it is to stop: what would go on for ever ends by itself.
    """
    logging.basicConfig(format="holdfast: %(message)s", level=logging.WARNING)
    serving = server(app, most_connections)
    with _stopped_by_signals(serving, stopping):
        print(ready, flush=True)
        await serving.serve([listening])


@contextmanager
def _stopped_by_signals(server: uvicorn.Server, stopping: asyncio.Event | None) -> Iterator[None]:
    def stop() -> None:
        server.should_exit = True
        if stopping is not None:
            stopping.set()

    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop)
    try:
        yield
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
