"""Sealed texts: values that others keep and cannot read or change, valid for a time."""

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from time import time
from typing import Any, Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from jwt.utils import base64url_decode, base64url_encode

MAX_SEALED_CHARS: Final = 4_000
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class OpenedText(NamedTuple):
    """The values that were sealed, and the seconds until they expire."""

    values: Mapping[str, Any]
    seconds_left: float


class TextSealer:
    """Encrypts values that others keep; the values of one kind do not open as another.

    Without a secret, each process has a random one.
    """

    def __init__(self, secret: str | None = None) -> None:
        self._secret = secret.encode() if secret else os.urandom(_KEY_BYTES)
        self._cipher = AESGCM(self._key("sealed"))

    def seal(self, kind: str, said: Mapping[str, Any], seconds: int) -> str:
        """Seal the values for this number of seconds."""
        text = json.dumps([time() + seconds, said], separators=(",", ":")).encode()
        nonce = os.urandom(_NONCE_BYTES)
        encrypted = self._cipher.encrypt(nonce, text, kind.encode())
        return base64url_encode(nonce + encrypted).decode()

    def open(self, kind: str, sealed: str) -> OpenedText | None:
        """Return the sealed values; None for another text, or an expired one."""
        if len(sealed) > MAX_SEALED_CHARS:
            return None
        try:
            data = base64url_decode(sealed)
            nonce, text = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
            ends, values = json.loads(self._cipher.decrypt(nonce, text, kind.encode()))
        except (ValueError, InvalidTag):
            return None
        # A text of another spelling would be another text to those who count its uses.
        left_seconds = ends - time() if base64url_encode(data).decode() == sealed else 0
        return OpenedText(values, left_seconds) if left_seconds > 0 else None

    def mark(self, kind: str, text: str) -> str:
        """Return the HMAC of a text, as base64url."""
        key = self._key(f"mark {kind}")
        mark = hmac.digest(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return base64url_encode(mark).decode()

    def _key(self, purpose: str) -> bytes:
        info = f"holdfast inbox: {purpose}".encode()
        return HKDF(SHA256(), _KEY_BYTES, salt=None, info=info).derive(self._secret)
