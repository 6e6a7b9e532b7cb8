"""Payload converters of other programs, as runs use them."""

from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
)

from holdfast.runtime.data_converter import with_pydantic


class ConvertedOrder(BaseModel):
    """A model, which the SDK's own JSON does not read."""

    number: int


class Texts(EncodingPayloadConverter):
    """Converts texts in a way of its own."""

    encoding = "shop/text"

    def to_payload(self, value: Any) -> Payload | None:
        """Convert a text alone."""
        if not isinstance(value, str):
            return None
        return Payload(metadata={"encoding": self.encoding.encode()}, data=value.encode())

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Return the text."""
        return payload.data.decode()


class Shop(CompositePayloadConverter):
    """The SDK's conversions after the shop's."""

    def __init__(self) -> None:
        super().__init__(Texts(), *DefaultPayloadConverter.default_encoding_payload_converters)


class ListConverter(Texts):
    """Converts lists and dictionaries in a way of its own."""

    def to_payload(self, value: Any) -> Payload | None:
        """Convert a list or a dictionary."""
        return super().to_payload(str(value)) if isinstance(value, list | dict) else None


class JsonTaker(CompositePayloadConverter):
    """Takes JSON values from the SDK's conversions."""

    def __init__(self) -> None:
        super().__init__(
            ListConverter(), *DefaultPayloadConverter.default_encoding_payload_converters
        )


def test_conversions_of_a_program_stay_beside_pydantic_s_json() -> None:
    used = with_pydantic(DataConverter(payload_converter_class=Shop)).payload_converter
    payloads = used.to_payloads(["a", ConvertedOrder(number=7)])
    assert [each.metadata["encoding"] for each in payloads] == [b"shop/text", b"json/plain"]
    assert used.from_payloads(payloads, [str, ConvertedOrder]) == ["a", ConvertedOrder(number=7)]


def test_a_converter_must_leave_json_values_to_json() -> None:
    with pytest.raises(ValueError, match="`JsonTaker` must leave dictionaries, lists and texts to"):
        with_pydantic(DataConverter(payload_converter_class=JsonTaker))
