"""The order of an answer's blocks, stored where the model thought before it answered.

Anthropic requires its thinking back with the calls that it led to, unchanged and in its place
("Extended thinking", "Preserving thinking blocks"). A run stores an answer as one text and its
calls; beside it, as the answer's `providerData`, is a list of the thinking blocks as they are, and
of `{"type": "text", "characters"}` and `{"type": "tool_use"}` for the blocks between them.
"""

from itertools import islice
from typing import Any

from holdfast.providers.streamed_answer import MAX_PROVIDER_DATA_BYTES, BoundedText, well_formed

Block = dict[str, Any]


class ThinkingBlock:
    """A thinking block while it is streamed."""

    def __init__(self, block: Block) -> None:
        # A solution stores no longer data than that, so the rest is never sent back.
        self._thinking = BoundedText(MAX_PROVIDER_DATA_BYTES)
        self._signature = BoundedText(MAX_PROVIDER_DATA_BYTES)
        self.add(block)

    def add(self, piece: Block) -> None:
        """Add a piece of the thinking, or of its signature."""
        for name, text in (("thinking", self._thinking), ("signature", self._signature)):
            if isinstance(piece.get(name), str):
                text.add(piece[name])

    def block(self) -> Block | None:
        """Return the block, if it is signed: no other is accepted back."""
        signature = str(self._signature)
        block = {"type": "thinking", "thinking": str(self._thinking), "signature": signature}
        return block if signature else None


class BlockOrder:
    """Records the order of an answer's texts, calls and thinking."""

    def __init__(self) -> None:
        self._items: list[Block | ThinkingBlock] = []

    def add_text(self, piece: str) -> None:
        """Add a piece of text."""
        last = self._items[-1] if self._items else None
        if isinstance(last, dict) and last["type"] == "text":
            last["characters"] += len(piece)
        else:
            self._items.append({"type": "text", "characters": len(piece)})

    def add_call(self) -> None:
        """Add a call."""
        self._items.append({"type": "tool_use"})

    def add_thinking(self, block: Block) -> ThinkingBlock:
        """Add the beginning of a thinking block."""
        thinking = ThinkingBlock(block)
        self._items.append(thinking)
        return thinking

    def add_redacted_thinking(self, data: str) -> None:
        """Add a thinking block that only Anthropic can read."""
        self._items.append({"type": "redacted_thinking", "data": well_formed(data)})

    def data(self) -> list[Block] | None:
        """Return the data to store beside the answer; None without thinking."""
        items = [each.block() if isinstance(each, ThinkingBlock) else each for each in self._items]
        blocks = [each for each in items if each is not None]
        return blocks if any("thinking" in each["type"] for each in blocks) else None


def in_order(data: Any, text: str, calls: list[Block]) -> list[Block]:
    """Return an answer's text and calls as blocks, the thinking in its place."""
    blocks: list[Block] = []
    remaining = iter(calls)
    for item in data if isinstance(data, list) else ():
        match item:
            case {"type": "text", "characters": int(length)}:
                blocks += texts(text[:length])
                text = text[length:]
            case {"type": "tool_use"}:
                blocks += islice(remaining, 1)
            case {"type": "thinking", "thinking": str(), "signature": str()}:
                blocks.append(item)
            case {"type": "redacted_thinking", "data": str()}:
                blocks.append(item)
    return [*blocks, *texts(text), *remaining]


def texts(text: str) -> list[Block]:
    """Return the text as a block; a text of only spaces is rejected, so it gives none."""
    return [{"type": "text", "text": text}] if text.strip() else []
