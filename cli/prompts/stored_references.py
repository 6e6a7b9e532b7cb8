"""References to a worker's store, and what they stand for.

Temporal's SDK sends such a reference in the place of what is kept outside of Temporal, and takes it
back in by itself. Whoever passes payloads on, as the codec endpoint does, has to do that here.
"""

from collections.abc import Sequence

from google.protobuf.json_format import Parse, ParseError
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1 import ExternalStorageReference
from temporalio.converter import PayloadCodec

from holdfast.runtime.encryption.codec import DecryptError
from holdfast.runtime.storage.store import Store, StoreDriver, StoreError
from holdfast.schemas import names

_TYPE = ExternalStorageReference.DESCRIPTOR.full_name.encode()


class References(PayloadCodec):
    """Puts what a store has in the place of each reference to it."""

    def __init__(self, store: Store) -> None:
        self._driver = StoreDriver(store)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Leave them as they are: only workers put anything into the store."""
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Fetch what the references among the payloads stand for.

        Raises:
            DecryptError: the store does not have it.
        """
        return [await self._fetched(payload) for payload in payloads]

    async def _fetched(self, payload: Payload) -> Payload:
        if payload.metadata.get("messageType") != _TYPE:
            return payload
        try:
            reference = Parse(payload.data, ExternalStorageReference(), ignore_unknown_fields=True)
        except (ParseError, UnicodeDecodeError):
            raise DecryptError("this is no reference to a store", "see who has sent it") from None
        if reference.driver_name != names.STORE:
            wrong = f"this stands in another store, {reference.driver_name!r}"
            raise DecryptError(wrong, "ask for it where that is")
        try:
            return await self._driver.fetch(reference.claim_data.get("sha256", ""))
        except StoreError as error:
            raise DecryptError(error.wrong, error.todo) from None
