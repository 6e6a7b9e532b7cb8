"""The files of runs' messages that are too large for history, in the store.

A message has its files in itself, up to `MAX_INLINE_BYTES`. Of more, the largest are in the store:

    runs/<SHA-256 of the run's id>/<SHA-256 of the file>

Its parts name the second digest alone. So a run reads its own files whatever a message states, and
all of them are deleted with it. They are encoded as all values of the store, by the payload codec.
"""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter

from holdfast.runtime.attachments import MAX_INLINE_BYTES, FileError, check_sizes, inline_bytes
from holdfast.runtime.encryption.codec import DecryptError
from holdfast.runtime.storage.locations import VARIABLE, open_store_at, reader_store_location
from holdfast.runtime.storage.store import LostValueError, Store, StoreError, store_of
from holdfast.schemas.base import BEGINNING_CHARACTERS, sha256
from holdfast.schemas.message import Content, FilePart, Message, StoredFile, TextPart

_NAME_IT = f"set {VARIABLE} to the `--store` of the run's worker"
_RESTORE = "put it back from a copy of the store"
Check = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class RunFiles:
    """The files of runs in an open store, if there is one.

    A backtest has those of its recorded run, whose id `origin_of` returns.
    """

    store: Store | None = None
    converter: DataConverter = DataConverter.default
    origin_of: Callable[[str], str | None] = lambda _: None

    async def keep(self, run_id: str, part: FilePart) -> FilePart:
        """Return a part of a message to a run with its content in the store.

        Raises:
            FileError: its content is no base64.
            StoreError: it cannot be stored.
        """
        assert self.store is not None  # the caller has checked
        text = part.text if isinstance(part, TextPart) else ""
        try:
            data = (
                text.encode() if isinstance(part, TextPart) else base64.b64decode(part.data or "")
            )
        except ValueError:
            raise FileError(f"{part.name} cannot be read", "send its bytes in base64") from None
        file = StoredFile(sha256=await asyncio.to_thread(sha256, data), size_bytes=len(data))
        payload = Payload(metadata={"encoding": b"binary/plain"}, data=data)
        if (codec := self.converter.payload_codec) is not None:
            [payload] = await codec.encode([payload])
        await self.store.write(file_key(run_id, file.sha256), payload.SerializeToString())
        content = {"text": _beginning(text, file)} if text else {"data": None}
        return part.model_copy(update={"stored": file, **content})

    async def fetch(self, run_id: str, file: StoredFile) -> bytes:
        """Return the content of a run's file, verified.

        Raises:
            LostValueError: there is no store, or it does not have the file, or a damaged one.
            StoreError: the store cannot be read.
        """
        if self.store is None:
            raise LostValueError("it is in a store, and no store is set here", _NAME_IT)
        try:
            written = await self.store.read(file_key(run_id, file.sha256))
        except LostValueError as error:
            if (origin := self.origin_of(run_id)) is None:
                raise LostValueError(error.reason, f"{_RESTORE}, or {error.fix}") from None
            written = await self.store.read(file_key(origin, file.sha256))
        try:
            payload = Payload.FromString(written)
            if (codec := self.converter.payload_codec) is not None:
                [payload] = await codec.decode([payload])
        except DecryptError as error:
            raise LostValueError(f"{self.store.shown}: {error.reason}", error.fix) from None
        except DecodeError:
            payload = Payload()
        data = payload.data
        if len(data) != file.size_bytes or await asyncio.to_thread(sha256, data) != file.sha256:
            wrong = f"{self.store.shown} has the file {file.sha256}, and it is damaged"
            raise LostValueError(wrong, _RESTORE)
        return data

    async def fill(self, run_id: str, content: Content, types: Collection[str]) -> Content:
        """Return a message's content with its stored files of some types in it, in base64.

        Raises as `fetch`, with the name of the file.
        """
        if isinstance(content, str):
            return content
        filled = [*content]
        for n, part in enumerate(content):
            if not isinstance(part, FilePart) or part.stored is None or part.type not in types:
                continue
            try:
                data = await self.fetch(run_id, part.stored)
                if isinstance(part, TextPart):
                    content_of = {"text": data.decode("utf-8", "replace")}
                    if part.text != _beginning(content_of["text"], part.stored):
                        # People would read another text than the model.
                        raise LostValueError("its message has another beginning", "send it again")
                else:
                    content_of = {
                        "data": (await asyncio.to_thread(base64.b64encode, data)).decode()
                    }
            except StoreError as error:
                wrong = f"the file {part.name or part.type} of the run: {error.reason}"
                raise type(error)(wrong, error.fix) from None
            filled[n] = part.model_copy(update={"stored": None, **content_of})
        return filled


