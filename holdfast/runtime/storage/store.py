"""A store outside of Temporal for large values, each under the SHA-256 of its bytes.

The store holds whole payloads, as they would have been sent. Equal bytes are stored once, however
often they are written: so each page of a log, which a run takes along each time it continues as
new, is stored once. Nothing is changed, and nothing is deleted but the files of runs.

Temporal's SDK sends a reference in place of each payload that `is_for_store` selects. Clients and
external workers cannot read such a reference: results of runs, answers to queries and the
arguments of activities are never stored.
"""

import asyncio
import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)

from holdfast.runtime.encryption.key_ring import AesKey, UnsealError
from holdfast.schemas import names
from holdfast.schemas.base import sha256
from holdfast.schemas.phrases import quote_value
from holdfast.validation.problems import FixableError

# A reference is hardly smaller than a value below this. A long log has many pages, so that small
# pages together must leave room, too.
LEAST_STORED_BYTES = 1024
_DIGEST = re.compile(r"[0-9a-f]{64}")


class StoreError(FixableError):
    """A store that cannot be used or lacks a value."""


class LostValueError(StoreError):
    """A store answers, and has the value no more, or a damaged one."""


class Store(StorageDriver):
    """A map from SHA-256 to bytes, and a driver of Temporal's SDK; `shown` is its name for people.

    A subclass stores the bytes under a key: the digest, in a folder named by its beginning. Each
    method of it raises a `StoreError`, `read` a `LostValueError` if the key has no bytes. The
    references of the SDK do not name the store, so that it can be moved, to a bucket too.
    """

    def __init__(self, shown: str) -> None:
        self.shown = shown

    def name(self) -> str:
        return names.STORE

    def type(self) -> str:
        return names.STORE

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        digests = [await self.keep(_bytes_of(payload)) for payload in payloads]
        return [StorageDriverClaim({"sha256": digest}) for digest in digests]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        return [await self.fetch_payload(claim.claim_data.get("sha256", "")) for claim in claims]

    async def fetch_payload(self, digest: str) -> Payload:
        """Return the payload of a digest; raises as `fetch`."""
        return Payload.FromString(await self.fetch(digest))

    async def keep(self, data: bytes) -> str:
        """Store the bytes and return their digest; storing them twice has no further effect.

        Raises:
            StoreError: the bytes cannot be stored.
        """
        digest = await asyncio.to_thread(sha256, data)
        await self.write(_key(digest), data)
        return digest

    async def fetch(self, digest: str) -> bytes:
        """Return the bytes of a digest, verified against it.

        Raises:
            StoreError: the store has no such bytes, or they do not match the digest.
        """
        if not _DIGEST.fullmatch(digest):
            raise StoreError(f"{quote_value(digest)} is no SHA-256", "take it as the run has it")
        data = await self.read(_key(digest))
        if await asyncio.to_thread(sha256, data) != digest:
            wrong = f"{self.shown} has {digest}, and it is damaged"
            raise StoreError(wrong, "put it back from a copy of the store")
        return data

    async def keep_sealed(self, secret: str, data: bytes) -> None:
        """Store bytes for those who know a secret, a SHA-256: no others can read or change them."""
        place = sha256(secret.encode())
        await self.write(f"sealed/{_key(place)}", AesKey(place, bytes.fromhex(secret)).seal(data))

    async def fetch_sealed(self, secret: str) -> bytes:
        """Return the bytes that were stored with a secret.

        Raises:
            StoreError: the store has no such bytes, or they are damaged.
        """
        place = sha256(secret.encode())
        sealed = await self.read(f"sealed/{_key(place)}")
        try:
            return AesKey(place, bytes.fromhex(secret)).open(sealed)
        except UnsealError as error:
            raise StoreError(f"{self.shown} has {place}, and {error}", "delete it") from None

    @abstractmethod
    async def write(self, key: str, data: bytes) -> None: ...

    @abstractmethod
    async def read(self, key: str) -> bytes: ...

    @abstractmethod
    async def delete(self, folder: str) -> int: ...


class DeferredStore(Store):
    """A store that is named before it is open; until then, no value is stored or read."""

    def __init__(self) -> None:
        super().__init__("the store of the worker")
        self._opened: list[Store] = []

    @contextmanager
    def opened(self, store: Store) -> Iterator[None]:
        """Use an open store."""
        self._opened.append(store)
        try:
            yield
        finally:
            self._opened.remove(store)

    async def write(self, key: str, data: bytes) -> None:
        await self._current.write(key, data)

    async def read(self, key: str) -> bytes:
        return await self._current.read(key)

    async def delete(self, folder: str) -> int:
        return await self._current.delete(folder)

    @property
    def _current(self) -> Store:
        if not self._opened:
            todo = "set HOLDFAST_STORE to it, or do this where the worker runs"
            raise StoreError("the store is open in a worker alone", todo)
        return self._opened[-1]


def _key(digest: str) -> str:
    return f"{digest[:2]}/{digest}"


def _bytes_of(payload: Payload) -> bytes:
    return payload.SerializeToString(deterministic=True)


def external_storage(store: Store) -> ExternalStorage:
    """Return the store as a part of a worker's data converter."""
    return ExternalStorage(
        drivers=[store],
        driver_selector=lambda context, payload: store if is_for_store(context, payload) else None,
        payload_size_threshold=LEAST_STORED_BYTES,
    )


def is_for_store(context: StorageDriverSelectContext, payload: Payload) -> bool:
    """Return whether a payload is sent as a reference.

    Only two kinds are, since the worker of the run alone reads them: results marked for the store,
    and bytes. Everything that other programs read is JSON; bytes are what a run passes to itself.
    """
    if names.FOR_STORE in payload.metadata:
        return True
    target, marks = context.target, payload.metadata
    is_run = isinstance(target, StorageDriverWorkflowInfo) and target.type in names.WORKFLOWS
    return is_run and (marks.get("encoding") == b"binary/plain" or names.BYTES in marks)


def mark_for_store(before: Payload, after: Payload) -> None:
    """Give an encoded payload the marks by which `is_for_store` knows the one before."""
    if names.FOR_STORE in before.metadata:
        after.metadata[names.FOR_STORE] = b"true"
    if before.metadata.get("encoding") == b"binary/plain" or names.BYTES in before.metadata:
        after.metadata[names.BYTES] = b"true"


def store_of(converter: DataConverter) -> Store | None:
    """Return the store of a data converter, if it has one."""
    storage = converter.external_storage
    drivers = [] if storage is None else storage.drivers
    return next((each for each in drivers if isinstance(each, Store)), None)


def payload_writer(converter: DataConverter) -> Callable[[Payload], Awaitable[str]] | None:
    """Return a function that stores a payload and returns its digest; None without a store."""
    store = store_of(converter)
    if store is None:
        return None

    async def keep(payload: Payload) -> str:
        codec = converter.payload_codec
        [encoded] = [payload] if codec is None else await codec.encode([payload])
        return await store.keep(_bytes_of(encoded))

    return keep


async def read_stored_value(store: Store, digest: str, converter: DataConverter) -> Any:
    """Read the value of a digest.

    Raises:
        StoreError: the value cannot be read.
    """
    payload = await store.fetch_payload(digest)
    codec = converter.payload_codec
    [decoded] = [payload] if codec is None else await codec.decode([payload])
    return converter.payload_converter.from_payload(decoded)
