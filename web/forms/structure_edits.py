"""The buttons that change the fields of a form; they need no script.

The form is submitted, changed, and shown again with all input.
"""

from dataclasses import replace
from typing import Any, Final

from holdfast.runtime.text_safety import one_line
from holdfast.web.forms.field_builder import build_fields
from holdfast.web.forms.fields import Field
from holdfast.web.forms.form_values import MISSING, EditNotice, FormValue, Place, UnreadableText
from holdfast.web.forms.form_values import pointer as at
from holdfast.web.forms.schema_shape import ShapeReader, start_value

_VALUE_CHARS: Final = 100


def apply_action(
    said: FormValue, does: str, schema: Any, key: str = "", place: Place = ()
) -> FormValue:
    """Return the value of a form after a button; an unknown button changes nothing.

    `action` is the button's: `add:/items`, `drop:/items/2`, `make:/address`, `null:/address`,
    `key:/labels` with the property's name as `key`, `branch:/payment:1`.
    """
    verb, _, rest = does.partition(":")
    pointer, _, number = rest.partition(":")
    found = _offering(build_fields(schema, said, place=place), does, pointer)
    if found is None:
        return said
    inner, shapes, name = found.place[len(place) :], ShapeReader(schema), found.label
    match verb:
        case "drop":
            return _with(said, inner, MISSING, EditNotice(inner, _dropped(found)))
        case "null":
            return _with(said, inner, None, EditNotice(inner, f"“{name}” is now null."))
        case "make":
            begun = start_value(found.shape, shapes)
            return _with(said, inner, begun, EditNotice(inner, f"Added “{name}”: fill it in."))
        case "add":
            at_end, told = (*inner, len(found.value)), f"Added entry {len(found.value) + 1}."
            return _with(said, inner, _longer(found, shapes), EditNotice(at_end, told))
        case "branch":
            return _turned(said, inner, found, int(number), shapes)
        case "key":
            return _named(said, inner, found, key, shapes)
    return said


def _with(said: FormValue, inner: Place, new: Any, done: EditNotice) -> FormValue:
    return replace(said, value=_put(said.value, inner, new), notice=done)


def _dropped(found: Field) -> str:
    """Describe a removed value."""
    value, is_item = found.value, isinstance(found.place[-1], int)
    text = (
        value.text
        if isinstance(value, UnreadableText)
        else found.display_text
        if value != ""
        else ""
    )
    short = "" if found.children else one_line(text, _VALUE_CHARS)
    what = f"Removed entry {found.key}" if is_item else f"Omitted “{found.label}”"
    return f"{what}: {short}" if short else f"{what}."


def _named(said: FormValue, inner: Place, found: Field, key: str, shapes: ShapeReader) -> FormValue:
    """Add a property with a new name."""
    if not key or key in found.value:
        why = "a property of that name exists." if key else "enter a name first."
        return replace(
            said, notice=EditNotice(inner, f"Nothing was added: {why}", after_children=True)
        )
    more = {**found.value, key: _fresh(found.shape.property_schema(key), shapes)}
    told = f"Added “{one_line(key, _VALUE_CHARS)}”."
    return _with(said, inner, more, EditNotice((*inner, key), told))


def _offering(whole: Field, does: str, pointer: str) -> Field | None:
    """Return the field that has such a button."""
    for one in whole.walk():
        buttons = {button.action for button in (*one.buttons, *one.branches)}
        if does in buttons or (
            one.takes_properties and does == f"key:{pointer}" == f"key:{at(one.place)}"
        ):
            return one
    return None


def _longer(found: Field, shapes: ShapeReader) -> Any:
    items = found.value
    return [*items, _fresh(found.shape.item_schema(len(items)), shapes)]


def _turned(
    said: FormValue, inner: Place, found: Field, number: int, shapes: ShapeReader
) -> FormValue:
    """Select another schema, and keep the properties that it has too."""
    shape = found.alternatives[number]
    begun = start_value(shape, shapes)
    if isinstance(begun, dict) and isinstance(found.value, dict):
        kept = {key: value for key, value in found.value.items() if key in shape.properties}
        begun = {**kept, **begun}
    branches = {place: one for place, one in said.branches.items() if place[: len(inner)] != inner}
    done = EditNotice(inner, f"“{found.label}” is now: {found.branches[number].label}.")
    return FormValue(_put(said.value, inner, begun), {**branches, inner: number}, done)


def _put(value: Any, place: Place, new: Any) -> Any:
    """Return the value with another one at a place."""
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


def _fresh(schema: Any, shapes: ShapeReader) -> Any:
    """Return a new item or property: empty, but present."""
    shape = shapes.read(schema)
    begun = start_value(shape, shapes)
    if begun is not MISSING:
        return begun
    if shape.choices:
        return UnreadableText("", "pick")
    if shape.kinds and "string" not in shape.kinds:
        return UnreadableText("", "number" if {"number", "integer"} & set(shape.kinds) else "json")
    return ""
