"""The names of a form's controls, and the values of a submitted form.

A control's name has its kind (`text`, `pick`, …) and the place of its value, so a form is read
without a schema, and values that the schema does not mention are kept. An untouched value is
returned exactly: a number as it was written, a text to the last space, an omitted one omitted.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from holdfast.runtime.narration.schema_shapes import Shape, ShapeReader
from holdfast.runtime.narration.value_diff import MISSING, Place
from holdfast.schemas.base import MAX_JSON_DEPTH, canonical_json, is_deeper
from holdfast.validation.formats import format_words
from holdfast.validation.lenient_json import InexactNumber, exact_json
from holdfast.validation.validator import Violation, violations

# The place of an item in a list, as a form writes it.
_NUMBERED: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
# The parts of the first value of an empty form.
_MAX_INITIAL: Final = 50
_MAX_INITIAL_DEPTH: Final = 4
_INEXACT: Final = "A number is too large or too long: write 15 digits at most."
_NO_NUMBER: Final = "Enter a number in digits, such as 12 or 12.50."
# The content of a control: a text; the kind of value that the text is; one of several values as
# JSON; an object, a list, no value or null; or the schema by which an object is shown.
KINDS: Final = ("text", "meant", "pick", "object", "list", "gone", "null", "branch")
# The submit buttons that change the fields of a form.
DO: Final = "do"
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


def pointer(place: Place) -> str:
    """Return a place as plain letters, whatever its keys contain."""
    return "".join(f"/{quote(str(step), safe='', errors='surrogatepass')}" for step in place)


def unreadable_places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the places of the unreadable texts in a value."""
    match value:
        case UnreadableText():
            yield place
        case dict():
            for key, inner in value.items():
                yield from unreadable_places(inner, (*place, key))
        case list():
            for index, inner in enumerate(value):
                yield from unreadable_places(inner, (*place, index))


def is_same(typed: Any, given: Any) -> bool:
    """Report whether an entered value is readable and unchanged."""
    return is_plain(typed) and canonical_json(typed) == canonical_json(given)


def is_plain(value: Any) -> bool:
    """Report whether all of a value is readable and present."""
    return value is not MISSING and not [*unreadable_places(value)]


@dataclass
class _Node:
    texts: dict[str, str] = field(default_factory=dict)
    inside: dict[str, "_Node"] = field(default_factory=dict)

    def value(self, place: Place, branches: dict[Place, int]) -> Any:
        """Return the value of the controls at a place, and note the selected schemas."""
        texts = self.texts
        if texts.get("branch", "").isdecimal():
            branches[place] = int(texts["branch"][:3])
        if "gone" in texts:
            return MISSING
        if "null" in texts:
            return None
        if "pick" in texts:
            return _parse(texts["pick"], "json") if texts["pick"] else MISSING
        if "text" in texts:
            return parse_text(texts["text"], texts.get("meant", "text"))
        if "list" in texts:
            numbered = {
                int(key): one for key, one in self.inside.items() if _NUMBERED.fullmatch(key)
            }
            items = [numbered[at].value((*place, at), branches) for at in sorted(numbered)]
            unpicked = UnreadableText("", "pick", "Choose one.")
            return [unpicked if item is MISSING else item for item in items]
        if "object" in texts:
            parts = {key: one.value((*place, key), branches) for key, one in self.inside.items()}
            return {key: part for key, part in parts.items() if part is not MISSING}
        return MISSING


class SubmittedForm:
    """A submitted form, parsed once."""

    def __init__(self, items: Iterable[tuple[str, str]]) -> None:
        self._root = _Node()
        for name, text in items:
            kind, _, where = name.partition(":")
            try:
                found = where.split("/")[1:]
                steps = [unquote_to_bytes(step).decode("utf-8", "surrogatepass") for step in found]
            except UnicodeDecodeError:
                continue  # pages have no such control
            if kind not in KINDS or len(steps) > MAX_JSON_DEPTH:
                continue
            node = self._root
            for step in steps:
                node = node.inside.setdefault(step, _Node())
            # A browser sends every line end as two characters; no value of a form has a carriage
            # return.
            node.texts[kind] = re.sub(r"\r\n?", "\n", text)

    def value_at(self, within: Place = ()) -> FormValue:
        """Return the value at a place."""
        branches: dict[Place, int] = {}
        node = self._root
        for step in within:
            node = node.inside.get(str(step), _Node())
        return FormValue(node.value((), branches), branches)


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
    return _parse(text, kind) if kind in ("number", "json") else text


def _parse(text: str, kind: str) -> Any:
    """Return the number or the JSON value of a text, or why it is unreadable."""
    written = text.strip()
    try:
        if kind == "number" and not _NUMBER.fullmatch(written):
            problem = _NO_NUMBER if written else "Required: enter a number."
        elif not written:
            problem = "Enter a JSON value: text in quotes, a number, null, …"
        elif is_deeper(value := exact_json(written if kind == "number" else text), MAX_JSON_DEPTH):
            problem = f"At most {MAX_JSON_DEPTH} levels of nesting are allowed."
        else:
            json.dumps(value, ensure_ascii=False).encode()
            return value
    except InexactNumber:
        problem = _INEXACT
    except UnicodeEncodeError:
        problem = "It contains half a character (an unpaired surrogate)."
    except json.JSONDecodeError as error:
        problem = f"Invalid JSON: {error.msg} (line {error.lineno}, column {error.colno})."
    except (ValueError, RecursionError) as error:
        problem = f"Invalid JSON: {error}."
    return UnreadableText(text, kind, problem)


def initial_value(schema: Any) -> Any:
    """Return the first value of an empty form: its object or list, with what is required."""
    shapes = ShapeReader(schema)
    shape = shapes.read(schema)
    holds = shape.branches or {"object", "array"} & set(shape.kinds)
    return start_value(shape, shapes) if holds else MISSING


def start_value(shape: Shape, shapes: ShapeReader, depth: int = 0) -> Any:
    """Return the first value for a shape: its default, its constant, or what is required."""
    rules = shape.rules
    if "default" in rules:
        return rules["default"]
    if "const" in rules:
        return rules["const"]
    if shape.branches:
        return start_value(shape.branches[0], shapes, depth)
    if "object" in shape.kinds and depth < _MAX_INITIAL_DEPTH:
        needed = [*filter(shape.requires, shape.properties)][:_MAX_INITIAL]
        return {
            key: value
            for key in needed
            if (value := start_value(shapes.read(shape.property_schema(key)), shapes, depth + 1))
            is not MISSING
        }
    return [] if "array" in shape.kinds else MISSING


def form_violations(value: Any, schema: Any) -> list[Violation]:
    """Return the violations of a value; where a text was not readable, those alone."""
    if unreadable := [Violation(place, "", "") for place in unreadable_places(value)]:
        return unreadable
    if value is MISSING:
        return [Violation((), "required", "Required.")]
    found = []
    for one in violations(value, schema):
        if one.keyword == "required":
            one = Violation((*one.place, one.rule), "required", "Required.")
        elif one.keyword == "format":
            need = format_words(one.rule) or f"what fits the format {one.rule}"
            one = Violation(one.place, "format", f"Give {need}.")
        found.append(one)
    return found
