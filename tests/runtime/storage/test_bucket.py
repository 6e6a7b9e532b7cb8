"""A store in a bucket: at the edge where Temporal's own client for S3 would be."""

import hashlib
import sys

import pytest
from temporalio.contrib.aws.s3driver import S3StorageDriverClient

from holdfast.runtime.storage.bucket import BucketStore
from holdfast.runtime.storage.locations import BucketLocation, open_store_at
from holdfast.runtime.storage.store import StoreError

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


async def test_each_thing_is_put_once_under_the_prefix_and_its_sha_256() -> None:
    client = FakeS3()
    store = BucketStore(client, "runs", "logs/eu")
    assert [await store.keep(PAGE), await store.keep(PAGE)] == [DIGEST, DIGEST]
    assert client.objects == {("runs", KEY): PAGE}
    assert client.puts == 1
    assert await store.fetch(DIGEST) == PAGE


async def test_what_the_bucket_does_not_have_is_told_in_one_line() -> None:
    store = BucketStore(FakeS3(), "runs", "logs/eu")
    with pytest.raises(StoreError) as missing:
        await store.fetch(DIGEST)
    assert str(missing.value) == (
        f"the store s3://runs/logs/eu does not give {KEY}: NoSuchKey: The specified key does not "
        "exist.; check the bucket, the AWS settings and what they permit"
    )


async def test_what_is_needed_for_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aioboto3", None)
    with pytest.raises(StoreError, match='which is not installed; pip install "holdfast'):
        async with open_store_at(BucketLocation("runs"), writing=True):
            pass
