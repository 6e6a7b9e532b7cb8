"""Make untrusted text safe for a page of Markdown.

Text of models, tools and callers is shown as text only: it creates no heading, no link and no
command, and hides nothing.

Temporal's UI sends a page to its renderer as part of an address, and a proxy rejects a long one. So
room is measured in the bytes of a text in that address. The renderer also replaces quotes, dashes
and fractions in prose: values that a person decides on are in code, which is shown unchanged.
"""

import json
import re
import string
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from holdfast.validation.text_safety import visible

MAX_ARGUMENTS_IN_LINE = 20
_LIST_ARGUMENTS_CHARACTERS = 90

_MARKS = re.compile(r"[\\`*_{}\[\]<>#|~^$&:!+]")
# The UI replaces these everywhere, in code too.
_PLACEHOLDER = re.compile(r"(?<={)(?=(?:namespace|workflowId|runId)})")
# A single word in backticks, which a generated sentence keeps as code.
_OUR_WORD = re.compile(r"((?<!`)`[a-z_]+`(?!`))")
_TICKS = re.compile(r"`+")
_IN_ADDRESS = (string.ascii_letters + string.digits + "-_.!~*'()").encode()
_LONGEST_NUMBER_CHARACTERS = 200
_BEGINS_JSON = '{["-0123456789tfnNI \t\n\r'  # with what Python's parser reads besides


def cost_bytes(text: str) -> int:
    """Return the bytes that the text has in an address."""
    written = text.encode("utf-8", "replace")
    return len(written) + 2 * len(written.translate(None, _IN_ADDRESS))


def one_line(text: str, most_characters: int) -> str:
    """Return the text in one line; the last character is `…` where it was cut."""
    line = " ".join(visible(text[: 8 * most_characters]).split())
    return line if len(line) <= most_characters else line[: most_characters - 1] + "…"


def prose(text: str, room_bytes: int) -> str:
    """Return untrusted words for a generated line, cut with `…` if they do not fit."""
    words = one_line(text, room_bytes)
    while (cost := cost_bytes(escaped := _MARKS.sub(_escaped, words))) > room_bytes:
        words = words[: len(words) * room_bytes // cost - 1].rstrip("…") + "…"
    return escaped


def own_sentence(text: str, room_bytes: int) -> str:
    """Return a generated sentence that may contain untrusted words.

    Like `prose`, but single words in backticks stay code: such a word is safe.
    """
    sentences: list[str] = []
    for number, part in enumerate(_OUR_WORD.split(one_line(text, room_bytes))):
        words = part if number % 2 else _MARKS.sub(_escaped, part)
        if (room_bytes := room_bytes - cost_bytes(words)) < 0:
            return "".join([*sentences, "…"])
        sentences.append(words)
    return "".join(sentences)


def code(text: str) -> str:
    """Return one line of code that shows the text exactly. The text cannot end it."""
    spans = []
    for piece in _PLACEHOLDER.split(visible(text).replace("\n", "\\n")):
        fence = "`" * (1 + max((len(ticks) for ticks in _TICKS.findall(piece)), default=0))
        pad = " " if piece.startswith("`") or piece.endswith("`") else ""
        spans.append(f"{fence}{pad}{piece}{pad}{fence}")
    return "<wbr>".join(spans)


def quoted(text: str, room_bytes: int) -> str:
    """Return untrusted words in one line of code, so that their end is visible."""
    words = one_line(text, room_bytes)
    piece = _fitting(words, room_bytes)
    return code(piece if piece == words else piece + "…")


def value_text(value: Any) -> str:
    """Return a value as text, quoted if it could be mistaken for another type."""
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    is_ambiguous = not value.strip() or (value != value.strip() and "\n" not in value)
    if len(value) > _LONGEST_NUMBER_CHARACTERS:
        is_ambiguous |= value.startswith(("[", "{", '"'))
    elif not is_ambiguous and value[0] in _BEGINS_JSON:
        with suppress(ValueError):
            json.loads(value)
            is_ambiguous = True
    return json.dumps(value, ensure_ascii=False) if is_ambiguous else value


def arguments_line(arguments: Mapping[str, Any], most_characters: int) -> str:
    """Return arguments in one line, as many as fit: `order_id=1042, amount=249.0`."""
    shown = (f"{name}={value_text(value)[:most_characters]}" for name, value in arguments.items())
    return one_line(", ".join(islice(shown, MAX_ARGUMENTS_IN_LINE)), most_characters)


def short_arguments(arguments: Mapping[str, Any]) -> str:
    return arguments_line(arguments, _LIST_ARGUMENTS_CHARACTERS)


def value_block(value: Any, room_bytes: int) -> tuple[str, bool]:
    """Return a value in one or more lines of code, and whether it is complete.

    Lines after the first begin with a bar, so that none looks like a generated line.
    """
    whole = value_text(value).rstrip("\n")
    text = visible(whole[:room_bytes])
    piece = _fitting(text, room_bytes)
    lines = [code(line) if line.strip() else "" for line in piece.split("\n")]
    left_out = len(whole[room_bytes:]) + len(text) - len(piece)
    if left_out:
        lines.append(f"**… {left_out} more characters are not shown here**")
    return ("<br>│ ".join(["", *lines]) if len(lines) > 1 else lines[0]), not left_out


def _escaped(mark: re.Match[str]) -> str:
    # The UI's renderer also escapes the character after an escaped backslash.
    return "&#92;" if mark.group() == "\\" else f"\\{mark.group()}"


def _fitting(text: str, room_bytes: int) -> str:
    piece = text[:room_bytes]
    while (cost := cost_bytes(piece.replace("\n", "``<br>│ "))) > room_bytes:
        piece = piece[: len(piece) * room_bytes // cost]
    return piece
