"""The location of a store, as people write it: a folder, `s3://BUCKET/PREFIX`, or `none`."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.runtime.storage.bucket import open_bucket
from holdfast.runtime.storage.folder import FolderStore
from holdfast.runtime.storage.store import Store, StoreError
from holdfast.schemas.phrases import quote_value

VARIABLE = "HOLDFAST_STORE"
# The store of the embedded server if no other is named.
DEV_DATABASE = Path(".holdfast/temporal.db")
_S3 = "s3://"
# A text with such a beginning is an address: a drive of Windows has one letter.
_ADDRESS = re.compile(r"\s*[\w+.-]{2,}:/|\s*s3:", re.IGNORECASE)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
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
