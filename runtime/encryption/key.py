"""One AES-256-GCM key: how it is written, and how it encrypts and decrypts.

Sealed data is a nonce of twelve bytes and the ciphertext with its tag, as in the encryption
samples of Temporal's SDKs.

Nonces are random. Where equal data has to give equal bytes (`repeatable`), the nonce is derived
from the data with HMAC-SHA256 under a separate key: two different texts never share a nonce, which
is the one requirement of AES-GCM. A reader of the bytes learns that two of them are equal, and
nothing else: guessing the text requires the key.
"""

import base64
import binascii
import hashlib
import hmac
import os
import re

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
_NONCES = b"holdfast: nonces of equal data"
_HEX = re.compile(r"[0-9A-Fa-f]{64}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{43}=?")


class UnsealError(Exception):
    """Data that was not sealed with this key, or is damaged."""


class AesKey:
    """A key by its id; no representation shows it."""

    def __init__(self, id: str, secret: bytes) -> None:
        self.id = id
        self._cipher = AESGCM(secret)
        self._nonces = hmac.digest(secret, _NONCES, hashlib.sha256)

    def __repr__(self) -> str:
        return f"Key({self.id!r})"

    def seal(self, data: bytes, *, repeatable: bool = False) -> bytes:
        """Encrypt the data; if `repeatable`, equal data gives equal bytes."""
        nonce = self._nonce(data) if repeatable else os.urandom(NONCE_BYTES)
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

    def _nonce(self, data: bytes) -> bytes:
        return hmac.digest(self._nonces, data, hashlib.sha256)[:NONCE_BYTES]


def read_key(text: str) -> bytes | None:
    """Read a key in base64 (of either alphabet) or hexadecimal, or return None."""
    written = text.strip()
    if _HEX.fullmatch(written):
        return bytes.fromhex(written)
    if not _BASE64.fullmatch(written):
        return None
    plain = written.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(f"{plain}=", validate=True)
    except binascii.Error:
        return None
