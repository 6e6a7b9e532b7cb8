"""The names of a form's controls, and the values of a submitted form.

A control's name has its kind (`text`, `pick`, …) and the place of its value, so a form is read
without a schema, and values that the schema does not mention are kept. An untouched value is
returned exactly: a number as it was written, a text to the last space, an omitted one omitted.
"""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from holdfast.schemas.base import MAX_JSON_DEPTH, is_deeper

# The place of an item in a list, as a form writes it.
_NUMBERED: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NO_NUMBER: Final = "Enter a number in digits, such as 12 or 12.50."
Place = tuple[str | int, ...]
# The content of a control: a text; the kind of value that the text is; one of several values as
# JSON; an object, a list, no value or null; or the schema by which an object is shown.
TEXT: Final = "text"
MEANT: Final = "meant"
PICK: Final = "pick"
OBJECT: Final = "object"
LIST: Final = "list"
GONE: Final = "gone"
NULL: Final = "null"
BRANCH: Final = "branch"
# The entered name of an added property.
KEY: Final = "key"
KINDS: Final = (TEXT, MEANT, PICK, OBJECT, LIST, GONE, NULL, BRANCH, KEY)
# The submit buttons that change the fields of a form.
DO: Final = "do"


class Missing:
    """The absence of a value, such as an omitted property; null is a value."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


# The marks of values that have no text in the control.
UNWRITTEN: Final[dict[str, Any]] = {"gone": MISSING, "null": None, "true": True, "false": False}


@dataclass(frozen=True)
class UnreadableText:
    """An entered text that is not a value; it stays in its control.

    `problem` is empty if the text is new.
    """

    text: str
    kind: str
    problem: str = ""


@dataclass(frozen=True)
class EditNotice:
    """The effect of a button: a sentence and its place.

    `after_children`: the sentence is shown after the inner fields.
    """

    place: Place
    text: str
    after_children: bool = False


@dataclass(frozen=True)
class FormValue:
    """A value of a form, with an `UnreadableText` in place of each unreadable part.

    `branches` is the number of the selected schema of an object, by place.
    """

    value: Any
    branches: dict[Place, int]
    notice: EditNotice | None = None


def control_name(kind: str, place: Place) -> str:
    """Return the name of a control: `text:/order/items/0`."""
    return f"{kind}:{pointer(place)}"


def pointer(place: Place) -> str:
    """Return a place as plain letters, whatever its keys contain."""
    steps = (str(step).encode("utf-8", "surrogatepass") for step in place)
    return "".join(f"/{quote(step, safe='')}" for step in steps)


def pointer_steps(text: str) -> tuple[str, ...] | None:
    """Return the steps of a pointer; `None` for an invalid one."""
    found = text.split("/")[1:]
    try:
        return tuple(unquote_to_bytes(step).decode("utf-8", "surrogatepass") for step in found)
    except UnicodeDecodeError:
        return None


@dataclass
class _Node:
    said: dict[str, str] = field(default_factory=dict)
    inside: dict[str, "_Node"] = field(default_factory=dict)


class SubmittedForm:
    """A submitted form, parsed once."""

    def __init__(self, items: Iterable[tuple[str, str]]) -> None:
        self._root = _tree(items)

    def value_at(self, within: Place = ()) -> FormValue:
        """Return the value at a place."""
        branches: dict[Place, int] = {}
        node = self._root
        for step in within:
            node = node.inside.get(str(step), _Node())
        return FormValue(_value(node, (), branches), branches)


def typed_key(items: Iterable[tuple[str, str]], pointer: str) -> str:
    """Return the entered name of a property to add."""
    return next((text for key, text in items if key == f"{KEY}:{pointer}"), "").strip()


def _tree(items: Iterable[tuple[str, str]]) -> _Node:
    root = _Node()
    for key, text in items:
        kind, _, where = key.partition(":")
        found = pointer_steps(where)
        if kind not in KINDS or found is None or len(found) > MAX_JSON_DEPTH:
            continue  # pages have no such control
        node = root
        for step in found:
            node = node.inside.setdefault(step, _Node())
        # A browser sends every line end as two characters; no value of a form has a carriage
        # return.
        node.said[kind] = re.sub(r"\r\n?", "\n", text)
    return root


def _value(node: _Node, place: Place, branches: dict[Place, int]) -> Any:
    said = node.said
    if said.get(BRANCH, "").isdecimal():
        branches[place] = int(said[BRANCH][:3])
    if GONE in said:
        return MISSING
    if NULL in said:
        return None
    if PICK in said:
        return _picked(said[PICK])
    if TEXT in said:
        return parse_text(said[TEXT], said.get(MEANT, "text"))
    if LIST in said:
        return _list(node, place, branches)
    if OBJECT in said:
        inside = ((key, _value(one, (*place, key), branches)) for key, one in node.inside.items())
        return {key: value for key, value in inside if value is not MISSING}
    return MISSING


def _list(node: _Node, place: Place, branches: dict[Place, int]) -> list[Any]:
    numbered = {int(key): one for key, one in node.inside.items() if _NUMBERED.fullmatch(key)}
    found = [_value(numbered[at], (*place, at), branches) for at in sorted(numbered)]
    return [UnreadableText("", "pick", "Choose one.") if one is MISSING else one for one in found]


def _picked(text: str) -> Any:
    return MISSING if text == "" else _json(text)


def parse_text(text: str, how: str) -> Any:
    """Parse the text of a control.

    `how` is a kind of value, a value without a text, or both: `number/gone` is a number, or no
    value where the text is empty.
    """
    kind, _, empty = how.partition("/")
    if kind in UNWRITTEN:
        return UNWRITTEN[kind]
    if empty in UNWRITTEN and not text:
        return UNWRITTEN[empty]
    match kind:
        case "number":
            return _number(text)
        case "json":
            return _json(text)
        case _:
            return text


def _number(text: str) -> Any:
    if not text.strip():
        return UnreadableText(text, "number", "Required: enter a number.")
    if not _NUMBER.fullmatch(text.strip()):
        return UnreadableText(text, "number", _NO_NUMBER)
    return _parsed(text.strip(), "number", _NO_NUMBER)


def _json(text: str) -> Any:
    if not text.strip():
        return UnreadableText(text, "json", "Enter a JSON value: text in quotes, a number, null, …")
    return _parsed(text, "json", "Invalid JSON")


def _parsed(text: str, kind: str, wrong: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_object)
        if is_deeper(value, MAX_JSON_DEPTH):
            return UnreadableText(
                text, kind, f"At most {MAX_JSON_DEPTH} levels of nesting are allowed."
            )
        json.dumps(value, ensure_ascii=False).encode()
        if _is_infinite(value):
            return UnreadableText(text, kind, "A number is too large.")
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        return UnreadableText(text, kind, f"{wrong}: {error.msg} ({where}).")
    except UnicodeEncodeError:
        return UnreadableText(text, kind, "It contains half a character (an unpaired surrogate).")
    except (ValueError, RecursionError) as error:
        return UnreadableText(text, kind, f"{wrong}: {error}.")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{json.dumps(key)} is in the object twice")
        found[key] = value
    return found


def _is_infinite(value: Any) -> bool:
    match value:
        case float():
            return not math.isfinite(value)
        case dict():
            return any(map(_is_infinite, value.values()))
        case list():
            return any(map(_is_infinite, value))
        case _:
            return False
