"""The places of the keys that payloads are encrypted with, without the keys."""

from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue, model_validator

from holdfast.schemas.base import Strict

MAX_KEYS = 100
KEY_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"

# For editors: what `_complete` checks.
_ONE_OF: dict[str, JsonValue] = {"oneOf": [{"required": ["env"]}, {"required": ["file"]}]}


class EncryptionKey(Strict):
    """One key: 32 bytes, written in base64 or in hexadecimal where it is kept."""

    model_config = ConfigDict(json_schema_extra=_ONE_OF)

    id: Annotated[str, Field(pattern=KEY_ID_PATTERN)]
    """What payloads say that they are encrypted with; everybody can read it."""
    env: Annotated[str | None, Field(pattern=VARIABLE_PATTERN)] = None
    """The environment variable that holds the key; never the key."""
    file: Annotated[str | None, Field(min_length=1, max_length=4_000)] = None
    """The file that holds the key, seen from the folder of this one."""

    @model_validator(mode="after")
    def _complete(self) -> "EncryptionKey":
        if self.env is None and self.file is None:
            raise ValueError("a key needs `env` or `file`; add the one that says where it is kept")
        if self.env is not None and self.file is not None:
            raise ValueError("`env` and `file` stand beside each other; keep one of them")
        return self


class Encryption(Strict):
    """`encryption.yaml`: the keys of a worker, and of the clients of its runs."""

    schema_uri: Annotated[str | None, Field(alias="$schema")] = None
    """What an editor checks the file with; not read."""
    keys: Annotated[list[EncryptionKey], Field(min_length=1, max_length=MAX_KEYS)]
    """The first encrypts; every one decrypts."""
