"""What each provider's format is tested by: how its server talks, and what is understood of us.

A wire writes the answers of a provider's server, and reads our requests; the types that the
provider itself publishes take both. So one test for each promise holds for all of them.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import httpx

from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.fakes import KEY
from tests.providers.writers.abstract_answer import AbstractAnswer, Call, Choices, Event

PICTURE = "iVBORw0KGgo="


class AnswerWriter(Protocol):
    """A module of `writers`."""

    def write(self, answer: AbstractAnswer, choices: Choices) -> bytes: ...

    def events(self, answer: AbstractAnswer, choices: Choices) -> list[Event]: ...


class Wire(ABC):
    """A provider, from its server's side.

    `writer` writes its answers; `usage` is what they report. `is_partial`: its arguments come in
    pieces. `messages` is the field of a request that has its messages.
    """

    format: ProviderFormat
    base_url: str
    writer: AnswerWriter
    usage: Usage
    is_partial = False
    messages = "messages"

    def answer(self, text: str) -> bytes:
        """A whole answer: a text, in pieces."""
        return self.writer.write(AbstractAnswer([text]), Choices())

    def breaks_off(self, text: str) -> bytes:
        """An answer that is cut behind the first piece of its text, between two events."""
        events = [each.value for each in self.writer.events(AbstractAnswer([text]), Choices())]
        first = json.dumps(Choices().cut(text)[0])
        end = next(n for n, each in enumerate(events) if first in json.dumps(each))
        return self.frame(events[: end + 1])

    def calls(self, *calls: tuple[str, dict[str, Any]]) -> bytes:
        """A whole answer: calls of tools with their arguments."""
        return self.writer.write(
            AbstractAnswer([Call(n, *call) for n, call in enumerate(calls)]), Choices()
        )

    @abstractmethod
    def frame(self, events: Sequence[Any]) -> bytes:
        """Events as the bytes of a stream."""

    @abstractmethod
    def vouch(self, event: Any) -> None:
        """Check an event by the types that the provider publishes."""

    def refuses(self, status: int, message: str) -> bytes:
        """The body of an answer that is an error."""
        error = {"message": message, "type": "invalid_request_error", "code": None, "param": None}
        return json.dumps({"error": error}).encode()

    @abstractmethod
    def understands(self, request: httpx.Request) -> dict[str, Any]:
        """The body of a request, once the provider's types have taken it."""


def check_key(request: httpx.Request, header: str = "authorization") -> None:
    """Check that the request has the endpoint's key in its header, and nowhere else."""
    assert KEY not in str(request.url)
    assert request.headers[header].removeprefix("Bearer ") == KEY
