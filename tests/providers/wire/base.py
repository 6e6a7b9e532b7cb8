"""What each provider's format is tested by: how its server talks, and what is understood of us.

A wire writes the answers of a provider's server, and reads our requests, both by the types that
the provider itself publishes. So one test for each promise holds for all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.internal.solution import StopReason, Usage
from tests.providers.fakes import stream

PICTURE = "iVBORw0KGgo="


@dataclass(frozen=True)
class Result:
    """The result of a call in a request: the name that the tool was sent under, its text, and
    whether the format's own mark is that of an error."""

    tool: str
    text: str
    marked: bool = False


@dataclass(frozen=True)
class ReadRequest:
    """What a provider understands of a request.

    `results` stand behind the calls that they belong to, each under the id or in the place that
    the format asks for. `choice` is `auto`, `none`, `required`, a tool's name, or None for nothing
    text. `output` is the schema of a structured answer.
    """

    instructions: str
    texts: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    choice: str | None = None
    output: Any = None


class Wire(ABC):
    """A provider, from its server's side.

    `usage` is what `answer` reports. `choices` are the forms of each tool choice where the tools
    `rag.query` and `refund` are offered and `refund` is the one named: the tools that are offered
    in the request, and its choice. `marks_errors`: a result can be marked as an error.
    `partial`: arguments come in pieces. `lacks_tools` is how a server without tools refuses them.
    `hi` are the events of the text "Hi", in two parts that others can be between. `stop_reasons`
    have our reason, and the number of notices. `ignored` are events that are ignored within an
    answer; `stream_errors` are errors, with status and message. `foreign` are bodies of another
    format, `truncated` are without their ends; `whole` is an answer without a stream: "One moment."
    and the call `refund` with {"n": 1}. `uncounted` are the events of an answer without its usage.
    """

    format: ProviderFormat
    base_url: str
    usage: Usage
    choices: Mapping[str, tuple[list[str], str | None]] = {
        choice: (["rag_query", "refund"], choice)
        for choice in ("auto", "none", "required", "refund")
    }
    marks_errors = False
    partial = False
    lacks_tools: tuple[int, bytes]
    hi: tuple[Sequence[Any], Sequence[Any]]
    stop_reasons: Mapping[str, tuple[StopReason, int]]
    ignored: Sequence[Any]
    stream_errors: Sequence[tuple[Any, int, str]]
    foreign: Sequence[bytes]
    truncated: Sequence[bytes]
    whole: bytes
    uncounted: Sequence[Any]

    def events(self, *events: Any) -> bytes:
        """Events as a stream, not checked by the provider's types."""
        return stream(events, end="")

    @abstractmethod
    def stops(self, reason: str) -> bytes:
        """A whole answer that stopped for this reason."""

    @abstractmethod
    def answer(self, *pieces: str) -> bytes:
        """A whole answer: a text, in these pieces."""

    @abstractmethod
    def calls(self, *calls: tuple[str, dict[str, Any]]) -> bytes:
        """A whole answer: calls of tools with their arguments."""

    @abstractmethod
    def breaks_off(self, piece: str) -> bytes:
        """An answer that is cut after a piece of text, between two events."""

    @abstractmethod
    def refuses(self, status: int, message: str) -> bytes:
        """The body of an answer that is an error."""

    @abstractmethod
    def understands(self, url: str, headers: Mapping[str, str], body: bytes) -> ReadRequest:
        """What the provider understands of a request, once its published types have taken it."""
