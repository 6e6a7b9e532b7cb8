"""The order of an answer's parts, stored where the model signed one of them.

Gemini signs parts of its answers, and requires each signature back with the very part that it came
with; without that of the first call of an answer, Gemini 3 rejects the request ("Thought
signatures"). A run stores an answer as one text and its calls; beside it, as the answer's
`providerData`, is a list of `{"type": "text", "characters"}` and `{"type": "call"}`, the signed
ones with their `signature`.
"""

from typing import Any

# Replaces a signature where there is none ("Thought signatures", the first of the FAQs).
UNSIGNED = "skip_thought_signature_validator"

Part = dict[str, Any]


class PartOrder:
    """Records the order of an answer's texts and calls, and their signatures."""

    def __init__(self) -> None:
        self._items: list[Part] = []

    def add_text(self, piece: str, signature: str) -> None:
        """Add a text, or a piece of one; a signed one is never joined with another."""
        last = self._items[-1] if self._items else {}
        if not signature and last.get("type") == "text" and "signature" not in last:
            last["characters"] += len(piece)
        elif piece or signature:
            self._add({"type": "text", "characters": len(piece)}, signature)

    def add_call(self, signature: str) -> None:
        """Add a call."""
        self._add({"type": "call"}, signature)

    def data(self) -> list[Part] | None:
        """Return the data to store beside the answer; None without a signature."""
        return self._items if any("signature" in item for item in self._items) else None

    def _add(self, item: Part, signature: str) -> None:
        self._items.append(item | {"signature": signature} if signature else item)


def in_order(data: Any, text: str, calls: list[Part]) -> list[Part]:
    """Return an answer's text and calls as parts, in the order and with the signatures of `data`.

    Without any signature, the first call is marked as unsigned: the signature was lost, or the
    model signs nothing.
    """
    parts: list[Part] = []
    remaining = iter(calls)
    for item in data if isinstance(data, list) else ():
        match item:
            case {"type": "text", "characters": int(length)}:
                parts += _signed({"text": text[:length]}, item)
                text = text[length:]
            case {"type": "call"}:
                parts += _signed(next(remaining, None), item)
    parts += [{"text": text}] if text else []
    parts += remaining
    first = next((index for index, part in enumerate(parts) if "functionCall" in part), None)
    if first is not None and not any("thoughtSignature" in part for part in parts):
        parts[first] = parts[first] | {"thoughtSignature": UNSIGNED}
    return parts


def _signed(part: Part | None, item: Part) -> list[Part]:
    """Return the part with its signature; an empty text without one is left out."""
    signature = item.get("signature")
    if part is None or (part.get("text") == "" and not signature):
        return []
    return [part | {"thoughtSignature": signature} if isinstance(signature, str) else part]
