"""The buttons that change the fields of a form; they need no script.

The form is submitted, changed, and shown again with all input.
"""

from dataclasses import replace
from typing import Any, Final

from holdfast.runtime.narration.schema_shape import ShapeReader
from holdfast.runtime.text_safety import one_line
from holdfast.web.forms.field_builder import build_fields
from holdfast.web.forms.form_values import (
    MISSING,
    EditNotice,
    FormValue,
    Place,
    UnreadableText,
    start_value,
)

_VALUE_CHARS: Final = 100


def apply_action(
    form: FormValue, action: str, schema: Any, key: str = "", place: Place = ()
) -> FormValue:
    """Return the value of a form after a button; an unknown button changes nothing.

    `action` is the button's: `add:/items`, `drop:/items/2`, `make:/address`, `null:/address`,
    `key:/labels` with the property's name as `key`, `branch:/payment:1`.
    """
    fields = build_fields(schema, form, place=place).walk()
    found = next((one for one in fields if action in one.actions), None)
    if found is None:
        return form
    inner, shapes, value = found.place[len(place) :], ShapeReader(schema), found.value
    notice_place, branches, new = inner, form.branches, value
    match action.partition(":")[0]:
        case "drop":
            new = MISSING
            if isinstance(value, UnreadableText):
                text = one_line(value.text, _VALUE_CHARS)
            else:
                is_empty = value == "" or found.children
                text = "" if is_empty else one_line(found.display_text, _VALUE_CHARS)
            is_item = isinstance(found.place[-1], int)
            notice = f"Removed entry {found.key}" if is_item else f"Omitted “{found.label}”"
            notice += f": {text}" if text else "."
        case "null":
            new, notice = None, f"“{found.label}” is now null."
        case "make":
            new, notice = start_value(found.shape, shapes), f"Added “{found.label}”: fill it in."
        case "add":
            new = [*value, _new_value(found.shape.item_schema(len(value)), shapes)]
            notice_place, notice = (*inner, len(value)), f"Added entry {len(new)}."
        case "branch":
            number = int(action.rpartition(":")[2])
            shape = found.alternatives[number]
            new = start_value(shape, shapes)
            if isinstance(new, dict) and isinstance(value, dict):
                # The properties that both schemas have stay.
                same = {name: one for name, one in value.items() if name in shape.properties}
                new = {**same, **new}
            others = {at: one for at, one in branches.items() if at[: len(inner)] != inner}
            branches = {**others, inner: number}
            notice = f"“{found.label}” is now: {found.branches[number].label}."
        case _ if not key or key in value:
            why = "a property of that name exists." if key else "enter a name first."
            text = f"Nothing was added: {why}"
            return replace(form, notice=EditNotice(inner, text, after_children=True))
        case _:
            new = {**value, key: _new_value(found.shape.property_schema(key), shapes)}
            notice_place, notice = (*inner, key), f"Added “{one_line(key, _VALUE_CHARS)}”."
    return FormValue(_put(form.value, inner, new), branches, EditNotice(notice_place, notice))


def _put(value: Any, place: Place, new: Any) -> Any:
    if not place:
        return new
    step, *rest = place
    parts = dict(enumerate(value) if isinstance(value, list) else value)
    parts[step] = _put(parts.get(step, MISSING), tuple(rest), new)
    if parts[step] is MISSING:
        del parts[step]
    return [*parts.values()] if isinstance(value, list) else parts


def _new_value(schema: Any, shapes: ShapeReader) -> Any:
    """Return a new item or property: empty, but present."""
    shape = shapes.read(schema)
    value = start_value(shape, shapes)
    if value is not MISSING:
        return value
    if shape.choices:
        return UnreadableText("", "pick")
    if shape.kinds and "string" not in shape.kinds:
        return UnreadableText("", "number" if {"number", "integer"} & set(shape.kinds) else "json")
    return ""
