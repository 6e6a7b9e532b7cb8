"""The connection to Temporal: configured as for every Temporal program, with a time limit.

Payloads are encrypted with the keys that `HOLDFAST_ENCRYPTION` names, and converted and encoded by
the data converter that `HOLDFAST_CONVERTER` names, as by the worker.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import DataConverter, PayloadCodec

from holdfast.catalog.python_module import load_converter
from holdfast.client.errors import EncryptedError, explain_settings
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.runtime.connection_errors import explain_failure, read_settings
from holdfast.runtime.data_converter import with_encryption, with_pydantic
from holdfast.runtime.encryption.codec import CONVERTER_VARIABLE, VARIABLE, DecryptError
from holdfast.runtime.encryption.key_ring import KeyRing
from holdfast.runtime.text_safety import one_line
from holdfast.schemas import names
from holdfast.schemas.phrases import quote_value

CONNECT_TIMEOUT_SECONDS = 5
_START_ONE = "start one (holdfast worker --dev) or set TEMPORAL_ADDRESS"
_WARNING_CHARS = 500


async def connect(task_queue: str = names.TASK_QUEUE) -> HoldfastClient:
    """Return a client for the server that the environment or `temporal.toml` names.

    Settings that are ignored are reported on standard error.

    Raises:
        HoldfastError: the keys cannot be read.
        TemporalConnectionError: the settings cannot be read, or no server answers within 5 s.
    """
    converter = client_converter(os.environ.get(VARIABLE), VARIABLE)
    converter = replace(converter, payload_codec=ReportingCodec(converter))
    settings = read_settings(
        lambda text: print(f"holdfast: {one_line(text, _WARNING_CHARS)}", file=sys.stderr)
    )
    async with explain_failure(settings["target_host"], CONNECT_TIMEOUT_SECONDS, _START_ONE):
        client = await Client.connect(**settings, data_converter=converter)
    return HoldfastClient(client, task_queue)


def client_converter(keys: str | None, named_by: str) -> DataConverter:
    """Return the converter of `HOLDFAST_CONVERTER`, if that is set, with the keys of a file.

    `named_by` is the setting that names the file.
    """
    with explain_settings(CONVERTER_VARIABLE):
        theirs = load_converter(os.environ.get(CONVERTER_VARIABLE))
    with explain_settings(named_by):
        ring = None if keys is None else KeyRing.load(Path(keys), os.environ)
    return with_encryption(with_pydantic(theirs), ring)


class ReportingCodec(PayloadCodec):
    """The codec of a converter, which raises `EncryptedError` where it cannot read a payload."""

    def __init__(self, converter: DataConverter) -> None:
        assert converter.payload_codec is not None  # there is one with and without keys
        self._inner = converter.payload_codec
        self._encodings = getattr(converter.payload_converter_class(), "converters", ())

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await self._inner.encode(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt the payloads that the command receives; the SDK calls this."""
        try:
            decoded = await self._inner.decode(payloads)
        except DecryptError as error:
            raise EncryptedError(error.reason, error.fix) from None
        for each in decoded:
            encoding = each.metadata.get("encoding", b"")
            if self._encodings and encoding not in self._encodings:
                wrong = f"this has the encoding {quote_value(encoding.decode())}, unknown here"
                raise EncryptedError(wrong, f"set {CONVERTER_VARIABLE} to that of the workers")
        return decoded
