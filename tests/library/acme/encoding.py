"""The company's codec, converter and interceptor: what a worker has that was there before."""

from collections.abc import Sequence
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
    PayloadCodec,
)
from temporalio.worker import ActivityInboundInterceptor, Interceptor

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


class CompanyConverter(CompositePayloadConverter):
    """The SDK's own conversions after the company's."""

    def __init__(self) -> None:
        super().__init__(
            ComplexConverter(), *DefaultPayloadConverter.default_encoding_payload_converters
        )


class CountingInterceptor(Interceptor):
    """Counts the executions of activities by type."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def intercept_activity(self, inner: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Count one execution."""
        kind = activity.info().activity_type
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return inner


converter = DataConverter(payload_converter_class=CompanyConverter, payload_codec=CompanyCodec())
