"""Encrypted and authenticated values that a browser keeps for the inbox.

Every instance with the same secret can open them, so none stores any. Without a secret, each
process has a random one.
"""

import hashlib
import hmac
import json
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

MAX_SEALED_CHARS: Final = 4_000
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12

Clock = Callable[[], float]


@dataclass(frozen=True)
class OpenedText:
    """The values that were sealed, and the seconds until they expire."""

    values: Mapping[str, Any]
    seconds_left: float


class TextSealer:
    """Seals values for a kind of use; the values of one kind do not open as another."""

    def __init__(self, secret: str | None = None, clock: Clock = time.time) -> None:
        self._secret = os.urandom(_KEY_BYTES) if secret is None else secret.encode()
        self._cipher = AESGCM(self._key("sealed"))
        self._clock = clock

    def seal(self, kind: str, said: Mapping[str, Any], seconds: int) -> str:
        """Seal the values for this number of seconds."""
        text = json.dumps([self._clock() + seconds, said], separators=(",", ":")).encode()
        nonce = os.urandom(_NONCE_BYTES)
        return _written(nonce + self._cipher.encrypt(nonce, text, kind.encode()))

    def open(self, kind: str, sealed: str) -> OpenedText | None:
        """Return the sealed values; None for another text, or an expired one."""
        if len(sealed) > MAX_SEALED_CHARS:
            return None
        try:
            data = urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
            nonce, text = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
            ends, said = json.loads(self._cipher.decrypt(nonce, text, kind.encode()))
        except (ValueError, InvalidTag):
            return None
        left_seconds = ends - self._clock()
        return OpenedText(said, left_seconds) if left_seconds > 0 else None

    def mark(self, kind: str, text: str) -> str:
        """Return the HMAC of a text, as base64url."""
        key = self._key(f"mark {kind}")
        return _written(hmac.digest(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256))

    def _key(self, purpose: str) -> bytes:
        info = f"holdfast inbox: {purpose}".encode()
        return HKDF(SHA256(), _KEY_BYTES, salt=None, info=info).derive(self._secret)


def _written(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
