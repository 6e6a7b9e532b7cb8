"""What a person can get wrong around a run, and the messages: the rows and their shapes.

The rows are in the `running_*` files beside this one. A message is written here as the person
gets it, to the letter; only what differs from test to test stands as a mark: `<run>`, `<folder>`,
`<port>`, `<server>` and `<queue>`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue


def raw(data: bytes, encoding: bytes = b"json/plain") -> RawValue:
    """A payload as it may come from anywhere."""
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


@dataclass(frozen=True)
class Request:
    """A run is started with `given`, and fails with `says`."""

    name: str
    given: Sequence[Any]
    says: str


@dataclass(frozen=True)
class Update:
    """A running run is sent an update, and refuses it with `says`: nothing has happened."""

    to: Literal["waiting", "talking", "asking", "planning"]
    name: str
    update: str
    given: Sequence[Any]
    type: str
    says: str


@dataclass(frozen=True)
class Signal:
    """A running run is sent a signal. Its log has the outcome, and the run continues."""

    name: str
    signal: str
    given: Sequence[Any]
    says: str


@dataclass(frozen=True)
class Query:
    """A run is asked something, and answers with `says`."""

    name: str
    query: str
    given: Sequence[Any]
    says: str


@dataclass(frozen=True)
class CommandRow:
    """`holdfast` with these words, in this environment and with these files beside it.

    `on_screen`: the message ends what is drawn of a run on standard output.
    """

    name: str
    words: Sequence[str]
    code: int
    says: str
    on_screen: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def filled(value: Any, marks: Mapping[str, str]) -> Any:
    """The value with the values of the marks."""
    if isinstance(value, str):
        for mark, text in marks.items():
            value = value.replace(f"<{mark}>", text)
        return value
    if isinstance(value, Mapping):
        return {key: filled(item, marks) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [filled(item, marks) for item in value]
    return value
