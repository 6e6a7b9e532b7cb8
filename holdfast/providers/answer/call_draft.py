"""One call while it is streamed: its pieces, its wholes, and the arguments that both make.

Servers send a call's arguments in pieces, as a whole, or both; a whole may come before the pieces,
behind them, and more than once. No call may have arguments that were not sent, so:

- An empty text or object beside other arguments is no statement: many servers open a call with it.
- A whole that the pieces are the beginning of is the arguments: it fills what they left out.
- A whole that differs from the pieces, or from another whole, is a contradiction: no one knows
  which of both the model wrote, so the answer is of no use.
- A call for which nothing arrived has no arguments. Only the run knows whether its tool has
  parameters: if so, the call was cut off.
"""

import json
import re
from typing import Any

from holdfast.providers.answer.bounded_text import BoundedText, well_formed
from holdfast.schemas.base import canonical_json, is_deeper, parsed_or_none
from holdfast.schemas.internal.solution import WrittenCall
from holdfast.validation.lenient_json import unique_keys

MAX_ARGUMENTS_BYTES = 256 * 1024
MAX_NAME_CHARACTERS = 256
# Gateways keep a signature of the call in its id, which must come back as it is.
MAX_ID_CHARACTERS = 4_096
# JSON parsers have different limits of depth; the lowest that we know is 200.
MAX_ARGUMENTS_DEPTH = 100

_SPACE = re.compile(r"\s+")


class CallDraft:
    """A call while it is streamed. `index` is its position in the answer, from 0.

    `name` is as the provider knows it.
    """

    def __init__(self, index: int, name: str, provider_id: str | None) -> None:
        self.index = index
        self.name = ""
        self.provider_id: str | None = None
        self.identify(provider_id, name)
        self._pieces = BoundedText(MAX_ARGUMENTS_BYTES)
        self._whole = BoundedText(MAX_ARGUMENTS_BYTES)
        # A whole stated that there are no arguments; or differed from the first one.
        self._is_stated_empty = self._has_other_whole = False

    def identify(self, provider_id: str | None, name: str) -> None:
        """Take the id and the name, each if the call has none; a very long id is not kept."""
        if provider_id and len(provider_id) <= MAX_ID_CHARACTERS:
            self.provider_id = self.provider_id or provider_id
        self.name = self.name or name[:MAX_NAME_CHARACTERS]

    def add_piece(self, piece: str) -> None:
        """Receive more of the arguments' text; an empty one means that there are none so far."""
        self._pieces.add(piece)

    def add_whole(self, value: Any, *, is_begin: bool = False) -> str:
        """Receive the whole arguments, a text or an object, and return what is new of its text.

        An empty text or None is no statement, nor is an empty object at the begin of a call.
        """
        text = "" if value is None else arguments_text(value)
        if not _compact(text):
            self._is_stated_empty |= bool(text) and not is_begin
            return ""
        if self._whole.bytes:
            self._has_other_whole |= not _is_same(self._whole.as_json(), text)
            return ""
        self._whole.add(text)
        return "" if self.has_pieces else text

    @property
    def text(self) -> str:
        return self._whole.as_json() or self._pieces.as_json()

    @property
    def has_pieces(self) -> bool:
        return self._pieces.bytes > 0

    @property
    def has_arguments(self) -> bool:
        """Report whether arguments have arrived, or the statement that there are none."""
        return self.has_pieces or self._whole.bytes > 0 or self._is_stated_empty

    @property
    def _has_arrived(self) -> bool:
        """Report whether anything has arrived in the place of arguments, if only an empty piece."""
        return self.has_arguments or bool(self._pieces.pieces)

    @property
    def is_empty(self) -> bool:
        """Report whether the call has neither a name nor arguments: it is none."""
        return not self.name and not _compact(self.text)

    @property
    def is_whole(self) -> bool:
        if self._whole.bytes or not self.has_pieces:
            return self.has_arguments
        last = next((piece for piece in reversed(self._pieces.pieces) if piece.strip()), "")
        if not last.rstrip().endswith("}"):
            return False  # they rarely are, and parsing them after each piece takes long
        return isinstance(parsed_or_none(str(self._pieces)), dict)

    def equals(self, name: str, arguments: Any) -> bool:
        is_same = _is_same(self.text, arguments_text(arguments or ""))
        return self.name in ("", name) and self._has_arrived and is_same

    def can_equal(self, name: str, arguments: Any) -> bool:
        """Report whether the call may be of this tool with these arguments, one of them cut off."""
        one, other = self.text, arguments_text(arguments or "")
        return self.name in ("", name) and (_is_begin(one, other) or _is_begin(other, one))

    def may_have_id(self, provider_id: str | None) -> bool:
        """Report whether the call has this id, or one of both is unknown."""
        return not (self.provider_id and provider_id) or self.provider_id == provider_id

    def take_arguments(self, other: "CallDraft") -> None:
        """Take the arguments that arrived at another place of the answer."""
        self._pieces, self._whole = other._pieces, other._whole

    def written(self, tool: str, *, is_cut: bool) -> WrittenCall | None:
        """Return the call, of `tool`, as the model wrote it; None if it came twice, and differs.

        In an answer that `is_cut`, an empty piece is no statement: arguments may have followed.
        """
        pieces, whole = self._pieces, self._whole
        call = WrittenCall(
            provider_id=well_formed(self.provider_id) if self.provider_id else None,
            tool=well_formed(tool),
        )
        if pieces.is_over or whole.is_over:
            oversize = max(pieces.bytes, whole.bytes)
            return call.model_copy(update={"oversize_bytes": oversize})
        differs = whole.bytes > 0 and not _is_begin(pieces.as_json(), whole.as_json())
        if differs or self._has_other_whole:
            return None
        has_arrived = self.has_arguments if is_cut else self._has_arrived
        arguments = parse_arguments(self.text) if has_arrived else None
        return call.model_copy(update={"arguments": arguments})


