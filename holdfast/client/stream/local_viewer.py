"""A viewer process beside a worker of `--dev`, such as a terminal: the worker connects to it.

The process listens on this machine and leaves its address, with a key of its own, in a private file
where that worker looks for it. It does so only where `--dev` has left its folder.
"""

import logging
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from websockets.asyncio.server import ServerConnection, basic_auth, serve
from websockets.exceptions import ConnectionClosed

from holdfast.client.stream.live_answers import LiveAnswers
from holdfast.runtime.storage.locations import DEV_DATABASE
from holdfast.schemas.internal.live_answer import VIEWERS_FOLDER

_HOST: Final = "127.0.0.1"
# A command that ends does not wait longer for a worker that is paused.
_CLOSE_SECONDS: Final = 1.0
# A terminal shows a run: no line about a connection may be in between.
_SILENT: Final = logging.Logger("silent", logging.CRITICAL + 1)


@asynccontextmanager
async def local_viewer(live: LiveAnswers) -> AsyncIterator[None]:
    """Have a worker of `--dev` on this machine send its answers in the body of the `with`."""
    dev = DEV_DATABASE.parent
    if not dev.is_dir():
        yield
        return
    key = secrets.token_urlsafe(32)
    check = basic_auth(credentials=("worker", key))

    async def receive(worker: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            await live.serve(worker, worker.send)

    async with serve(
        receive,
        _HOST,
        0,
        process_request=check,
        compression=None,
        close_timeout=_CLOSE_SECONDS,
        logger=_SILENT,
    ) as server:
        port = server.sockets[0].getsockname()[1]
        file = dev / VIEWERS_FOLDER / f"{os.getpid()}-{port}"
        with suppress(OSError):  # the folder is of another user, or read-only
            file.parent.mkdir(mode=0o700, exist_ok=True)
            file.touch(mode=0o600)
            file.write_text(f"ws://worker:{key}@{_HOST}:{port}")
        try:
            yield
        finally:
            with suppress(OSError):
                file.unlink(missing_ok=True)
