"""The answer of a model in one turn, and its cost."""

from typing import Any, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from holdfast.schemas.base import Json, Lenient

StopReason = Literal["stop", "calls", "length", "filtered"]


class Usage(Lenient):
    """Tokens, and their price in the currency of the endpoint's price list. `None` is unknown."""

    input_tokens: int | None = None
    """Of the requests."""
    output_tokens: int | None = None
    """Of the answers."""
    cached_tokens: int | None = None
    """Of the requests, those that the provider had kept."""
    cost: float | None = None
    """By the endpoint's prices."""
    # What it costs is reported, so it is of no use to a run, and never leaves the process.
    written_tokens: SkipJsonSchema[int | None] = Field(default=None, exclude=True)
    """Of the requests, those that the provider keeps from now on."""


class WrittenCall(Lenient):
    """A call as the model wrote it: nothing in it has been checked.

    `oversize_bytes` says how large the arguments were when they were too large to be kept.
    """

    provider_id: str | None = None
    tool: str
    arguments: dict[str, Any] | str = ""
    oversize_bytes: int | None = None


class Solution(Lenient):
    """One answer of a model.

    `provider_data` is what its provider wants to be sent back with the answer, such as signatures
    of its reasoning. No one else reads it. `window` is what the model can take in, in tokens: said
    where the conversation takes much of it. `too_long`: it takes more, and there is no answer.
    """

    text: str = ""
    calls: list[WrittenCall] = []
    provider_data: Json = None
    stop_reason: StopReason = "stop"
    usage: Usage = Usage()
    model: str | None = None
    notices: list[str] = []
    window: int | None = None
    too_long: bool = False
