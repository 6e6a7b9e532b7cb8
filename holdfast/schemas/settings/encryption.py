"""The places of the keys that payloads are encrypted with, without the keys."""

from typing import Annotated

from pydantic import Field

from holdfast.schemas.base import OneOf, SettingsFile, Variable

MAX_KEYS = 100
KEY_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"


class EncryptionKey(OneOf):
    """One key: 32 bytes, written in base64 or in hexadecimal where it is kept."""

    one_of = ("env", "file")

    id: Annotated[str, Field(pattern=KEY_ID_PATTERN)]
    """The key's name in payloads, where it is not encrypted."""
    env: Variable | None = None
    """The environment variable that holds the key; never the key."""
    file: Annotated[str | None, Field(min_length=1, max_length=4_000)] = None
    """The file that holds the key, seen from the folder of this one."""


class Encryption(SettingsFile):
    """`encryption.yaml`: the keys of a worker, and of the clients of its runs."""

    keys: Annotated[list[EncryptionKey], Field(min_length=1, max_length=MAX_KEYS)]
    """The first encrypts; every one decrypts."""
