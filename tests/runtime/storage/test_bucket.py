"""A store in a bucket, behind a fake of Temporal's client for S3; and where stores are."""

import hashlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.contrib.aws.s3driver import S3StorageDriverClient

from holdfast.runtime.storage.locations import (
    BucketLocation,
    BucketStore,
    StoreLocation,
    dev_store_location,
    open_store_at,
    parse_store_location,
    reader_store_location,
)
from holdfast.runtime.storage.run_files import file_key
from holdfast.runtime.storage.store import LostValueError, StoreError
from holdfast.schemas.base import sha256

PAGE = b"a page of a log"
DIGEST = hashlib.sha256(PAGE).hexdigest()
KEY = f"logs/eu/{DIGEST[:2]}/{DIGEST}"


class FakeS3(S3StorageDriverClient):
    """Objects in memory, and how often one was put there."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], bytes] = {}
        self.puts = 0

    async def put_object(self, *, bucket: str, key: str, data: bytes) -> None:
        self.puts += 1
        self.objects[bucket, key] = data

    async def object_exists(self, *, bucket: str, key: str) -> bool:
        return (bucket, key) in self.objects

    async def get_object(self, *, bucket: str, key: str) -> bytes:
        if (bucket, key) not in self.objects:
            raise LookupError("NoSuchKey: The specified key\n does not exist.")
        return self.objects[bucket, key]

    async def fails(self, **_: str) -> bytes:
        raise OSError("no route")


async def test_each_thing_is_put_once_under_the_prefix_and_its_sha_256() -> None:
    client = FakeS3()
    store = BucketStore(client, "runs", "logs/eu")
    assert [await store.keep(PAGE), await store.keep(PAGE)] == [DIGEST, DIGEST]
    assert client.objects == {("runs", KEY): PAGE}
    assert client.puts == 1
    assert await store.fetch(DIGEST) == PAGE


async def test_a_missing_object_of_the_bucket_is_reported_in_one_line() -> None:
    store = BucketStore(FakeS3(), "runs", "logs/eu")
    with pytest.raises(StoreError) as missing:
        await store.fetch(DIGEST)
    assert str(missing.value) == (
        f"the store s3://runs/logs/eu does not return {KEY}: NoSuchKey: The specified key does not "
        "exist.; check the bucket, the AWS settings and what they permit"
    )


class Objects:
    """What is used of the client of S3 itself: lists of two objects a page, and deletions."""

    def __init__(self, objects: dict[tuple[str, str], bytes]) -> None:
        self._objects = objects

    def get_paginator(self, name: str) -> "Objects":
        assert name == "list_objects_v2"
        return self

    async def paginate(self, **under: str) -> AsyncIterator[dict[str, Any]]:
        found = [key for bucket, key in self._objects if bucket == under["Bucket"]]
        found = [key for key in found if key.startswith(under["Prefix"])]
        for n in range(0, len(found), 2):
            yield {"Contents": [{"Key": key} for key in found[n : n + 2]]}
        yield {}

    async def delete_object(self, **one: str) -> None:
        del self._objects[one["Bucket"], one["Key"]]


async def test_the_files_of_a_run_are_deleted_by_their_prefix() -> None:
    client = FakeS3()
    store = BucketStore(client, "runs", "logs/eu", Objects(client.objects))
    await store.keep(PAGE)
    for run, data in (("a", b"1"), ("a", b"2"), ("a", b"3"), ("b", b"1")):
        await store.write(file_key(run, sha256(data)), data)
    assert await store.delete(file_key("a")) == 3
    kept = f"logs/eu/runs/{sha256(b'b')}/{sha256(b'1')}"
    assert client.objects.keys() == {("runs", KEY), ("runs", kept)}
    with pytest.raises(LostValueError, match="NoSuchKey"):
        await store.read(file_key("a", sha256(b"1")))
    client.get_object = client.fails  # type: ignore[method-assign]
    with pytest.raises(StoreError) as unread:
        await store.read(file_key("b", sha256(b"1")))
    assert not isinstance(unread.value, LostValueError)


async def test_what_is_needed_for_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aioboto3", None)
    with pytest.raises(StoreError, match="which is not installed; pip install 'holdfast-agents"):
        async with open_store_at(BucketLocation("runs"), writing=True):
            pass


# Where a store is, as people write it.


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/var/lib/holdfast", Path("/var/lib/holdfast")),
        ("kept", Path.cwd() / "kept"),
        ("~/kept", Path.home() / "kept"),
        ("s3://runs", BucketLocation("runs")),
        ("s3://runs/", BucketLocation("runs")),
        ("s3://runs.eu-1/logs/a/", BucketLocation("runs.eu-1", "logs/a")),
        ("c:/runs", Path.cwd() / "c:/runs"),
        ("./s3:/runs", Path.cwd() / "s3:/runs"),
        ("none", None),
        ("None", None),
        ("./none", Path.cwd() / "none"),
    ],
)
def test_a_place_is_a_folder_or_a_bucket_or_none(text: str, place: StoreLocation | None) -> None:
    assert parse_store_location(text) == place


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" ", "name a folder, or s3://BUCKET/PREFIX"),
        ("s3:/runs/a", "name a folder, or s3://BUCKET/PREFIX"),
        ("S3:runs", "name a folder, or s3://BUCKET/PREFIX"),
        ("file:/var/runs", "name a folder, or s3://BUCKET/PREFIX"),
        ("~nobody-here/a", "there is no such user: name a folder, or s3://BUCKET/PREFIX"),
        ("s3:///logs", "`` is no name of a bucket: name a folder, or s3://BUCKET/PREFIX"),
        ("s3://My_Runs", "`My_Runs` is no name of a bucket: name a folder, or s3://BUCKET/PREFIX"),
    ],
)
def test_anything_else_is_refused_with_what_a_place_is_like(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"\A") as refused:
        parse_store_location(text)
    assert str(refused.value) == said


def test_a_command_finds_the_store_that_is_named_or_that_of_dev_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reader_store_location({}) is None
    (tmp_path / ".holdfast/temporal.store").mkdir(parents=True)
    assert reader_store_location({}) == tmp_path / ".holdfast/temporal.store"
    assert reader_store_location({}) == dev_store_location(tmp_path / ".holdfast/temporal.db")
    assert reader_store_location({"HOLDFAST_STORE": "s3://runs"}) == BucketLocation("runs")
    assert reader_store_location({"HOLDFAST_STORE": "none"}) is None
    with pytest.raises(StoreError, match="HOLDFAST_STORE: `gs://runs` does not fit; name a folder"):
        reader_store_location({"HOLDFAST_STORE": "gs://runs"})
