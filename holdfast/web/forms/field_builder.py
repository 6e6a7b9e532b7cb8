"""Build the fields of a form, or of a read-only view, from a value and its schema.

Every part of the value has a field, even if the schema does not mention it; a value without a
suitable control is shown as JSON. A form has at most `MAX_FIELDS` fields: the rest of a value is
JSON, too. The run checks a form by the same rules, so a value that passes here passes there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

from holdfast.runtime.narration import schema_shape
from holdfast.runtime.narration.arguments import readable_name
from holdfast.runtime.text_safety import one_line
from holdfast.validation.schema_node import bounded
from holdfast.validation.validator import Violation, violations
from holdfast.web.forms import fields, form_values

MAX_FIELDS: Final = 200
MAX_DEPTH: Final = 8
MAX_ITEMS: Final = 100
# At most this number of parts have a field each, if there is room for the whole value.
FEW: Final = 10


class _FieldBuilder:
    """Builds the fields of one form.

    `place` is the place of its value among others; `prefix` keeps the ids of its elements apart
    from those of other forms of the page.
    """

    def __init__(
        self,
        schema: Any,
        form: form_values.FormValue,
        place: form_values.Place,
        prefix: str,
        room: int,
    ) -> None:
        self.shapes = schema_shape.ShapeReader(schema)
        self._form = form
        self._place = place
        self._prefix = prefix
        self._ids = count(1)
        self._room = room
        self._used = 0

    def field(
        self, schema: Any, value: Any, place: form_values.Place, label: str, *, required: bool
    ) -> fields.Field:
        """Return the field of a value at a place in the form."""
        shape = self.shapes.read(schema)
        self._used += 1
        drawn = fields.Field(
            id=f"{self._prefix}{next(self._ids)}",
            place=(*self._place, *place),
            control="line",
            label=shape.title or one_line(label, fields.LABEL_CHARS) or "(no name)",
            value=value,
            shape=shape,
            required=required,
            hint=schema_shape.schema_hint(shape),
            limits=schema_shape.describe_limits(shape),
            doubt=schema_shape.describe_doubt(shape, value),
        )
        if isinstance(value, form_values.UnreadableText):
            return fields.set_unreadable(drawn, value)
        if self._used > self._room or len(place) > MAX_DEPTH:
            return fields.set_json(drawn)
        return self._set_control(drawn, place)

    def _set_control(self, drawn: fields.Field, place: form_values.Place) -> fields.Field:
        shape, value = drawn.shape, drawn.value
        if shape.branches:
            return self._set_branch(drawn, place)
        if shape.choices and not isinstance(value, dict | list):
            return fields.set_choices(drawn)
        is_container = "object" in shape.kinds or "array" in shape.kinds
        if is_container and (value is form_values.MISSING or value is None):
            return fields.set_absent(drawn)
        if not isinstance(value, dict | list):
            return fields.set_scalar(drawn)
        if isinstance(value, dict) and "object" in shape.kinds:
            parts: Sequence[Any] = [*dict.fromkeys((*shape.properties, *value))]
        elif isinstance(value, list) and "array" in shape.kinds and len(value) <= MAX_ITEMS:
            parts = value
        else:
            return fields.set_json(drawn)
        has_room = len(parts) <= FEW or self._used + len(parts) <= self._room
        return self._add_parts(drawn, place, parts) if has_room else fields.set_json(drawn)

    def _set_branch(self, drawn: fields.Field, place: form_values.Place) -> fields.Field:
        branches, number = drawn.shape.branches, self._form.branches.get(place)
        if number is None or number >= len(branches):
            # The schema with the fewest violations.
            root = self.shapes.root if isinstance(self.shapes.root, Mapping) else {}
            named = {key: root[key] for key in ("$defs", "definitions") if key in root}
            wrong = [len(violations(drawn.value, {**named, **one.rules})) for one in branches]
            number = wrong.index(min(wrong))
        label, nullable = drawn.label, drawn.shape.nullable or branches[number].nullable
        drawn.shape = replace(branches[number], nullable=nullable)
        drawn.alternatives, drawn.branch = branches, number
        drawn.branches = [
            fields.Button(
                f"branch:{form_values.pointer(drawn.place)}:{n}", one.title or f"form {n + 1}"
            )
            for n, one in enumerate(branches)
        ]
        drawn.limits = schema_shape.describe_limits(drawn.shape)
        self._set_control(drawn, place)
        drawn.label = label
        return drawn

    def _add_parts(
        self, drawn: fields.Field, place: form_values.Place, parts: Sequence[Any]
    ) -> fields.Field:
        """Add the properties of an object, by name, or the items of a list."""
        shape, value = drawn.shape, drawn.value
        drawn.control = "list" if isinstance(value, list) else "object"
        properties = set(shape.properties)
        for index, key in enumerate(parts):
            if isinstance(value, list):
                part = shape.item_schema(index), key, (*place, index), str(index + 1)
                one, drop = self.field(*part, required=True), f"Remove {index + 1}"
            else:
                named, label = (*place, key), readable_name(key) if key in properties else key
                part = shape.property_schema(key), value.get(key, form_values.MISSING), named, label
                one = self.field(*part, required=shape.requires(key))
                one.siblings = value
                drop = "" if key in properties else "Omit"
            if drop:
                one.buttons.append(fields.Button(f"drop:{form_values.pointer(one.place)}", drop))
            drawn.children.append(one)
        if isinstance(value, list) and len(value) < MAX_ITEMS:
            drawn.buttons.append(
                fields.Button(f"add:{form_values.pointer(drawn.place)}", "Add entry")
            )
        if not drawn.required:
            drawn.buttons.append(fields.Button(f"drop:{form_values.pointer(drawn.place)}", "Omit"))
        if shape.nullable:
            drawn.buttons.append(
                fields.Button(f"null:{form_values.pointer(drawn.place)}", "Set to null")
            )
        return drawn


def build_fields(
    schema: Any,
    form: form_values.FormValue,
    *,
    place: form_values.Place = (),
    prefix: str = "f",
    room: int = MAX_FIELDS,
    wrong: Sequence[Violation] = (),
    label: str = "",
) -> fields.Field:
    """Return the fields of a form, each with the violations of its value."""
    with bounded():
        builder = _FieldBuilder(schema, form, place, prefix, room)
        whole = builder.field(builder.shapes.root, form.value, (), label, required=True)
    for one in wrong:
        if one.said:
            _nearest(whole, one.place, len(place)).problems.append(one.said)
    if (notice := form.notice) is not None:
        found = _nearest(whole, notice.place, len(place))
        # The notice of a removed field is on the next one, or at the end.
        if notice.after_children or len(found.place) - len(place) < len(notice.place):
            found.notice_after = notice.text
        else:
            found.notice = notice.text
    return whole


def _nearest(whole: fields.Field, place: Sequence[Any], skip: int) -> fields.Field:
    """Return the field of a place, or the nearest one around it."""
    found = whole
    for depth in range(1, len(place) + 1):
        here = [*map(str, place[:depth])]
        inner = [one for one in found.children if [*map(str, one.place[skip:])] == here]
        if not inner:
            break
        found = inner[0]
    return found


def form_violations(value: Any, schema: Any) -> list[Violation]:
    """Return the violations of a value; where a text was not readable, those alone."""
    if unreadable := [Violation(place, "", "") for place in form_values.unreadable_places(value)]:
        return unreadable
    if value is form_values.MISSING:
        return [Violation((), "required", "Required.")]
    found = []
    for one in violations(value, schema):
        if one.keyword == "required":
            one = Violation((*one.place, one.rule), "required", "Required.")
        elif one.keyword == "format":
            need = schema_shape.FORMATS.get(one.rule, f"what fits the format {one.rule}")
            one = Violation(one.place, "format", f"Give {need}.")
        found.append(one)
    return found
