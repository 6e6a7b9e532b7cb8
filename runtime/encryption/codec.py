"""Payloads, encrypted before they leave the process and decrypted when they come back.

It is laid out as in the encryption samples of Temporal's SDKs for Go and Python, so that workers,
clients and codec endpoints in other languages can take part: the payload as Protobuf, compressed as
by Go's `ZlibCodec` where that helps, then encrypted, with the encoding `binary/encrypted` and the
key's id beside it. What is not encrypted is passed through: it may be from before the keys, or from
somebody who has none.

What cannot be decrypted is an error, which fails a run's workflow task and not the run: it goes on
once its worker has the key.
"""

import asyncio
import zlib
from collections.abc import Callable, Sequence

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from holdfast.runtime.encryption.key import UnsealError
from holdfast.runtime.encryption.key_ring import KeyRing
from holdfast.schemas import names
from holdfast.schemas.phrases import quote_value

VARIABLE = "HOLDFAST_ENCRYPTION"
ENCODING = "encoding"
KEY_ID = "encryption-key-id"
ENCRYPTED = b"binary/encrypted"
COMPRESSED = b"binary/zlib"
BYTES = b"binary/plain"
LEAST_COMPRESSED_BYTES = 512
# What Temporal would refuse is not made to fit it: nobody behind it could work through so much at a
# time. What goes into a store may be larger.
MOST_COMPRESSED_BYTES = 2_000_000
# More than the largest that a store takes.
MAX_INFLATED_BYTES = 64 * 1024 * 1024
# More takes longer than a loop may wait.
MAX_ON_LOOP_BYTES = 16 * 1024


class DecryptError(Exception):
    """A payload that cannot be decrypted: what is wrong, and what to do."""

    def __init__(self, wrong: str, todo: str) -> None:
        super().__init__(f"{wrong}; {todo}")
        self.wrong = wrong
        self.todo = todo


class KeylessCodec(PayloadCodec):
    """Pass payloads through where there are no keys, and raise if one is encrypted.

    Without it, what is encrypted would be taken for a value that cannot be read.
    """

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Return the payloads as they are; the SDK calls this."""
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Return the payloads as they are, unless one is encrypted; the SDK calls this.

        Raises:
            DecryptError: one is.
        """
        for payload in payloads:
            if is_encrypted(payload):
                key = quote_value(_id_of(payload))
                wrong = f"this is encrypted with the key {key}, and no keys are set here"
                raise DecryptError(wrong, f"set {VARIABLE} to the file that names them")
        return list(payloads)


class EncryptionCodec(PayloadCodec):
    """Encrypt with the newest key of a ring, and decrypt with any of them."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt the payloads; the SDK calls this."""
        return [await _in_time(self._encrypted, payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt those payloads that are encrypted; the SDK calls this.

        Raises:
            DecryptError: one cannot be.
        """
        return [
            await _in_time(self._decrypted, payload) if is_encrypted(payload) else payload
            for payload in payloads
        ]

    def _encrypted(self, payload: Payload) -> Payload:
        marks = _marks(payload)
        key = self._ring.newest
        data = _smaller(payload).SerializeToString(deterministic=True)
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
            return _inflated(Payload.FromString(key.open(payload.data)))
        except (UnsealError, DecodeError, zlib.error) as error:
            wrong = f"this cannot be decrypted with the key {quote_value(id)}: {error}"
            todo = "see that it is the key it was encrypted with; if it is, this was tampered with"
            raise DecryptError(wrong, todo) from None


def is_encrypted(payload: Payload) -> bool:
    """Return whether a payload is marked as encrypted."""
    return payload.metadata.get(ENCODING) == ENCRYPTED


async def _in_time(work: Callable[[Payload], Payload], payload: Payload) -> Payload:
    if len(payload.data) > MAX_ON_LOOP_BYTES:
        return await asyncio.to_thread(work, payload)
    return work(payload)


def _marks(payload: Payload) -> dict[str, bytes]:
    """Return the metadata that a store needs: that it is for it, or a run's own bytes.

    Equal ones are to give equal bytes then, or the pages of a log would be kept anew whenever a run
    continues as new.
    """
    marks = {names.FOR_STORE: b"true"} if names.FOR_STORE in payload.metadata else {}
    if payload.metadata.get(ENCODING) == BYTES:
        marks[names.BYTES] = b"true"
    return marks


def _smaller(payload: Payload) -> Payload:
    """Return the payload compressed where that helps; a run's own bytes are compressed already.

    One that says of itself that it is compressed is so once more: it would be taken for ours.
    """
    for_store = names.FOR_STORE in payload.metadata
    most_bytes = MAX_INFLATED_BYTES if for_store else MOST_COMPRESSED_BYTES
    encoding = payload.metadata.get(ENCODING)
    fits = LEAST_COMPRESSED_BYTES <= payload.ByteSize() <= most_bytes
    if encoding != COMPRESSED and (encoding == BYTES or not fits):
        return payload
    whole = payload.SerializeToString(deterministic=True)
    packed = zlib.compress(whole)
    if encoding != COMPRESSED and len(packed) >= len(whole):
        return payload
    return Payload(metadata={ENCODING: COMPRESSED}, data=packed)


def _inflated(payload: Payload) -> Payload:
    if payload.metadata.get(ENCODING) != COMPRESSED:
        return payload
    unpacking = zlib.decompressobj()
    whole = unpacking.decompress(payload.data, MAX_INFLATED_BYTES)
    if not unpacking.eof:
        raise UnsealError(f"it has more than {MAX_INFLATED_BYTES} bytes, or its end is missing")
    return Payload.FromString(whole)


def _id_of(payload: Payload) -> str:
    return payload.metadata.get(KEY_ID, b"").decode(errors="replace")
