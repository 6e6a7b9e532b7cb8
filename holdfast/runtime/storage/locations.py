"""The location of a store, as people write it: a folder, `s3://BUCKET/PREFIX`, or `none`.

A bucket is one of S3, or of any server with its protocol. The address and the credentials are read
from the environment as in every AWS program: `AWS_REGION`, `AWS_PROFILE`, `AWS_ENDPOINT_URL_S3`, …
Temporal's own driver for S3 makes the requests. The keys are ours, since that driver's keys name
the run: a log that passes from run to run would be stored once for each.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.contrib.aws.s3driver import S3StorageDriverClient

from holdfast.runtime.storage.folder import FolderStore
from holdfast.runtime.storage.store import LostValueError, Store, StoreError
from holdfast.runtime.text_safety import extra_command
from holdfast.schemas.phrases import quote_value

VARIABLE = "HOLDFAST_STORE"
# The store of the embedded server if no other is named.
DEV_DATABASE = Path(".holdfast/temporal.db")
_S3 = "s3://"
# A text with such a beginning is an address: a drive of Windows has one letter.
_ADDRESS = re.compile(r"\s*[\w+.-]{2,}:/|\s*s3:", re.IGNORECASE)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_MAX_REASON_CHARS = 300
_KINDS = "name a folder, or s3://BUCKET/PREFIX"


@dataclass(frozen=True)
class BucketLocation:
    """A bucket, and the prefix of its keys."""

    name: str
    prefix: str = ""


StoreLocation = Path | BucketLocation
"""A folder by its absolute path, or a bucket."""


def parse_store_location(text: str) -> StoreLocation | None:
    """Parse the location of a store; None for `none`.

    Raises:
        ValueError: the text is not a location; the message describes one.
    """
    if text.strip().lower() == "none":
        return None
    if text.lower().startswith(_S3):
        bucket, _, prefix = text[len(_S3) :].partition("/")
        if not _BUCKET.fullmatch(bucket):
            raise ValueError(f"{quote_value(bucket)} is no name of a bucket: {_KINDS}")
        return BucketLocation(bucket, prefix.strip("/"))
    if not text.strip() or "://" in text or _ADDRESS.match(text):
        raise ValueError(_KINDS)
    try:
        # Absolute: a running tool may change the working folder.
        return Path(text).expanduser().absolute()
    except RuntimeError:  # `~user`
        raise ValueError(f"there is no such user: {_KINDS}") from None


@asynccontextmanager
async def open_store_at(place: StoreLocation, *, writing: bool) -> AsyncIterator[Store]:
    """Open a store; check that its bucket answers, or that its folder can be written to if needed.

    Raises:
        StoreError: the store cannot be opened.
    """
    if isinstance(place, BucketLocation):
        async with open_bucket(place.name, place.prefix) as bucket:
            yield bucket
    else:
        folder = FolderStore(place)
        if writing:
            folder.open()
        yield folder


def dev_store_location(database: Path) -> Path:
    """Return the default store of the embedded server's worker."""
    return database.with_suffix(".store").absolute()


def reader_store_location(environ: Mapping[str, str]) -> StoreLocation | None:
    """Return the store that a command reads: the named one, or that of a local `--dev` worker.

    Raises:
        StoreError: the named location is invalid.
    """
    named = environ.get(VARIABLE)
    if not named:
        local = dev_store_location(DEV_DATABASE)
        return local if local.is_dir() else None
    try:
        return parse_store_location(named)
    except ValueError as error:
        raise StoreError(f"{VARIABLE}: {quote_value(named)} does not fit", str(error)) from None


class BucketStore(Store):
    """Store each value in an object under the prefix; `s3` is the client below Temporal's."""

    def __init__(
        self, client: S3StorageDriverClient, bucket: str, prefix: str, s3: Any = None
    ) -> None:
        super().__init__(f"the store s3://{bucket}" + (f"/{prefix}" if prefix else ""))
        self._client, self._s3 = client, s3
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""

    async def write(self, key: str, data: bytes) -> None:
        """Write the object of a key; raises `StoreError`."""
        key = f"{self._prefix}{key}"
        with _explained(f"{self.shown} does not accept {key}"):
            if not await self._client.object_exists(bucket=self._bucket, key=key):
                await self._client.put_object(bucket=self._bucket, key=key, data=data)

    async def read(self, key: str) -> bytes:
        """Return the object of a key; raises `StoreError`, `LostValueError` if there is none."""
        key = f"{self._prefix}{key}"
        try:
            with _explained(f"{self.shown} does not return {key}"):
                return await self._client.get_object(bucket=self._bucket, key=key)
        except StoreError as error:
            with _explained(f"{self.shown} does not answer"):
                is_there = await self._client.object_exists(bucket=self._bucket, key=key)
            raise error if is_there else LostValueError(error.reason, error.fix) from error

    async def delete(self, folder: str) -> int:
        """Delete all objects in a folder and return their number; raises `StoreError`."""
        found, under = 0, {"Bucket": self._bucket, "Prefix": f"{self._prefix}{folder}/"}
        with _explained(f"{self.shown} does not delete {under['Prefix']}"):
            async for page in self._s3.get_paginator("list_objects_v2").paginate(**under):
                for one in page.get("Contents", ()):
                    await self._s3.delete_object(Bucket=self._bucket, Key=one["Key"])
                    found += 1
        return found


@asynccontextmanager
async def open_bucket(bucket: str, prefix: str) -> AsyncIterator[BucketStore]:
    """Open the store in an existing bucket.

    Raises:
        StoreError: the bucket does not exist, or the package for requests to it is not installed.
    """
    shown = f"s3://{bucket}"
    try:
        import aioboto3
        from temporalio.contrib.aws.s3driver.aioboto3 import new_aioboto3_client
    except ImportError as error:
        wrong = f"{shown} needs the package {error.name}, which is not installed"
        raise StoreError(wrong, extra_command("s3")) from None
    with _explained(f"the store {shown} cannot be reached"):
        connecting = aioboto3.Session().client("s3")
    async with connecting as client:
        with _explained(f"the store {shown} does not answer"):
            await client.head_bucket(Bucket=bucket)
        yield BucketStore(new_aioboto3_client(client), bucket, prefix, client)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Raise a `StoreError` for any error: clients of S3 have many kinds of their own."""
    try:
        yield
    except Exception as error:
        why = " ".join(str(error).split())[:_MAX_REASON_CHARS] or type(error).__name__
        fix = "check the bucket, the AWS settings and what they permit"
        raise StoreError(f"{what}: {why}", fix) from error
