"""The connection to Temporal: configured as for every Temporal program, with a time limit.

Payloads are encrypted with the keys that `HOLDFAST_ENCRYPTION` names, as by the worker.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import PayloadCodec

from holdfast.client.errors import EncryptedError, wrong_settings
from holdfast.runtime.connection_errors import explain_failure, read_settings
from holdfast.runtime.encryption.codec import VARIABLE, DecryptError, EncryptionCodec, KeylessCodec
from holdfast.runtime.encryption.key_ring import KeyRing
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.text_safety import one_line

CONNECT_TIMEOUT_SECONDS = 5
_START_ONE = "start one (holdfast worker --dev) or set TEMPORAL_ADDRESS"
_WARNING_CHARS = 500


async def connect() -> Client:
    """Return a client for the server that the environment or `temporal.toml` names.

    Settings that are ignored are reported on standard error.

    Raises:
        HoldfastError: the keys cannot be read.
        TemporalConnectionError: the settings cannot be read, or no server answers within 5 s.
    """
    file = os.environ.get(VARIABLE)
    codec = ReportingCodec(load_codec(file, VARIABLE) if file else KeylessCodec())
    converter = replace(pydantic_data_converter, payload_codec=codec)
    settings = read_settings(
        lambda text: print(f"holdfast: {one_line(text, _WARNING_CHARS)}", file=sys.stderr)
    )
    async with explain_failure(settings["target_host"], CONNECT_TIMEOUT_SECONDS, _START_ONE):
        return await Client.connect(**settings, data_converter=converter)


def load_codec(file: str, named_by: str) -> EncryptionCodec:
    """Return the codec with the keys of a file; `named_by` is the setting that names the file."""
    try:
        return EncryptionCodec(KeyRing.load(Path(file), os.environ))
    except LoadError as error:
        raise wrong_settings(named_by, error.problems) from None


class ReportingCodec(PayloadCodec):
    """A codec that raises `EncryptedError` where a payload cannot be decrypted."""

    def __init__(self, inner: PayloadCodec) -> None:
        self._inner = inner

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt the payloads that the command sends; the SDK calls this."""
        return await self._inner.encode(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt the payloads that the command receives; the SDK calls this."""
        try:
            return await self._inner.decode(payloads)
        except DecryptError as error:
            raise EncryptedError(error.reason, error.fix) from None
