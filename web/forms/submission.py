"""From a submitted form to the value that it says.

What was shown and not touched comes back as the very same value: a number as it was written, a text
to the last space, what is left out left out, and null null.
"""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.schemas.base import MAX_JSON_DEPTH, is_deeper
from holdfast.web.forms.control_names import (
    BRANCH,
    GONE,
    KEY,
    KINDS,
    LIST,
    MEANT,
    MISSING,
    NULL,
    OBJECT,
    PICK,
    TEXT,
    Misread,
    Place,
    Said,
    steps,
)

# The place of an item in a list, as a form writes it.
_NUMBERED: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NO_NUMBER: Final = "Write a number in digits, such as 12 or 12.50."
# What stands for a value without a text in the control.
UNWRITTEN: Final[dict[str, Any]] = {"gone": MISSING, "null": None, "true": True, "false": False}


@dataclass
class _Node:
    """What the form says of one place."""

    said: dict[str, str] = field(default_factory=dict)
    inside: dict[str, "_Node"] = field(default_factory=dict)


class Form:
    """A form that was submitted: taken apart once, whatever number of values is read of it."""

    def __init__(self, items: Iterable[tuple[str, str]]) -> None:
        self._root = _tree(items)

    def said(self, within: Place = ()) -> Said:
        """What it says of the value at a place."""
        branches: dict[Place, int] = {}
        node = self._root
        for step in within:
            node = node.inside.get(str(step), _Node())
        return Said(_value(node, (), branches), branches)


def written_key(items: Iterable[tuple[str, str]], pointer: str) -> str:
    """The name that was typed for a property to be added at a pointer."""
    return next((text for key, text in items if key == f"{KEY}:{pointer}"), "").strip()


def _tree(items: Iterable[tuple[str, str]]) -> _Node:
    root = _Node()
    for key, text in items:
        kind, _, where = key.partition(":")
        found = steps(where)
        if kind not in KINDS or found is None or len(found) > MAX_JSON_DEPTH:
            continue  # no page has such a control
        node = root
        for step in found:
            node = node.inside.setdefault(step, _Node())
        # A browser sends every line end as two characters; none that is meant has them.
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
        return meant(said[TEXT], said.get(MEANT, "text"))
    if LIST in said:
        return _list(node, place, branches)
    if OBJECT in said:
        inside = ((key, _value(one, (*place, key), branches)) for key, one in node.inside.items())
        return {key: value for key, value in inside if value is not MISSING}
    return MISSING


def _list(node: _Node, place: Place, branches: dict[Place, int]) -> list[Any]:
    numbered = {int(key): one for key, one in node.inside.items() if _NUMBERED.fullmatch(key)}
    found = [_value(numbered[at], (*place, at), branches) for at in sorted(numbered)]
    return [Misread("", "pick", "Choose one.") if one is MISSING else one for one in found]


def _picked(text: str) -> Any:
    """One of the values that were offered, as JSON; empty where none was chosen."""
    return MISSING if text == "" else _json(text)


def meant(text: str, how: str) -> Any:
    """What a text means: `how` is a kind, or a value that needs no text, or the kind that something
    written has and the value where nothing is: `number/gone`."""
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
        return Misread(text, "number", "This is needed: write a number.")
    if not _NUMBER.fullmatch(text.strip()):
        return Misread(text, "number", _NO_NUMBER)
    return _parsed(text.strip(), "number", _NO_NUMBER)


def _json(text: str) -> Any:
    if not text.strip():
        return Misread(text, "json", "Write a value as JSON: a text in quotes, a number, null, …")
    return _parsed(text, "json", "This is no JSON")


def _parsed(text: str, kind: str, wrong: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_object)
        if is_deeper(value, MAX_JSON_DEPTH):
            return Misread(text, kind, f"At most {MAX_JSON_DEPTH} levels can stand in each other.")
        json.dumps(value, ensure_ascii=False).encode()
        if _is_infinite(value):
            return Misread(text, kind, "A number in it is too large.")
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        return Misread(text, kind, f"{wrong}: {error.msg} ({where}).")
    except UnicodeEncodeError:
        return Misread(text, kind, "Half a character in it cannot be sent.")
    except (ValueError, RecursionError) as error:
        return Misread(text, kind, f"{wrong}: {error}.")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{json.dumps(key)} stands twice in an object")
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
