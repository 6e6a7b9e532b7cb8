"""What the buttons of a form do that give it other fields: they need no script.

The form is submitted, changed and drawn again, with all that was typed in it.
"""

from dataclasses import replace
from typing import Any, Final

from holdfast.runtime.text_safety import one_line
from holdfast.web.forms.control_names import MISSING, Done, Misread, Place, Said
from holdfast.web.forms.control_names import pointer as at
from holdfast.web.forms.field_builder import drawn
from holdfast.web.forms.fields import Field
from holdfast.web.forms.schema_shape import Shape, Shapes

_VALUE_CHARS: Final = 100
_MAX_STARTED: Final = 50
_MAX_STARTED_DEPTH: Final = 4


def changed(said: Said, does: str, schema: Any, key: str = "", place: Place = ()) -> Said:
    """What a form says once a button was pressed; one that means nothing changes nothing.

    `does` is the button's: `add:/items`, `drop:/items/2`, `make:/address`, `null:/address`,
    `key:/labels` with the property's name as `key`, `branch:/payment:1`.
    """
    verb, _, rest = does.partition(":")
    pointer, _, number = rest.partition(":")
    found = _offering(drawn(schema, said, place=place), does, pointer)
    if found is None:
        return said
    inner, shapes, name = found.place[len(place) :], Shapes(schema), found.label
    match verb:
        case "drop":
            return _with(said, inner, MISSING, Done(inner, _dropped(found)))
        case "null":
            return _with(said, inner, None, Done(inner, f"“{name}” is nothing (null) now."))
        case "make":
            begun = start(found.shape, shapes)
            return _with(said, inner, begun, Done(inner, f"Added “{name}”: fill it in here."))
        case "add":
            at_end, told = (*inner, len(found.value)), f"Added entry {len(found.value) + 1}."
            return _with(said, inner, _longer(found, shapes), Done(at_end, told))
        case "branch":
            return _turned(said, inner, found, int(number), shapes)
        case "key":
            return _named(said, inner, found, key, shapes)
    return said


def _with(said: Said, inner: Place, new: Any, done: Done) -> Said:
    return replace(said, value=_put(said.value, inner, new), done=done)


def _dropped(found: Field) -> str:
    """What was taken away, so that it can be told from its neighbours."""
    value, is_item = found.value, isinstance(found.place[-1], int)
    text = value.text if isinstance(value, Misread) else found.shown if value != "" else ""
    short = "" if found.inside else one_line(text, _VALUE_CHARS)
    what = f"Removed entry {found.key}" if is_item else f"Left out “{found.label}”"
    return f"{what}: {short}" if short else f"{what}."


def _named(said: Said, inner: Place, found: Field, key: str, shapes: Shapes) -> Said:
    """Another property, of a name that there is not."""
    if not key or key in found.value:
        why = "there is one of that name." if key else "write a name for it first."
        return replace(said, done=Done(inner, f"Nothing was added: {why}", behind=True))
    more = {**found.value, key: _fresh(found.shape.of_key(key), shapes)}
    told = f"Added “{one_line(key, _VALUE_CHARS)}”."
    return _with(said, inner, more, Done((*inner, key), told))


def _offering(whole: Field, does: str, pointer: str) -> Field | None:
    """The field that a form has such a button at."""
    for one in whole.all():
        buttons = {button.does for button in (*one.buttons, *one.branches)}
        if does in buttons or (one.grows and does == f"key:{pointer}" == f"key:{at(one.place)}"):
            return one
    return None


def _longer(found: Field, shapes: Shapes) -> Any:
    items = found.value
    return [*items, _fresh(found.shape.of_item(len(items)), shapes)]


def _turned(said: Said, inner: Place, found: Field, number: int, shapes: Shapes) -> Said:
    """Another of several schemas: what has a place in it stays."""
    shape = found.several[number]
    begun = start(shape, shapes)
    if isinstance(begun, dict) and isinstance(found.value, dict):
        kept = {key: value for key, value in found.value.items() if key in shape.properties}
        begun = {**kept, **begun}
    branches = {place: one for place, one in said.branches.items() if place[: len(inner)] != inner}
    done = Done(inner, f"“{found.label}” is now: {found.branches[number].label}.")
    return Said(_put(said.value, inner, begun), {**branches, inner: number}, done)


def _put(value: Any, place: Place, new: Any) -> Any:
    """The value with another one at a place."""
    if not place:
        return new
    step, *rest = place
    if isinstance(value, dict):
        inner = _put(value.get(str(step), MISSING), tuple(rest), new)
        others = {key: one for key, one in value.items() if key != str(step)}
        return others if inner is MISSING else {**value, str(step): inner}
    if isinstance(value, list) and str(step).isdecimal() and int(step) < len(value):
        inner = _put(value[int(step)], tuple(rest), new)
        return [
            inner if index == int(step) else one
            for index, one in enumerate(value)
            if index != int(step) or inner is not MISSING
        ]
    return value


def begun(schema: Any) -> Any:
    """What a form is for that has no value yet: its object or list, with what is needed in it."""
    shapes = Shapes(schema)
    shape = shapes.of(schema)
    holds = shape.branches or {"object", "array"} & set(shape.kinds)
    return start(shape, shapes) if holds else MISSING


def start(shape: Shape, shapes: Shapes, depth: int = 0) -> Any:
    """What a form begins with where there is nothing: what is fixed, and what is needed."""
    rules = shape.rules
    if "default" in rules:
        return rules["default"]
    if "const" in rules:
        return rules["const"]
    if shape.branches:
        return start(shape.branches[0], shapes, depth)
    if "object" in shape.kinds and depth < _MAX_STARTED_DEPTH:
        needed = [key for key in shape.properties if shape.needs(key)][:_MAX_STARTED]
        inside = {key: start(shapes.of(shape.of_key(key)), shapes, depth + 1) for key in needed}
        return {key: value for key, value in inside.items() if value is not MISSING}
    return [] if "array" in shape.kinds else MISSING


def _fresh(schema: Any, shapes: Shapes) -> Any:
    """A new item of a list, or a new property: empty, and there."""
    shape = shapes.of(schema)
    begun = start(shape, shapes)
    if begun is not MISSING:
        return begun
    if shape.choices:
        return Misread("", "pick")
    if shape.kinds and "string" not in shape.kinds:
        return Misread("", "number" if {"number", "integer"} & set(shape.kinds) else "json")
    return ""
