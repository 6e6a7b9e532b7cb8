"""Serve an application from its socket until a signal stops it, at an address that is private."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from ipaddress import ip_address

import uvicorn
from starlette.types import ASGIApp

from holdfast.client.errors import wrong_command

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
    app: ASGIApp,
    listening: socket.socket,
    ready: str,
    most_connections: int = MAX_CONNECTIONS,
    *,
    sockets: bool = False,
    stopping: asyncio.Event | None = None,
) -> None:
    """Print the line `ready`, and serve an application as `server` does until SIGINT or SIGTERM.

    The signal sets `stopping`, which ends the responses that have no end of their own.
    """
    serving = server(app, most_connections, sockets=sockets)
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


def check_private(host: str, url: str | None, named_by: str) -> None:
    """Check that a server for other machines is behind https; `named_by` is the setting of `url`.

    Raises:
        HoldfastError: it is not.
    """
    if not ip_address(host).is_loopback and (url is None or not url.startswith("https:")):
        todo = f"put a proxy with https in front of it, and name its address: {named_by}"
        raise wrong_command(f"on {host}, what it shows would be sent unencrypted", todo)


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        HoldfastError: the port is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family)
    except OSError as error:
        todo = "stop what listens there, or choose another `--port`"
        why = os.strerror(error.errno or 0)
        raise wrong_command(f"{host} port {port} is not available: {why}", todo) from None
    # Its connections have this option, too. asyncio sets it only for sockets that it has made, and
    # without it a response of two parts waits some 40 ms for the receiver to acknowledge the first.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def public_origin(own: Collection[str]) -> str:
    """Return the origin to print: that of the proxy, where there is one."""
    return min(own, key=lambda each: (not each.startswith("https:"), each))
