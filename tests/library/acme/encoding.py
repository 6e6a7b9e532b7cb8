"""The company's codec and converters."""

from collections.abc import Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    EncodingPayloadConverter,
    PayloadCodec,
)
from temporalio.openai_agents import OpenAIPayloadConverter

ENCODING = b"binary/company"


class CompanyCodec(PayloadCodec):
    """Wraps each payload, with its bytes reversed."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Wrap the payloads."""
        return [
            Payload(metadata={"encoding": ENCODING}, data=each.SerializeToString()[::-1])
            for each in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Unwrap the payloads that are the company's."""
        return [
            Payload.FromString(each.data[::-1]) if each.metadata["encoding"] == ENCODING else each
            for each in payloads
        ]


class ComplexConverter(EncodingPayloadConverter):
    """Converts complex numbers, which JSON lacks."""

    @property
    def encoding(self) -> str:
        """The encoding of such a payload."""
        return "company/complex"

    def to_payload(self, value: Any) -> Payload | None:
        """Convert a complex number alone."""
        if not isinstance(value, complex):
            return None
        return Payload(metadata={"encoding": self.encoding.encode()}, data=str(value).encode())

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Return the number."""
        return complex(payload.data.decode())


class CompanyConverter(OpenAIPayloadConverter):
    """The conversions of the OpenAI Agents SDK after the company's."""

    def __init__(self) -> None:
        super().__init__()
        ours = ComplexConverter()
        self.converters = {ours.encoding.encode(): ours, **self.converters}


converter = DataConverter(payload_codec=CompanyCodec())
