"""The data converter of Holdfast, and those of other programs that it works with.

Runs need Pydantic's JSON for values that no other converter takes. A program's own payload
converter and failure converter stay; its codec encodes what ours has encrypted; its external
storage takes the payloads that ours leaves.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter, PydanticPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    DefaultPayloadConverter,
    ExternalStorage,
    JSONPlainPayloadConverter,
    PayloadCodec,
    PayloadConverter,
    StorageDriver,
    StorageDriverSelectContext,
)
from temporalio.exceptions import ApplicationError

from holdfast.runtime.encryption.codec import DecryptError, EncryptionCodec, KeylessCodec
from holdfast.runtime.encryption.key_ring import KeyRing
from holdfast.runtime.storage.store import Store, StoreError, external_storage, mark_for_store

# The message of Temporal's own, of a failure that is encrypted.
ENCODED_FAILURE = "Encoded failure"


class PlainFailureConverter(DefaultFailureConverter):
    """Leave the stack trace out of errors that are raised on purpose; a bug keeps its own.

    People read a rejection in Temporal's UI. The place in our code that raised it does not help
    them.
    """

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """Convert an exception; the SDK calls this, for causes too."""
        super().to_failure(exception, payload_converter, failure)
        # A failure from another process is passed on unchanged.
        is_own = isinstance(exception, ApplicationError) and exception.failure is None
        if is_own or isinstance(exception, StoreError | DecryptError):
            failure.stack_trace = ""


class EncodedFailureConverter(PlainFailureConverter):
    """Move messages and stack traces to where payloads are encrypted; types stay readable."""

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """Convert an exception; the SDK calls this, for causes too."""
        super().to_failure(exception, payload_converter, failure)
        _encode(failure, payload_converter)
        # Causes from another process are not encoded yet.
        cause = failure
        while cause.HasField("cause"):
            cause = cause.cause
            if not cause.HasField("encoded_attributes"):
                _encode(cause, payload_converter)


def _encode(failure: Failure, payload_converter: PayloadConverter) -> None:
    fields = {"message": failure.message, "stack_trace": failure.stack_trace}
    failure.encoded_attributes.CopyFrom(payload_converter.to_payload(fields))
    failure.message = ENCODED_FAILURE
    failure.stack_trace = ""


_JSON = PydanticJSONPlainPayloadConverter()
_PLAIN = (b"json/plain", b'{"a":[1,null,"b"]}')


class SharedPayloadConverter(CompositePayloadConverter):
    """Convert as Pydantic's converter does, with parts that are made once.

    The SDK makes a converter for every run, and two for each of its tasks.
    """

    _parts = tuple(PydanticPayloadConverter().converters.values())

    def __init__(self) -> None:
        super().__init__(*self._parts)


def with_store(converter: DataConverter, store: Store | None) -> DataConverter:
    """Return the data converter with a store; large values are then sent as references.

    A storage of the converter's own takes the payloads that are not for the store.
    """
    if store is None:
        return converter
    ours, theirs = external_storage(store), converter.external_storage
    if theirs is None:
        return replace(converter, external_storage=ours)

    def select(context: StorageDriverSelectContext, payload: Payload) -> StorageDriver | None:
        assert ours.driver_selector is not None  # it always has one
        found = ours.driver_selector(context, payload)
        if found is not None or payload.ByteSize() < theirs.payload_size_threshold:
            return found
        return (theirs.driver_selector or (lambda *_: theirs.drivers[0]))(context, payload)

    both = ExternalStorage(
        drivers=[*ours.drivers, *theirs.drivers],
        driver_selector=select,
        payload_size_threshold=min(ours.payload_size_threshold, theirs.payload_size_threshold),
    )
    return replace(converter, external_storage=both)


def with_encryption(converter: DataConverter, ring: KeyRing | None) -> DataConverter:
    """Return the data converter with our codec, and with encryption if there are keys."""
    codec: PayloadCodec = KeylessCodec() if ring is None else EncryptionCodec(ring)
    theirs, errors = converter.payload_codec, converter.failure_converter_class
    if not (theirs is None or isinstance(theirs, KeylessCodec)):
        codec = ComposedCodec(codec, theirs)
    if errors in (DefaultFailureConverter, PlainFailureConverter):
        errors = PlainFailureConverter if ring is None else EncodedFailureConverter
    return replace(converter, payload_codec=codec, failure_converter_class=errors)


def encrypts(converter: DataConverter) -> bool:
    codec = converter.payload_codec
    return isinstance(codec.ours if isinstance(codec, ComposedCodec) else codec, EncryptionCodec)


def with_pydantic(converter: DataConverter) -> DataConverter:
    """Return the data converter with Pydantic's JSON in place of the SDK's own.

    Raises:
        ValueError: it does not convert JSON values to the encoding `json/plain`.
    """
    theirs = converter.payload_converter_class
    if theirs is DefaultPayloadConverter:
        theirs = SharedPayloadConverter
    converter = replace(converter, payload_converter_class=_with_pydantic(theirs))
    made = converter.payload_converter.to_payloads([{"a": [1, None, "b"]}])
    if [(each.metadata["encoding"], each.data) for each in made] != [_PLAIN]:
        raise ValueError(
            f"the payload converter `{theirs.__name__}` must leave dictionaries, lists and texts"
            " to the encoding `json/plain`, which runs, clients and the inbox read"
        )
    return converter


@cache
def _with_pydantic(theirs: type[PayloadConverter]) -> type[PayloadConverter]:
    parts = getattr(theirs(), "converters", {})
    if not any(type(each) is JSONPlainPayloadConverter for each in parts.values()):
        return theirs

    class WithPydantic(theirs):  # type: ignore[valid-type, misc]  # a class of the user's
        def __init__(self) -> None:
            super().__init__()
            self.converters = {
                encoding: _JSON if type(part) is JSONPlainPayloadConverter else part
                for encoding, part in parts.items()
            }

    return WithPydantic


class ComposedCodec(PayloadCodec):
    """Encode with our codec, then with that of another program, whose output has our marks.

    The other one is the outer one, so that the codec server of its program decodes it.
    """

    def __init__(self, ours: PayloadCodec, theirs: PayloadCodec) -> None:
        self.ours, self._theirs = ours, theirs

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encode with both; the SDK calls this."""
        ours = await self.ours.encode(payloads)
        encoded = await self._theirs.encode(ours)
        for before, after in zip(ours, encoded, strict=False):  # a codec may join payloads
            mark_for_store(before, after)
        return encoded

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await self.ours.decode(await self._theirs.decode(payloads))


data_converter = with_encryption(with_pydantic(DataConverter()), None)
"""The converter of a program that has no other."""
