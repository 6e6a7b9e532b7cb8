"""What each provider's format is tested by: how its server talks, and what is understood of us.

A wire writes the answers of a provider's server, and reads our requests, both by the types that
the provider itself publishes. So one test for each promise holds for all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.internal.solution import StopReason, Usage

PICTURE = "iVBORw0KGgo="


@dataclass(frozen=True)
class Result:
    """The result of a call in a request: the name that the tool was sent under, its text, and
    whether the format's own mark says that it is an error."""

    tool: str
    text: str
    marked: bool = False


@dataclass(frozen=True)
class Seen:
    """What a provider understands of a request.

    `results` stand behind the calls that they belong to, each under the id or in the place that
    the format asks for. `choice` is `auto`, `none`, `required`, a tool's name, or None for nothing
    said. `output` is the schema of a structured answer.
    """

    instructions: str
    texts: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    choice: str | None = None
    output: Any = None


class Wire(Protocol):
    """A provider, from its server's side.

    `usage` is what `says` reports. `choices` say what becomes of each tool choice where the tools
    `rag.query` and `refund` are offered and `refund` is the one named: the tools that are offered
    in the request, and its choice. `marks_errors`: a result can be marked as an error.
    `partial`: arguments come in pieces. `lacks_tools` is how a server without tools refuses them.
    """

    format: ProviderFormat
    base_url: str
    usage: Usage
    choices: Mapping[str, tuple[list[str], str | None]]
    marks_errors: bool
    partial: bool
    lacks_tools: tuple[int, bytes]

    @property
    def hi(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """The events of the text "Hi": others can be between the two parts."""

    @property
    def stop_reasons(self) -> Mapping[str, tuple[StopReason, int]]:
        """By a reason of the provider, our reason, and the number of notices."""

    @property
    def ignored(self) -> Sequence[Any]:
        """Events that are ignored within an answer."""

    @property
    def stream_errors(self) -> Sequence[tuple[Any, int, str]]:
        """Events that are errors, each with its status and message."""

    @property
    def foreign(self) -> Sequence[bytes]:
        """Bodies of another format."""

    @property
    def truncated(self) -> Sequence[bytes]:
        """Bodies without their ends."""

    @property
    def whole(self) -> bytes:
        """An answer without a stream: "One moment." and the call `refund` with {"n": 1}."""

    @property
    def uncounted(self) -> Sequence[Any]:
        """The events of an answer whose usage is absent or unreadable."""

    def events(self, *events: Any) -> bytes:
        """Events as a stream, not checked by the provider's types."""

    def stops(self, reason: str) -> bytes:
        """A whole answer that stopped for this reason."""

    def says(self, *pieces: str) -> bytes:
        """A whole answer: a text, in these pieces."""

    def calls(self, *calls: tuple[str, dict[str, Any]]) -> bytes:
        """A whole answer: calls of tools with their arguments."""

    def breaks_off(self, piece: str) -> bytes:
        """An answer that is cut after a piece of text, between two events."""

    def refuses(self, status: int, message: str) -> bytes:
        """The body of an answer that is an error."""

    def understands(self, url: str, headers: Mapping[str, str], body: bytes) -> Seen:
        """What the provider understands of a request, once its published types have taken it."""
