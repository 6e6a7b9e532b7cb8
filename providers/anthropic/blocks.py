"""The blocks of an answer in their order, kept where the model thought before it spoke.

Anthropic wants its thoughts back with the calls that they led to, unchanged and where they stood
("Extended thinking", "Preserving thinking blocks"). A run keeps an answer as one text and its
calls; what is kept beside it, as the answer's `providerData`, is a list of the thoughts as they
are, and of `{"type": "text", "characters"}` and `{"type": "tool_use"}` for what stood between them.
"""

from itertools import islice
from typing import Any

from holdfast.providers.answer_limits import MAX_PROVIDER_DATA_BYTES
from holdfast.providers.streamed_answer import BoundedText, well_formed

Block = dict[str, Any]


class ThinkingBlock:
    """A thought while it is being told."""

    def __init__(self, block: Block) -> None:
        # What goes beyond this is never sent: a solution keeps no longer data than that.
        self._thinking = BoundedText(MAX_PROVIDER_DATA_BYTES)
        self._signature = BoundedText(MAX_PROVIDER_DATA_BYTES)
        self.add(block)

    def add(self, piece: Block) -> None:
        """More of the thought, or of its signature."""
        for name, kept in (("thinking", self._thinking), ("signature", self._signature)):
            if isinstance(piece.get(name), str):
                kept.add(piece[name])

    def block(self) -> Block | None:
        """The thought, if it is signed: no other is taken back."""
        signature = str(self._signature)
        thought = {"type": "thinking", "thinking": str(self._thinking), "signature": signature}
        return thought if signature else None


class BlockOrder:
    """In which order an answer's texts, calls and thoughts came."""

    def __init__(self) -> None:
        self._items: list[Block | ThinkingBlock] = []

    def text(self, piece: str) -> None:
        """A piece of text."""
        last = self._items[-1] if self._items else None
        if isinstance(last, dict) and last["type"] == "text":
            last["characters"] += len(piece)
        else:
            self._items.append({"type": "text", "characters": len(piece)})

    def call(self) -> None:
        """A call."""
        self._items.append({"type": "tool_use"})

    def thought(self, block: Block) -> ThinkingBlock:
        """The beginning of a thought."""
        thought = ThinkingBlock(block)
        self._items.append(thought)
        return thought

    def hidden(self, data: str) -> None:
        """A thought that nobody but Anthropic can read."""
        self._items.append({"type": "redacted_thinking", "data": well_formed(data)})

    def data(self) -> list[Block] | None:
        """What is kept beside the answer; None where there were no thoughts."""
        told = [each.block() if isinstance(each, ThinkingBlock) else each for each in self._items]
        kept = [each for each in told if each is not None]
        thoughts = [each for each in kept if "thinking" in each["type"]]
        return kept if thoughts else None


def in_order(data: Any, text: str, calls: list[Block]) -> list[Block]:
    """An answer's text and calls as blocks, with the thoughts where they stood."""
    blocks: list[Block] = []
    waiting = iter(calls)
    for item in data if isinstance(data, list) else ():
        match item:
            case {"type": "text", "characters": int(length)}:
                blocks += texts(text[:length])
                text = text[length:]
            case {"type": "tool_use"}:
                blocks += islice(waiting, 1)
            case {"type": "thinking", "thinking": str(), "signature": str()}:
                blocks.append(item)
            case {"type": "redacted_thinking", "data": str()}:
                blocks.append(item)
    return [*blocks, *texts(text), *waiting]


def texts(text: str) -> list[Block]:
    """The text as a block. Texts of nothing but spaces are refused, so of such there is none."""
    return [{"type": "text", "text": text}] if text.strip() else []
