"""The keys of a worker or a command, read at start from `encryption.yaml` or `permits.yaml`.

The first key encrypts and signs, every key decrypts and verifies. The file names the places of the
keys: a key in the file itself is rejected, and no message repeats a value that may be a key.

A key is for AES-256-GCM. Sealed data is a nonce of twelve bytes and the ciphertext with its tag, as
in the encryption samples of Temporal's SDKs. Nonces are random. Where equal data has to give equal
bytes (`repeatable`), the nonce is derived from the data with HMAC-SHA256 under a separate key: two
different texts never share a nonce, which is the one requirement of AES-GCM. A reader of the bytes
learns that two of them are equal, and nothing else: guessing the text requires the key.
"""

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from holdfast.runtime.settings_files.file_problems import FileProblem, LoadError, UnreadableError
from holdfast.runtime.settings_files.source import read_source, read_text
from holdfast.schemas.phrases import quote_value
from holdfast.schemas.settings.keys import Encryption, EncryptionKey
from holdfast.validation.problems import ValueProblem

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
MAX_KEY_FILE_BYTES = 1_000
_NONCES = b"holdfast: nonces of equal data"
_SIGNATURES = b"holdfast: signatures"
_HEX = re.compile(r"[0-9A-Fa-f]{64}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{43}=?")
_WRITTEN = f"write {KEY_BYTES} bytes in base64: openssl rand -base64 {KEY_BYTES}"
_ELSEWHERE = "name the variable (`env`) or the file (`file`) that holds the key"


class UnsealError(Exception):
    """Data that was not sealed with this key, or is damaged."""


class AesKey:
    """A key by its id; no representation shows it."""

    def __init__(self, id: str, secret: bytes) -> None:
        self.id = id
        self._cipher = AESGCM(secret)
        self._nonces = hmac.digest(secret, _NONCES, hashlib.sha256)
        self._signatures = hmac.digest(secret, _SIGNATURES, hashlib.sha256)

    def __repr__(self) -> str:
        return f"Key({self.id!r})"

    def seal(self, data: bytes, *, repeatable: bool = False) -> bytes:
        """Encrypt the data; if `repeatable`, equal data gives equal bytes."""
        nonce = os.urandom(NONCE_BYTES)
        if repeatable:
            nonce = hmac.digest(self._nonces, data, hashlib.sha256)[:NONCE_BYTES]
        return nonce + self._cipher.encrypt(nonce, data, None)

    def open(self, sealed: bytes) -> bytes:
        """Decrypt sealed data.

        Raises:
            UnsealError: the data is damaged, or was not sealed with this key.
        """
        if len(sealed) < NONCE_BYTES + TAG_BYTES:
            raise UnsealError("it is too short")
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)
        except InvalidTag:
            raise UnsealError("its tag is wrong") from None

    def sign(self, data: bytes) -> bytes:
        """Return the HMAC-SHA256 of the data, under a separate key."""
        return hmac.digest(self._signatures, data, hashlib.sha256)


def read_key(text: str) -> bytes | None:
    """Read a key in base64 (of either alphabet) or hexadecimal, or return None."""
    written = text.strip()
    if _HEX.fullmatch(written):
        return bytes.fromhex(written)
    if not _BASE64.fullmatch(written):
        return None
    plain = written.rstrip("=").replace("+", "-").replace("/", "_")
    return base64.urlsafe_b64decode(f"{plain}=")


class KeyRing:
    """A set of keys, the newest first."""

    def __init__(self, keys: Sequence[AesKey]) -> None:
        self.newest = keys[0]
        self._by_id = {key.id: key for key in keys}

    def __repr__(self) -> str:
        return f"KeyRing({list(self._by_id)})"

    def find(self, id: str) -> AesKey | None:
        return self._by_id.get(id)

    def derive(self, purpose: bytes) -> list[bytes]:
        """Return a key of 32 bytes for another purpose from each key, the newest first."""
        return [key.sign(purpose) for key in self._by_id.values()]

    def has_signed(self, data: bytes, signature: bytes) -> bool:
        return any(hmac.compare_digest(key.sign(data), signature) for key in self._by_id.values())

    @classmethod
    def load(cls, file: Path, environ: Mapping[str, str]) -> "KeyRing":
        """Load the keys that a file names.

        Raises:
            LoadError: the file does not load, or a key is missing.
        """
        if read_key(str(file)) is not None:
            fix = "name the file that lists where the keys are"
            problem = FileProblem("the name of the file", None, "this is a key itself", fix)
            raise LoadError([problem])
        source = read_source(file)
        entries = source.parse_as(Encryption, _hide_value).keys
        faults = [
            ValueProblem(("keys", n, name), "this is a key, or looks like one", _ELSEWHERE)
            for n, entry in enumerate(entries)
            for name, value in entry
            if value is not None and read_key(value) is not None
        ]
        if faults:
            raise LoadError(source.problems(faults))
        keys: list[AesKey] = []
        for n, entry in enumerate(entries):
            if entry.id in {earlier.id for earlier in entries[:n]}:
                reason = f"there is a key {quote_value(entry.id)} already"
                fix = "give each key an id of its own, and never give it to another"
                faults.append(ValueProblem(("keys", n, "id"), reason, fix))
            secret = _read_secret(entry, file.parent, environ)
            if isinstance(secret, ValueProblem):
                faults.append(secret.under("keys", n))
            else:
                keys.append(AesKey(entry.id, secret))
        if faults:
            raise LoadError(source.problems(faults))
        return cls(keys)


def _hide_value(fault: ValueProblem) -> ValueProblem:
    """Remove the value from a problem: it may be a key."""
    if fault.reason.startswith("unknown field") and fault.where[:1] == ("keys",):
        return replace(fault, fix=_ELSEWHERE)
    if fault.reason.endswith("does not fit"):
        return replace(fault, reason="the value does not fit")
    return fault


def _read_secret(
    entry: EncryptionKey, folder: Path, environ: Mapping[str, str]
) -> bytes | ValueProblem:
    if entry.file is None:
        field, place = "env", f"the variable {entry.env}"
        text = environ.get(entry.env or "", "")
        if not text.strip():
            return ValueProblem((field,), f"{place} is not set", "set it to the key")
    else:
        field, place = "file", f"{folder / entry.file}"
        try:
            text = read_text(folder / entry.file, MAX_KEY_FILE_BYTES)
        except UnreadableError as error:
            return ValueProblem((field,), f"{place}: {error.reason}", error.fix)
    return read_key(text) or ValueProblem((field,), f"what {place} holds is no key", _WRITTEN)
