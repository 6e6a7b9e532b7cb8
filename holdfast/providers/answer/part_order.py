"""The order of an answer's parts, stored where the model's thoughts belong between them.

A run stores an answer as one text and its calls. Beside it, as the answer's `providerData`, is a
list of `{"type": "text", "characters"}`, an item for each call, and what must be sent back in its
place: Anthropic's thinking blocks, Gemini's signatures.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from holdfast.providers.answer.bounded_text import BoundedText, well_formed
from holdfast.providers.answer.call_draft import CallDraft
from holdfast.providers.contents import text_of
from holdfast.schemas.message import ChatMessage

Part = dict[str, Any]


class PartOrder:
    """Records the order of an answer's texts, calls and thoughts."""

    def __init__(self) -> None:
        self._items: list[Part] = []

    def add_text(self, piece: str, **signature: str) -> None:
        """Add a text, or a piece of one; a signed one is never joined with another."""
        length = len(well_formed(piece))
        last = self._items[-1] if self._items else {}
        if not signature and last.keys() == {"type", "characters"}:
            last["characters"] += length
        elif piece or signature:
            self.add("text", characters=length, **signature)

    def add(self, kind: str, **fields: Any) -> Part:
        """Add a part of another kind, and return it; a text in it may be one that still grows.

        That of a call has its draft, as `call`.
        """
        self._items.append({"type": kind, **fields})
        return self._items[-1]

    def items(self, calls: list[CallDraft]) -> list[Part]:
        """Return the data to store beside an answer with these calls."""
        return [
            {
                key: str(each) if isinstance(each, BoundedText) else each
                for key, each in one.items()
                if not isinstance(each, CallDraft)
            }
            for one in self._items
            if one.get("call") is None or one["call"] in calls
        ]


def in_order(
    message: ChatMessage, calls: list[Part], call_kind: str, others: tuple[str, ...] = ()
) -> Iterator[tuple[Part, Part | str]]:
    """Yield each item of an answer's data with its call, or its piece of the text; then the rest.

    Items of the `others` kinds come with an empty text.
    """
    data: Any = message.provider_data
    text, remaining = text_of(message.content), iter(calls)
    for item in data if isinstance(data, list) else ():
        match item:
            case {"type": "text", "characters": int(length)}:
                yield item, text[:length]
                text = text[length:]
            case {"type": kind} if kind == call_kind:
                yield from ((item, call) for call in islice(remaining, 1))
            case {"type": kind} if kind in others:
                yield item, ""
    yield {}, text
    yield from (({}, call) for call in remaining)
