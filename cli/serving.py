"""The codec endpoint at work: from its socket to a signal that stops it."""

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from temporalio.converter import PayloadCodec

from encryption.access import Access, Guard
from encryption.endpoint import Endpoint
from encryption.protocol import Protocol

# A page of the UI asks some six at a time.
MAX_CONNECTIONS = 200
STOP_TIMEOUT_SECONDS = 5


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the command: one that was stopped as was asked has done its work."""
        yield


def server(app: Starlette) -> uvicorn.Server:
    """The endpoint behind a server of HTTP."""
    return _Server(
        uvicorn.Config(
            app,
            # Who asks for what is nobody's business.
            access_log=False,
            log_config=None,
            limit_concurrency=MAX_CONNECTIONS,
            lifespan="off",
            # Whoever asks could say what they like about where they are.
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=STOP_TIMEOUT_SECONDS,
            ws="none",
        )
    )


async def serve(
    codec: PayloadCodec, access: Access, stored: PayloadCodec | None, listening: socket.socket
) -> None:
    """Serve until SIGINT or SIGTERM."""
    logging.basicConfig(format="holdfast: %(message)s", level=logging.WARNING)
    serving = server(Endpoint(Protocol(codec, stored), access, Guard(access)).app())
    with _stopped_by_signals(serving):
        print(_ready(access), flush=True)
        await serving.serve([listening])


def _ready(access: Access) -> str:
    own = min(access.own, key=lambda each: (not each.startswith("https:"), each))
    return f"codec endpoint ready: {own} for {', '.join(sorted(access.origins))}; sign in there"


@contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    def stop() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop)
    try:
        yield
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
