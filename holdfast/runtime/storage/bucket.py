"""A store in a bucket of S3, or of any server with its protocol.

The address and the credentials are read from the environment as in every AWS program:
`AWS_REGION`, `AWS_PROFILE`, `AWS_ENDPOINT_URL_S3`, … Temporal's own driver for S3 makes the
requests. The keys are ours, since that driver's keys name the run: a log that passes from run to
run would be stored once for each.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from temporalio.contrib.aws.s3driver import S3StorageDriverClient

from holdfast.runtime.storage.store import Store, StoreError
from holdfast.runtime.text_safety import extra_command

_MAX_REASON_CHARS = 300


class BucketStore(Store):
    """Store each value in an object under the prefix."""

    def __init__(self, client: S3StorageDriverClient, bucket: str, prefix: str) -> None:
        super().__init__(f"the store s3://{bucket}" + (f"/{prefix}" if prefix else ""))
        self._client = client
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""

    async def _write(self, key: str, data: bytes) -> None:
        key = f"{self._prefix}{key}"
        with _explained(f"{self.shown} does not accept {key}"):
            if not await self._client.object_exists(bucket=self._bucket, key=key):
                await self._client.put_object(bucket=self._bucket, key=key, data=data)

    async def _read(self, key: str) -> bytes:
        key = f"{self._prefix}{key}"
        with _explained(f"{self.shown} does not return {key}"):
            return await self._client.get_object(bucket=self._bucket, key=key)


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
        yield BucketStore(new_aioboto3_client(client), bucket, prefix)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Raise a `StoreError` for any error: clients of S3 have many kinds of their own."""
    try:
        yield
    except Exception as error:
        why = " ".join(str(error).split())[:_MAX_REASON_CHARS] or type(error).__name__
        fix = "check the bucket, the AWS settings and what they permit"
        raise StoreError(f"{what}: {why}", fix) from error
