"""Build the fields of a form, or of a read-only view, from a value and its schema.

Every part of the value has a field, even if the schema does not mention it; a value without a
suitable control is shown as JSON. A form has at most `MAX_FIELDS` fields: the rest of a value is
JSON, too. The run checks a form by the same rules, so a value that passes here passes there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

from holdfast.runtime.text_safety import one_line
from holdfast.validation.validator import Violation, violations
from holdfast.validation.work_budget import bounded
from holdfast.web.forms.fields import (
    LABEL_CHARS,
    Button,
    Field,
    add_omit_buttons,
    set_absent,
    set_choices,
    set_json,
    set_scalar,
    set_unreadable,
)
from holdfast.web.forms.form_values import (
    MISSING,
    EditNotice,
    FormValue,
    Place,
    UnreadableText,
    pointer,
)
from holdfast.web.forms.schema_shape import (
    ShapeReader,
    describe_doubt,
    describe_limits,
    format_request,
    schema_hint,
)

MAX_FIELDS: Final = 200
MAX_DEPTH: Final = 8
MAX_ITEMS: Final = 100
# At most this number of parts have a field each, if there is room for the whole value.
FEW: Final = 10


class FieldBuilder:
    """Builds the fields of one form.

    `place` is the place of its value among others; `prefix` keeps the ids of its elements apart
    from those of other forms of the page.
    """

    def __init__(
        self,
        schema: Any,
        said: FormValue,
        *,
        place: Place = (),
        prefix: str = "f",
        room: int = MAX_FIELDS,
    ) -> None:
        self._shapes = ShapeReader(schema)
        self._said = said
        self._place = place
        self._prefix = prefix
        self._ids = count(1)
        self._room = room
        self.used = 0

    def field(self, label: str = "") -> Field:
        """Return the field of the whole value."""
        return self._field(self._shapes.root, self._said.value, (), label, needed=True)

    def _field(self, schema: Any, value: Any, place: Place, label: str, *, needed: bool) -> Field:
        shape = self._shapes.read(schema)
        self.used += 1
        drawn = Field(
            id=f"{self._prefix}{next(self._ids)}",
            place=(*self._place, *place),
            control="line",
            label=shape.title or one_line(label, LABEL_CHARS) or "(no name)",
            value=value,
            shape=shape,
            required=needed,
            hint=schema_hint(shape),
            limits=describe_limits(shape),
            doubt=describe_doubt(shape, value),
        )
        if isinstance(value, UnreadableText):
            return set_unreadable(drawn, value)
        if self.used > self._room or len(place) > MAX_DEPTH:
            return set_json(drawn)
        return self._drawn(drawn, place)

    def _drawn(self, drawn: Field, place: Place) -> Field:
        shape, value = drawn.shape, drawn.value
        if shape.branches:
            return self._branched(drawn, place)
        if shape.choices and not isinstance(value, dict | list):
            return set_choices(drawn)
        holds = "object" in shape.kinds or "array" in shape.kinds
        if holds and (value is MISSING or value is None):
            return set_absent(drawn)
        if isinstance(value, dict) and "object" in shape.kinds:
            keys = [*dict.fromkeys((*shape.properties, *value))]
            return self._object(drawn, place, keys) if self._has_room(keys) else set_json(drawn)
        short = isinstance(value, list) and len(value) <= MAX_ITEMS and self._has_room(value)
        if short and "array" in shape.kinds:
            return self._list(drawn, place)
        return set_json(drawn) if isinstance(value, dict | list) else set_scalar(drawn)

    def _has_room(self, parts: Sequence[Any]) -> bool:
        return len(parts) <= FEW or self.used + len(parts) <= self._room

    def _branched(self, drawn: Field, place: Place) -> Field:
        """Build an object that one of several schemas describes."""
        several, own = drawn.shape.branches, self._said.branches.get(place)
        chosen = own if own is not None and own < len(several) else self._fitting(drawn)
        label, nullable = drawn.label, drawn.shape.nullable
        drawn.shape = replace(several[chosen], nullable=nullable or several[chosen].nullable)
        drawn.alternatives, drawn.branch = several, chosen
        drawn.branches = [
            Button(f"branch:{pointer(drawn.place)}:{number}", one.title or f"form {number + 1}")
            for number, one in enumerate(several)
        ]
        drawn.limits = describe_limits(drawn.shape)
        self._drawn(drawn, place)
        drawn.label = label
        return drawn

    def _fitting(self, drawn: Field) -> int:
        """Return the number of the schema with the fewest violations."""
        root = self._shapes.root if isinstance(self._shapes.root, Mapping) else {}
        named = {key: root[key] for key in ("$defs", "definitions") if key in root}
        rules = [{**named, **one.rules} for one in drawn.shape.branches]
        wrong = [len(violations(drawn.value, one)) for one in rules]
        return wrong.index(min(wrong))

    def _object(self, drawn: Field, place: Place, keys: Sequence[str]) -> Field:
        drawn.control = "object"
        shape, value = drawn.shape, drawn.value
        named = set(shape.properties)
        for key in keys:
            inner = (*place, key)
            given, needed = value.get(key, MISSING), shape.requires(key)
            one = self._field(shape.property_schema(key), given, inner, key, needed=needed)
            if key not in named:
                one.buttons.append(Button(f"drop:{pointer(one.place)}", "Omit"))
            drawn.children.append(one)
        return add_omit_buttons(drawn)

    def _list(self, drawn: Field, place: Place) -> Field:
        drawn.control = "list"
        for index, item in enumerate(drawn.value):
            schema = drawn.shape.item_schema(index)
            one = self._field(schema, item, (*place, index), str(index + 1), needed=True)
            one.buttons.append(Button(f"drop:{pointer(one.place)}", f"Remove {index + 1}"))
            drawn.children.append(one)
        if len(drawn.value) < MAX_ITEMS:
            drawn.buttons.append(Button(f"add:{pointer(drawn.place)}", "Add entry"))
        return add_omit_buttons(drawn)


def build_fields(
    schema: Any,
    said: FormValue,
    *,
    place: Place = (),
    prefix: str = "f",
    room: int = MAX_FIELDS,
    wrong: Sequence[Violation] = (),
    label: str = "",
) -> Field:
    """Return the fields of a form, each with the violations of its value."""
    with bounded():
        whole = FieldBuilder(schema, said, place=place, prefix=prefix, room=room).field(label)
    for one in (misfit for misfit in wrong if misfit.said):
        _nearest(whole, one.place, len(place)).problems.append(one.said)
    if said.notice is not None:
        _tell(whole, said.notice, len(place))
    return whole


def _tell(whole: Field, done: EditNotice, skip: int) -> None:
    """Put the notice of a button on its field; of a removed field, on the next one or the end."""
    found = _nearest(whole, done.place, skip)
    if done.after_children or len(found.place) - skip < len(done.place):
        found.notice_after = done.text
    else:
        found.notice = done.text


def _nearest(whole: Field, place: Sequence[Any], skip: int) -> Field:
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
    unread = [Violation(place, "", "") for place in _misread(value, ())]
    if unread:
        return unread
    if value is MISSING:
        return [Violation((), "required", "Required.")]
    found = [each for one in violations(value, schema) for each in _placed(one, value)]
    return [_plainly(one) for one in found]


def _plainly(found: Violation) -> Violation:
    """Replace the violation of a format by a request: `'' is not a 'date'`."""
    if found.keyword != "format":
        return found
    _, _, name = found.said.rpartition(" is not a ")
    return Violation(found.place, found.keyword, format_request(name.strip("'")))


def _misread(value: Any, place: Place) -> Iterator[Place]:
    match value:
        case UnreadableText():
            yield place
        case dict():
            for key, inner in value.items():
                yield from _misread(inner, (*place, key))
        case list():
            for index, inner in enumerate(value):
                yield from _misread(inner, (*place, index))


def _placed(found: Violation, value: Any) -> list[Violation]:
    """Move the violation of a missing property to the place of that property."""
    if found.keyword != "required":
        return [found]
    for step in found.place:
        value = value[step]
    name = next((key for key in _quoted(found.said) if key not in value), None)
    return [found if name is None else Violation((*found.place, name), "required", "Required.")]


def _quoted(said: str) -> Iterator[str]:
    """Yield the property that a message names: `'amount' is a required property`."""
    name, _, _ = said.rpartition(" is a required property")
    if len(name) > 2:
        yield name[1:-1]


def field_problems(whole: Field) -> list[tuple[Field, str]]:
    """Return all problems with their fields."""
    return [(one, said) for one in whole.walk() for said in one.problems]
