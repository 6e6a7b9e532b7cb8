"""Serve an application from its socket until a signal stops it."""

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

# A page of the UI has some six at a time.
MAX_CONNECTIONS = 200
STOP_TIMEOUT_SECONDS = 5


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the command: a server that was stopped by one has done its work."""
        yield


def server(
    app: ASGIApp, most_connections: int = MAX_CONNECTIONS, *, sockets: bool = False
) -> uvicorn.Server:
    """Return an HTTP server for an application, with `sockets` also for its WebSockets."""
    return _Server(
        uvicorn.Config(
            app,
            # Requests are private.
            access_log=False,
            log_config=None,
            limit_concurrency=most_connections,
            lifespan="off",
            # Any client could send these headers.
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=STOP_TIMEOUT_SECONDS,
            ws="websockets-sansio" if sockets else "none",
            # httptools has no bound for the size of headers.
            http="h11",
        )
    )


async def serve(
    serving: uvicorn.Server,
    listening: socket.socket,
    ready: str,
    stopping: asyncio.Event | None = None,
) -> None:
    """Print the line `ready`, and serve until SIGINT or SIGTERM.

    The signal sets `stopping`, which ends the responses that have no end of their own.
    """
    logging.basicConfig(format="holdfast: %(message)s", level=logging.WARNING)

    def stop() -> None:
        serving.should_exit = True
        if stopping is not None:
            stopping.set()

    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop)
    try:
        print(ready, flush=True)
        await serving.serve([listening])
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
