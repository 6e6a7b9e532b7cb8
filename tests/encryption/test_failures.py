"""Failures (§13): their texts are encrypted wherever they come from, and their types are not."""

from collections.abc import Iterator

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from holdfast.runtime.data_converter import data_converter, with_encryption
from tests.encryption.keys import NEW, ring

OURS = with_encryption(data_converter, ring(NEW))
WORD = "heliotrope"


def levels(failure: Failure) -> Iterator[Failure]:
    """The failure and its causes."""
    yield failure
    if failure.HasField("cause"):
        yield from levels(failure.cause)


def raised() -> Exception:
    """An error with a cause, as it is raised."""
    try:
        try:
            raise ValueError(f"no {WORD}")
        except ValueError as error:
            raise ApplicationError(f"{WORD} is out", WORD, type="sold_out") from error
    except ApplicationError as error:
        return error


async def test_messages_details_and_stacks_are_encrypted_and_types_are_not() -> None:
    failure = Failure()
    await OURS.encode_failure(raised(), failure)
    assert WORD.encode() not in failure.SerializeToString()
    assert [one.message for one in levels(failure)] == ["Encoded failure"] * 2
    assert [one.stack_trace for one in levels(failure)] == ["", ""]
    types = [one.application_failure_info.type for one in levels(failure)]
    assert types == ["sold_out", "ValueError"]

    read = await OURS.decode_failure(failure)
    assert isinstance(read, ApplicationError)
    assert (read.message, read.details, read.type) == (f"{WORD} is out", (WORD,), "sold_out")
    assert isinstance(read.__cause__, ApplicationError)
    assert read.__cause__.message == f"no {WORD}"
    assert "in raised" in str(read.__cause__.failure and read.__cause__.failure.stack_trace)


@pytest.mark.parametrize("converter", [pydantic_data_converter, OURS])
async def test_what_is_handed_on_is_encrypted_once_and_with_all_its_causes(
    converter: DataConverter,
) -> None:
    """A run fails with what an activity of others raised, whose worker may have had no keys."""
    failure, handed_on = Failure(), Failure()
    await converter.encode_failure(raised(), failure)
    came = await OURS.decode_failure(failure)
    await OURS.encode_failure(came, handed_on)
    assert WORD.encode() not in handed_on.SerializeToString()
    read = await OURS.decode_failure(handed_on)
    assert isinstance(read, ApplicationError)
    assert isinstance(read.__cause__, ApplicationError)
    assert (read.message, read.__cause__.message) == (f"{WORD} is out", f"no {WORD}")
