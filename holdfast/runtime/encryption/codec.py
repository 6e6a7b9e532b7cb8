"""Encrypt payloads before they leave the process, and decrypt them when they come back.

The format is that of the encryption samples of Temporal's SDKs for Go and Python, so that workers,
clients and codec endpoints in other languages can read it: the payload as Protobuf, compressed as
by Go's `ZlibCodec` if that makes it smaller, then encrypted, with the encoding `binary/encrypted`
and the key's id in the metadata. A payload that is not encrypted is passed through: it may be
older than the keys, or come from a client without keys.

A payload that cannot be decrypted is an error. The error fails the workflow task and not the run,
which continues when its worker has the key.
"""

import asyncio
import zlib
from collections.abc import Callable, Sequence

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from holdfast.runtime.encryption.key_ring import KeyRing, UnsealError
from holdfast.schemas import names
from holdfast.schemas.phrases import quote_value
from holdfast.validation.problems import FixableError

VARIABLE = "HOLDFAST_ENCRYPTION"
CONVERTER_VARIABLE = "HOLDFAST_CONVERTER"
ENCODING = "encoding"
KEY_ID = "encryption-key-id"
ENCRYPTED = b"binary/encrypted"
COMPRESSED = b"binary/zlib"
BYTES = b"binary/plain"
LEAST_COMPRESSED_BYTES = 512
# A payload that Temporal would reject is not compressed until it fits: no reader could process that
# much at a time. A payload for a store may be larger.
MOST_COMPRESSED_BYTES = 2_000_000
# More than the largest payload that a store accepts.
MAX_INFLATED_BYTES = 64 * 1024 * 1024
# Larger payloads are processed in a thread: they would block the event loop for too long.
MAX_ON_LOOP_BYTES = 16 * 1024


class DecryptError(FixableError):
    """A payload that cannot be decrypted."""


class KeylessCodec(PayloadCodec):
    """Pass payloads through in a process without keys, and raise if one is encrypted.

    Without this codec, the SDK would report an encrypted payload as an unreadable value.
    """

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Return the payloads as they are; the SDK calls this."""
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Return the payloads as they are, unless one is encrypted; the SDK calls this.

        Raises:
            DecryptError: a payload is encrypted.
        """
        for payload in payloads:
            if is_encrypted(payload):
                key = quote_value(_id_of(payload))
                wrong = f"this is encrypted with the key {key}, and no keys are set here"
                raise DecryptError(wrong, f"set {VARIABLE} to the file that names them")
        return list(payloads)


class EncryptionCodec(PayloadCodec):
    """Encrypt with the newest key of a key ring, and decrypt with any key of it."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt the payloads; the SDK calls this."""
        return [await _in_time(self._encrypted, payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt the encrypted payloads; the SDK calls this.

        Raises:
            DecryptError: a payload cannot be decrypted.
        """
        return [
            await _in_time(self._decrypted, payload) if is_encrypted(payload) else payload
            for payload in payloads
        ]

    def _encrypted(self, payload: Payload) -> Payload:
        """Return the payload encrypted, compressed before if that makes it smaller.

        A run's own bytes are compressed already. A payload with the compressed encoding is
        compressed again: decoding would otherwise take the sender's compression for ours.

        The metadata that a store reads is kept: the mark for the store, or that of a run's own
        bytes. Equal payloads of these two kinds are encrypted to equal bytes. Otherwise the pages
        of a log would be stored again each time a run continues as new.
        """
        encoding = payload.metadata.get(ENCODING)
        most_bytes, marks = MOST_COMPRESSED_BYTES, dict[str, bytes]()
        if names.FOR_STORE in payload.metadata:
            most_bytes, marks = MAX_INFLATED_BYTES, {names.FOR_STORE: b"true"}
        if encoding == BYTES:
            marks[names.BYTES] = b"true"
        fits = LEAST_COMPRESSED_BYTES <= payload.ByteSize() <= most_bytes
        data = payload.SerializeToString(deterministic=True)
        if encoding == COMPRESSED or (encoding != BYTES and fits):
            packed = zlib.compress(data)
            if encoding == COMPRESSED or len(packed) < len(data):
                smaller = Payload(metadata={ENCODING: COMPRESSED}, data=packed)
                data = smaller.SerializeToString(deterministic=True)
        key = self._ring.newest
        return Payload(
            metadata={ENCODING: ENCRYPTED, KEY_ID: key.id.encode(), **marks},
            data=key.seal(data, repeatable=bool(marks)),
        )

    def _decrypted(self, payload: Payload) -> Payload:
        id = _id_of(payload)
        key = self._ring.find(id)
        if key is None:
            wrong = (
                f"this is encrypted with the key {quote_value(id)}, which is not among those here"
            )
            raise DecryptError(wrong, f"add it to the file that {VARIABLE} or `--encryption` names")
        try:
            opened = Payload.FromString(key.open(payload.data))
            if opened.metadata.get(ENCODING) != COMPRESSED:
                return opened
            unpacking = zlib.decompressobj()
            whole = unpacking.decompress(opened.data, MAX_INFLATED_BYTES)
            if not unpacking.eof:
                too_long = f"it has more than {MAX_INFLATED_BYTES} bytes, or its end is missing"
                raise UnsealError(too_long)
            return Payload.FromString(whole)
        except (UnsealError, DecodeError, zlib.error) as error:
            wrong = f"this cannot be decrypted with the key {quote_value(id)}: {error}"
            todo = "check that it was encrypted with this key; if so, the payload was changed"
            raise DecryptError(wrong, todo) from None


def is_encrypted(payload: Payload) -> bool:
    return payload.metadata.get(ENCODING) == ENCRYPTED


async def _in_time(work: Callable[[Payload], Payload], payload: Payload) -> Payload:
    if len(payload.data) > MAX_ON_LOOP_BYTES:
        return await asyncio.to_thread(work, payload)
    return work(payload)


def _id_of(payload: Payload) -> str:
    return payload.metadata.get(KEY_ID, b"").decode(errors="replace")
