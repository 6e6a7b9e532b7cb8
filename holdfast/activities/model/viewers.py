"""Sends the answers that models are writing to viewer processes: inboxes, and terminals.

It also answers their queries of the runs in its cache, each of which is an Action in Temporal.

The worker opens the connections: often nothing can connect to it. Each viewer process names the
runs that are watched there (`schemas/internal/live_answer.py`); without one, nothing is encoded or
sent. A process that is slow receives larger pieces less often. One that cannot be reached is
reported once, and tried again with back-off.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from temporalio.api.common.v1 import Payload, Payloads
from temporalio.converter import DataConverter
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, InvalidURI
from websockets.uri import parse_uri

from holdfast.activities.model.progress import MAX_PIECE_CHARACTERS, Progress
from holdfast.runtime.secrets import HOW_TO_SET, shared_secret
from holdfast.schemas.internal import live_answer
from holdfast.validation.problems import FixableError

# Between two pieces of an answer.
BATCH_SECONDS = 0.05
# Between two looks at the addresses of a name, and at the files of a folder.
RESOLVE_SECONDS = 5.0
LOOK_SECONDS = 0.5
# A worker that stops does not wait longer for a viewer process.
CLOSE_SECONDS = 1.0

# The position of a run in the cache, and its answer to a query of a name with arguments.
CachedResult = tuple[tuple[str, int], Payload]
QueryCached = Callable[[str, str, Sequence[Payload]], CachedResult | None]

logger = logging.getLogger("holdfast")


class _Viewer(NamedTuple):
    """A viewer process: its address, one IP address of its name, and the file that it left."""

    address: str
    host: str
    file: Path | None = None


class Viewers:
    """The connections of a worker to viewer processes; `answers` are the running requests by run.

    `query` answers queries of the runs in the worker's cache.

    `places` are addresses of inboxes, and folders in which the viewers of this machine leave
    theirs. Raises as `viewers_key` does.
    """

    def __init__(
        self,
        answers: Mapping[str, Progress],
        places: Sequence[str],
        converter: DataConverter,
        query: QueryCached,
    ) -> None:
        self._answers, self._places, self._query = answers, frozenset(places), query
        # A piece is read at once, and stored nowhere.
        self._converter = replace(converter, external_storage=None)
        self._reported = set[str]()
        self._key = viewers_key(places)

    async def run(self) -> None:
        """Keep a connection to each viewer process, until the task is cancelled."""
        async with asyncio.TaskGroup() as group:
            for place in self._places:
                group.create_task(self._look(place, group))

    async def _look(self, place: str, group: asyncio.TaskGroup) -> None:
        """Keep a connection to each viewer process that is at a place now."""
        is_address, kept = "://" in place, dict[_Viewer, asyncio.Task[None]]()
        while True:
            try:
                found = await _resolve(place) if is_address else _left_in(Path(place))
            except (OSError, UnicodeError) as error:
                self._report(place, error)
            else:
                for viewer in kept.keys() - found:
                    kept.pop(viewer).cancel()
                for viewer in found - kept.keys():
                    kept[viewer] = group.create_task(self._connect(viewer))
            await asyncio.sleep(RESOLVE_SECONDS if is_address else LOOK_SECONDS)

    async def _connect(self, viewer: _Viewer) -> None:
        async for connection in connect(
            viewer.address.rstrip("/") + live_answer.LIVE_ANSWERS_PATH,
            # The address in a file has a key of its own.
            additional_headers={} if viewer.file else {"Authorization": f"Bearer {self._key}"},
            host=viewer.host,
            compression=None,
            proxy=None,
            close_timeout=CLOSE_SECONDS,
            process_exception=partial(self._failed, viewer),
        ):
            with suppress(Exception):  # whatever it is, no request to a model depends on it
                await self._serve(connection)
            await asyncio.sleep(LOOK_SECONDS)

    def _failed(self, viewer: _Viewer, error: Exception) -> None:
        """Note that a viewer process does not answer, which is tried again."""
        if viewer.file is None:
            self._report(viewer.address, error)
        elif isinstance(error, ConnectionRefusedError):
            with suppress(OSError):
                viewer.file.unlink()  # its process was killed

    async def _serve(self, connection: ClientConnection) -> None:
        """Send what a process does not have, until the connection is closed, which raises."""
        watched: dict[str, _Watched] = {}
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(BATCH_SECONDS if watched else None):
                    change = live_answer.WatchChange.model_validate_json(await connection.recv())
                    watched |= {at.run: _Watched(at.key, at.offset) for at in change.watch}
                    for run in change.leave:
                        watched.pop(run, None)
                    for query in change.queries:
                        await self._send(connection, (await self._answer(query)).to_json())
            for run, each in watched.items():
                while (piece := each.next_piece(self._answers.get(run))) is not None:
                    await self._send(connection, {"run": run, **piece})

    async def _answer(self, query: live_answer.LiveQuery) -> live_answer.QueryResult:
        converter = self._converter.payload_converter
        if query.name in live_answer.LIVE_QUERIES:
            arguments = converter.to_payloads(query.args)
            found = await asyncio.to_thread(self._query, query.run, query.name, arguments)
            if found is not None and len(found[1].data) <= live_answer.MAX_RESULT_BYTES:
                position, [result] = found[0], converter.from_payloads([found[1]])
                return live_answer.QueryResult(query=query.id, position=position, result=result)
        return live_answer.QueryResult(query=query.id)

    async def _send(self, connection: ClientConnection, value: dict[str, Any]) -> None:
        payloads = await self._converter.encode([value])
        await connection.send(Payloads(payloads=payloads).SerializeToString())

    def _report(self, address: str, error: Exception) -> None:
        if address in self._reported:
            return
        self._reported.add(address)
        reason = str(error) or type(error).__name__
        if isinstance(error, InvalidStatus):
            todo = f"set {live_answer.VIEWERS_KEY} to the same text here and at the inbox"
            reason = f"it answers {error.response.status_code}; {todo}"
        logger.warning("no live text at %s, which is tried again: %s", address, reason)


class _Watched:
    """A run that is watched in a viewer process, and what the process has of its answer."""

    def __init__(self, key: str, offset: int) -> None:
        self._key, self._offset = key, offset
        self._progress: Progress | None = None
        self._sent_version = -1

    def next_piece(self, newest: Progress | None) -> dict[str, Any] | None:
        """Return what the process does not have of the newest request; None if it has all."""
        if newest is not None and newest is not self._progress:
            if self._progress is not None or newest.key != self._key:
                self._offset = 0
            self._progress, self._sent_version = newest, -1
        progress = self._progress
        if progress is None or progress.version == self._sent_version:
            return None
        piece = progress.piece(self._offset)
        self._offset += len(piece["text"])
        if len(piece["text"]) < MAX_PIECE_CHARACTERS:
            self._sent_version = progress.version
        return piece


def viewers_key(places: Sequence[str]) -> str:
    """Return the key that the worker and its inboxes share; empty where it is not set.

    Raises:
        FixableError: an address is invalid, or the key is missing or invalid.
    """
    addresses, key = (
        [place for place in places if "://" in place],
        shared_secret(live_answer.VIEWERS_KEY),
    )
    try:
        is_valid = all(parse_uri(address).username is None for address in addresses)
    except (InvalidURI, ValueError):
        is_valid = False
    if not is_valid:  # not shown: it may hold a password
        wrong = "`viewers` has no address of an inbox"
        raise FixableError(wrong, "write wss://HOST or wss://HOST:PORT")
    if addresses and not key:
        wrong = f"the variable {live_answer.VIEWERS_KEY}, the key of the inbox, is not set"
        raise FixableError(wrong, HOW_TO_SET)
    return key


async def _resolve(address: str) -> set[_Viewer]:
    uri, loop = parse_uri(address), asyncio.get_running_loop()
    found = await loop.getaddrinfo(uri.host, uri.port, type=socket.SOCK_STREAM)
    # A process has one address of each family.
    first = min(family for family, *_ in found)
    return {_Viewer(address, str(at[0])) for family, _, _, _, at in found if family == first}


def _left_in(folder: Path) -> set[_Viewer]:
    """Return the viewers of this machine by the addresses that they left in files."""
    found = set[_Viewer]()
    for file in folder.glob("*"):
        with suppress(OSError, ValueError, InvalidURI):
            address = file.read_text()
            found.add(_Viewer(address, parse_uri(address).host, file))
    return found
