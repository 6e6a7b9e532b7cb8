"""The parts of an answer in their order, kept where the model signed one of them.

Gemini signs parts of its answers, and wants each signature back with the very part that it came
with; without that of the first call of an answer, Gemini 3 refuses the request ("Thought
signatures"). A run keeps an answer as one text and its calls; what is kept beside it, as the
answer's `providerData`, is a list of `{"type": "text", "characters"}` and `{"type": "call"}`, those
that were signed with their `signature`.
"""

from typing import Any

# Takes the place of a signature where there is none ("Thought signatures", the first of the FAQs).
UNSIGNED = "skip_thought_signature_validator"

Part = dict[str, Any]


class PartOrder:
    """In which order an answer's texts and calls came, and what they were signed with."""

    def __init__(self) -> None:
        self._items: list[Part] = []

    def text(self, piece: str, signature: str) -> None:
        """A text, or a piece of one. A signed one is never joined with another."""
        last = self._items[-1] if self._items else {}
        if not signature and last.get("type") == "text" and "signature" not in last:
            last["characters"] += len(piece)
        elif piece or signature:
            self._add({"type": "text", "characters": len(piece)}, signature)

    def call(self, signature: str) -> None:
        """A call."""
        self._add({"type": "call"}, signature)

    def data(self) -> list[Part] | None:
        """What is kept beside the answer; None where nothing was signed."""
        return self._items if any("signature" in item for item in self._items) else None

    def _add(self, item: Part, signature: str) -> None:
        self._items.append(item | {"signature": signature} if signature else item)


def in_order(data: Any, text: str, calls: list[Part]) -> list[Part]:
    """An answer's text and calls as parts, in the order and with the signatures of `data`."""
    parts: list[Part] = []
    waiting = iter(calls)
    for item in data if isinstance(data, list) else ():
        match item:
            case {"type": "text", "characters": int(length)}:
                parts += _signed({"text": text[:length]}, item)
                text = text[length:]
            case {"type": "call"}:
                parts += _signed(next(waiting, None), item)
    parts += [{"text": text}] if text else []
    return _validated([*parts, *waiting])


def _signed(part: Part | None, item: Part) -> list[Part]:
    """The part with its signature. An empty text is one only if it is signed."""
    signature = item.get("signature")
    if part is None or (part.get("text") == "" and not signature):
        return []
    return [part | {"thoughtSignature": signature} if isinstance(signature, str) else part]


def _validated(parts: list[Part]) -> list[Part]:
    """The parts, the first call marked as one without a signature if nothing is signed: it was
    lost, or it is of a model that signs nothing."""
    first = next((index for index, part in enumerate(parts) if "functionCall" in part), None)
    if first is None or any("thoughtSignature" in part for part in parts):
        return parts
    marked = parts[first] | {"thoughtSignature": UNSIGNED}
    return [*parts[:first], marked, *parts[first + 1 :]]