def arguments_text(arguments: Any) -> str:
    """Return the text of arguments, which some formats and servers send as an object."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def parse_arguments(text: str) -> dict[str, Any] | str:
    """Return the object that a text of arguments is; that of an empty one is empty.

    Some gateways send an empty object first, or the same object again: both add nothing. A
    text that is no JSON object, or that parsing would change, is returned: the run reads it.
    """
    place, objects = 0, []
    try:
        while place < len(text):
            if text[place].isspace():
                place += 1
                continue
            value, place = _DECODER.raw_decode(text, place)
            objects.append(value)
        # A number such as NaN or 1e999 is an error, and so is half of a surrogate pair.
        json.dumps(objects, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return text
    stated = [each for each in objects if each != {}] or [{}]
    is_one = len({canonical_json(each) for each in stated}) == 1
    fits = is_one and isinstance(stated[0], dict) and not is_deeper(stated[0], MAX_ARGUMENTS_DEPTH)
    return stated[0] if fits else text


def _as_written(digits: str) -> float:
    if repr(number := float(digits)) != digits:
        raise ValueError(f"{digits} would become {number}")
    return number


_DECODER = json.JSONDecoder(parse_float=_as_written, object_pairs_hook=unique_keys)


def _compact(text: str) -> str:
    """Return a text of arguments without white space, and without an empty object before them."""
    return _SPACE.sub("", text).removeprefix("{}")


def _is_same(one: str, other: str) -> bool:
    match parse_arguments(one), parse_arguments(other):
        case dict() as first, dict() as second:
            return canonical_json(first) == canonical_json(second)
        case str(), str():
            return one.strip() == other.strip()
    return False


def _is_begin(text: str, whole: str) -> bool:
    """Report whether a text of arguments is the beginning of another one, or the same."""
    if isinstance(parse_arguments(text), dict):
        return not _compact(text) or _is_same(text, whole)
    return _compact(whole).startswith(_compact(text))
