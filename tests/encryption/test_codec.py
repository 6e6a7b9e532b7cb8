"""The codec (§13): what is encrypted comes back with its key alone, in a form that others know."""

import asyncio
import os
import threading
import zlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import example, given
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload

from holdfast.activities.interceptors.results import MAX_RESULT_BYTES
from holdfast.runtime.encryption import codec as codecs
from holdfast.runtime.encryption.codec import (
    COMPRESSED,
    DecryptError,
    EncryptionCodec,
    KeylessCodec,
)
from holdfast.runtime.encryption.key_ring import AesKey
from holdfast.schemas import names
from tests.encryption.keys import NEW, OLD, SECRETS, ring

# Temporal's own bound.
MAX_PAYLOAD_BYTES = 2 * 1024 * 1024
TEXT = b'{"password":"correct horse battery staple"}'
payloads = st.builds(
    Payload,
    metadata=st.dictionaries(
        st.sampled_from(["encoding", "messageType", names.FOR_STORE]), st.binary(max_size=20)
    ),
    data=st.binary(max_size=200) | st.builds(lambda part: part * 300, st.binary(max_size=10)),
)


def plain(data: bytes = TEXT, encoding: bytes = b"json/plain", **marks: bytes) -> Payload:
    """A payload as converters make it."""
    return Payload(metadata={"encoding": encoding, **marks}, data=data)


async def encoded(payload: Payload, *ids: str) -> Payload:
    """The payload, encrypted with the first of these keys."""
    [made] = await EncryptionCodec(ring(*(ids or (NEW,)))).encode([payload])
    return made


async def decoded(payload: Payload, *ids: str) -> Payload:
    """The payload, decrypted by who has these keys."""
    [made] = await EncryptionCodec(ring(*(ids or (NEW,)))).decode([payload])
    return made


@given(st.lists(payloads, max_size=4))
@example([plain(b"", encoding=COMPRESSED)])
@example([plain(bytes(600), encoding=COMPRESSED), plain(zlib.compress(TEXT), COMPRESSED)])
def test_whatever_is_encrypted_comes_back(given_: list[Payload]) -> None:
    async def there_and_back() -> list[Payload]:
        codec = EncryptionCodec(ring(NEW))
        sealed = await codec.encode(given_)
        assert all(each.metadata["encoding"] == b"binary/encrypted" for each in sealed)
        return await codec.decode(sealed)

    assert asyncio.run(there_and_back()) == given_


async def test_nothing_of_it_can_be_read_and_equal_texts_look_different() -> None:
    one, two = await encoded(plain()), await encoded(plain())
    assert b"correct horse" not in one.SerializeToString()
    assert one.data != two.data
    assert dict(one.metadata) == {
        "encoding": b"binary/encrypted",
        "encryption-key-id": NEW.encode(),
    }


async def test_it_is_laid_out_as_in_temporals_samples() -> None:
    """What their Python codec does, step by step, in either direction."""
    cipher = AESGCM(SECRETS[NEW])
    nonce = os.urandom(12)
    theirs = Payload(
        metadata={"encoding": b"binary/encrypted", "encryption-key-id": NEW.encode()},
        data=nonce + cipher.encrypt(nonce, plain().SerializeToString(), None),
    )
    assert await decoded(theirs) == plain()
    ours = await encoded(plain())
    assert Payload.FromString(cipher.decrypt(ours.data[:12], ours.data[12:], None)) == plain()


async def test_what_is_long_is_compressed_before_as_by_gos_codec() -> None:
    cipher = AESGCM(SECRETS[NEW])
    long = plain(TEXT * 100)
    ours = await encoded(long)
    assert len(ours.data) < 200
    packed = Payload.FromString(cipher.decrypt(ours.data[:12], ours.data[12:], None))
    assert dict(packed.metadata) == {"encoding": b"binary/zlib"}
    assert Payload.FromString(zlib.decompress(packed.data)) == long
    assert await decoded(ours) == long


@pytest.mark.parametrize(
    "payload",
    [
        plain(b"x" * 400),
        plain(os.urandom(5_000)),
        plain(bytes(5_000), encoding=b"binary/plain"),
        plain(bytes(codecs.MOST_COMPRESSED_BYTES)),
        plain(os.urandom(MAX_RESULT_BYTES)),
    ],
    ids=["short", "random", "packed by the run", "too large for Temporal", "the largest result"],
)
async def test_what_is_not_compressed_grows_by_128_bytes_at_most(payload: Payload) -> None:
    sealed = await encoded(payload)
    assert payload.ByteSize() < sealed.ByteSize() < payload.ByteSize() + 128
    assert sealed.ByteSize() < MAX_PAYLOAD_BYTES


async def test_what_is_for_a_store_is_compressed_at_any_size() -> None:
    large = plain(bytes(codecs.MOST_COMPRESSED_BYTES), **{names.FOR_STORE: b"true"})
    sealed = await encoded(large)
    assert sealed.ByteSize() < 5_000
    assert await decoded(sealed) == large