def file_key(run_id: str, digest: str = "") -> str:
    """Return the key of a run's file, or the folder of all of them."""
    return f"runs/{sha256(run_id.encode())}/{digest}".rstrip("/")


def _beginning(text: str, file: StoredFile) -> str:
    """Return what people read of a stored text in its message."""
    return f"{text[:BEGINNING_CHARACTERS]}\n… ({file.size_bytes:,} bytes)"


@asynccontextmanager
async def open_files(converter: DataConverter, *, writing: bool = False) -> AsyncIterator[RunFiles]:
    """Open the store that the environment names; else that of the converter, or of `--dev`.

    Raises:
        StoreError: the store cannot be opened.
    """
    own = None if os.environ.get(VARIABLE) else store_of(converter)
    place = reader_store_location(os.environ) if own is None else None
    if place is None:
        yield RunFiles(own, converter)
        return
    async with open_store_at(place, writing=writing) as store:
        yield RunFiles(store, converter)


async def delete_files(converter: DataConverter, run_ids: Collection[str], check: Check) -> int:
    """Delete all files of runs and return their number; `check` is called before.

    The store of `--dev` is not used unless it is named: it may be that of another server.

    Raises:
        StoreError: a file cannot be deleted, or it is unknown whether there is a store.
    """
    if not os.environ.get(VARIABLE) and store_of(converter) is None:
        wrong = "the runs may have files in their worker's store, and no store is set here"
        raise StoreError(wrong, f"{_NAME_IT}, or to none")
    async with open_files(converter) as files:
        if (store := files.store) is None:
            return 0
        await check()
        return sum([await store.delete(file_key(id)) for id in run_ids])


async def move_files(
    converter: DataConverter, run_id: str, contents: Sequence[Content], check: Check
) -> list[Content]:
    """Return the contents of messages to a run, with the files that do not fit in the store.

    `check` is called before the first is written: it raises if the run must not have them.

    Raises:
        FileError: a file or a message is too large, or there is no store.
        StoreError: the store cannot be written to.
    """
    moved = [each if isinstance(each, str) else [*each] for each in contents]
    lists = [each for each in moved if isinstance(each, list)]
    for parts in lists:
        check_sizes(parts)
    places = [(inline_bytes(one), n, parts) for parts in lists for n, one in enumerate(parts)]
    if (total_bytes := sum(size for size, *_ in places)) <= MAX_INLINE_BYTES:
        return moved
    async with open_files(converter, writing=True) as files:
        if files.store is None:
            wrong = f"the files have {total_bytes:,} bytes together, over {MAX_INLINE_BYTES:,}"
            raise FileError(f"{wrong}, and no store is set", f"{_NAME_IT}, or send fewer")
        await check()
        for size, n, parts in sorted(places, key=lambda place: -place[0]):
            if total_bytes > MAX_INLINE_BYTES and isinstance(part := parts[n], FilePart):
                parts[n] = await files.keep(run_id, part)
                total_bytes -= size
    return moved


async def move_files_of_request(
    converter: DataConverter, run_id: str, request: Mapping[str, Any], check: Check
) -> Mapping[str, Any]:
    """Return a `RunRequest` as JSON with the files that do not fit in the store.

    Raises as `move_files`.
    """
    messages = [{"content": request.get("input")}, *(request.get("context") or ())]
    own = [n for n, each in enumerate(messages) if isinstance(each.get("content"), list)]
    if not own:
        return request
    contents = [Message(content=messages[n]["content"]).content for n in own]
    contents = await move_files(converter, run_id, contents, check)
    for n, moved in zip(own, contents, strict=True):
        messages[n] = {**messages[n], "content": Message(content=moved).to_json()["content"]}
    new = {"input": messages[0]["content"], "context": messages[1:]}
    return {**request, **{name: value for name, value in new.items() if name in request}}