async def test_a_large_one_does_not_hold_up_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def compress(data: bytes) -> bytes:
        threads.append(threading.current_thread())
        return data

    monkeypatch.setattr(zlib, "compress", compress)
    await encoded(plain(bytes(codecs.MAX_ON_LOOP_BYTES)))
    await encoded(plain(bytes(codecs.MAX_ON_LOOP_BYTES + 1)))
    assert [each is threading.main_thread() for each in threads] == [True, False]


async def test_what_is_not_encrypted_is_passed_through() -> None:
    given_ = [plain(), plain(b"", b"binary/null"), plain(zlib.compress(b"x"), b"binary/zlib")]
    assert await EncryptionCodec(ring(NEW)).decode(given_) == given_
    assert await KeylessCodec().decode(given_) == given_
    assert await KeylessCodec().encode(given_) == given_


async def test_the_newest_key_encrypts_and_every_one_decrypts() -> None:
    before = await encoded(plain(), OLD)
    after = await encoded(plain(), NEW, OLD)
    assert after.metadata["encryption-key-id"] == NEW.encode()
    assert await decoded(before, NEW, OLD) == await decoded(after, NEW, OLD) == plain()
    with pytest.raises(DecryptError) as raised:
        await decoded(before, NEW)
    assert str(raised.value) == (
        "this is encrypted with the key `2026-01`, which is not among those here; add it to the "
        "file that HOLDFAST_ENCRYPTION or `--encryption` names"
    )


async def test_without_keys_the_setting_is_named() -> None:
    with pytest.raises(DecryptError) as raised:
        await KeylessCodec().decode([plain(), await encoded(plain())])
    assert str(raised.value) == (
        "this is encrypted with the key `2026-08`, and no keys are set here; set "
        "HOLDFAST_ENCRYPTION to the file that names them"
    )


def tampered(payload: Payload, data: bytes) -> Payload:
    """The payload with other data."""
    return Payload(metadata=payload.metadata, data=data)


async def test_what_was_changed_on_the_way_is_refused_byte_by_byte() -> None:
    sealed = await encoded(plain(b"1"))
    changed = [
        bytes(byte ^ (n == place) for n, byte in enumerate(sealed.data))
        for place in range(len(sealed.data))
    ]
    cut = [sealed.data[:length] for length in range(len(sealed.data))]
    for data in [*changed, *cut, sealed.data + b"\0"]:
        with pytest.raises(DecryptError, match="cannot be decrypted with the key `2026-08`: it"):
            await decoded(tampered(sealed, data))


async def test_another_key_under_the_same_id_is_reported() -> None:
    sealed = Payload(
        metadata={"encoding": b"binary/encrypted", "encryption-key-id": NEW.encode()},
        data=AesKey(NEW, SECRETS[OLD]).seal(plain().SerializeToString()),
    )
    with pytest.raises(DecryptError, match="check that it was encrypted with this key"):
        await decoded(sealed)


def packed(data: bytes) -> bytes:
    """Data as if Go's codec had compressed it."""
    return Payload(metadata={"encoding": b"binary/zlib"}, data=data).SerializeToString()


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        (b"\xff\xff", "Error parsing"),
        (packed(b"nothing"), "incorrect header"),
        (packed(zlib.compress(b"\xff\xff")), "Error parsing"),
        (packed(zlib.compress(bytes(2_000))[:-5]), "its end is missing"),
        (packed(zlib.compress(bytes(codecs.MAX_INFLATED_BYTES + 1))), "more than 67108864 bytes"),
    ],
    ids=["no payload", "not compressed", "compressed nonsense", "cut", "a bomb"],
)
async def test_what_is_no_payload_inside_is_refused(inside: bytes, said: str) -> None:
    sealed = Payload(
        metadata={"encoding": b"binary/encrypted", "encryption-key-id": NEW.encode()},
        data=ring(NEW).newest.seal(inside),
    )
    with pytest.raises(DecryptError, match=said):
        await decoded(sealed)


@pytest.mark.parametrize(
    ("payload", "marks"),
    [
        (plain(**{names.FOR_STORE: b"true"}), {names.FOR_STORE}),
        (plain(encoding=b"binary/plain"), {names.BYTES}),
        (
            plain(encoding=b"binary/plain", **{names.FOR_STORE: b"true"}),
            {names.BYTES, names.FOR_STORE},
        ),
    ],
)
async def test_what_a_store_may_keep_is_equal_when_it_is_equal(
    payload: Payload, marks: set[str]
) -> None:
    one, two = await encoded(payload), await encoded(payload)
    assert one == two, "or a store would keep it twice"
    assert set(one.metadata) - {"encoding", "encryption-key-id"} == marks
    assert await decoded(one) == payload
    other: Any = Payload(metadata=payload.metadata, data=payload.data + b" ")
    assert (await encoded(other)).data[:12] != one.data[:12], "no nonce serves two texts"
    assert (await encoded(payload, OLD)).data[:12] != one.data[:12]
