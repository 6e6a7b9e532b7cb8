"""From a value and its schema to the fields of a form, or of a page that only shows it.

Every part of the value gets a field, whether or not the schema speaks of it; what no control can
hold is written as JSON. A form has at most `MAX_FIELDS` fields: what would be more is JSON too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

from holdfast.runtime.text_safety import one_line
from holdfast.validation.validator import Violation, violations
from holdfast.validation.work_budget import bounded
from holdfast.web.forms.control_names import MISSING, Done, Misread, Place, Said, pointer
from holdfast.web.forms.controls import absent, in_json, misread, pick, scalar, with_leaving_out
from holdfast.web.forms.fields import LABEL_CHARS, Button, Field
from holdfast.web.forms.hints import doubt, hint, limits
from holdfast.web.forms.schema_shape import Shapes

MAX_FIELDS: Final = 200
MAX_DEPTH: Final = 8
MAX_ITEMS: Final = 100
# So many have a field each, if there is room for the value that they are parts of.
FEW: Final = 10


class Drawing:
    """Draws the fields of one form; `place` is where its value stands among others.

    `prefix` keeps the ids of one form apart from those of another on the same page.
    """

    def __init__(
        self,
        schema: Any,
        said: Said,
        *,
        place: Place = (),
        prefix: str = "f",
        room: int = MAX_FIELDS,
    ) -> None:
        self._shapes = Shapes(schema)
        self._said = said
        self._place = place
        self._prefix = prefix
        self._ids = count(1)
        self._room = room
        self.used = 0

    def field(self, label: str = "") -> Field:
        """The fields of the whole value."""
        return self._field(self._shapes.root, self._said.value, (), label, needed=True)

    def _field(self, schema: Any, value: Any, place: Place, label: str, *, needed: bool) -> Field:
        shape = self._shapes.of(schema)
        self.used += 1
        drawn = Field(
            id=f"{self._prefix}{next(self._ids)}",
            place=(*self._place, *place),
            control="line",
            label=shape.title or one_line(label, LABEL_CHARS) or "(no name)",
            value=value,
            shape=shape,
            needed=needed,
            hint=hint(shape),
            limits=limits(shape),
            doubt=doubt(shape, value),
        )
        if isinstance(value, Misread):
            return misread(drawn, value)
        if self.used > self._room or len(place) > MAX_DEPTH:
            return in_json(drawn)
        return self._drawn(drawn, place)

    def _drawn(self, drawn: Field, place: Place) -> Field:
        shape, value = drawn.shape, drawn.value
        if shape.branches:
            return self._branched(drawn, place)
        if shape.choices and not isinstance(value, dict | list):
            return pick(drawn)
        holds = "object" in shape.kinds or "array" in shape.kinds
        if holds and (value is MISSING or value is None):
            return absent(drawn)
        if isinstance(value, dict) and "object" in shape.kinds:
            keys = [*dict.fromkeys((*shape.properties, *value))]
            return self._object(drawn, place, keys) if self._has_room(keys) else in_json(drawn)
        short = isinstance(value, list) and len(value) <= MAX_ITEMS and self._has_room(value)
        if short and "array" in shape.kinds:
            return self._list(drawn, place)
        return in_json(drawn) if isinstance(value, dict | list) else scalar(drawn)

    def _has_room(self, parts: Sequence[Any]) -> bool:
        """Whether each of these can have a field."""
        return len(parts) <= FEW or self.used + len(parts) <= self._room

    def _branched(self, drawn: Field, place: Place) -> Field:
        """An object that one of several schemas describes."""
        several, own = drawn.shape.branches, self._said.branches.get(place)
        chosen = own if own is not None and own < len(several) else self._fitting(drawn)
        label, nullable = drawn.label, drawn.shape.nullable
        drawn.shape = replace(several[chosen], nullable=nullable or several[chosen].nullable)
        drawn.several, drawn.branch = several, chosen
        drawn.branches = [
            Button(f"branch:{pointer(drawn.place)}:{number}", one.title or f"form {number + 1}")
            for number, one in enumerate(several)
        ]
        drawn.limits = limits(drawn.shape)
        self._drawn(drawn, place)
        drawn.label = label
        return drawn

    def _fitting(self, drawn: Field) -> int:
        """Which of several schemas a value is of: the one that it fits, or nearly."""
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
            given, needed = value.get(key, MISSING), shape.needs(key)
            one = self._field(shape.of_key(key), given, inner, key, needed=needed)
            if key not in named:
                one.buttons.append(Button(f"drop:{pointer(one.place)}", "Leave out"))
            drawn.inside.append(one)
        return with_leaving_out(drawn)

    def _list(self, drawn: Field, place: Place) -> Field:
        drawn.control = "list"
        for index, item in enumerate(drawn.value):
            schema = drawn.shape.of_item(index)
            one = self._field(schema, item, (*place, index), str(index + 1), needed=True)
            one.buttons.append(Button(f"drop:{pointer(one.place)}", f"Remove {index + 1}"))
            drawn.inside.append(one)
        if len(drawn.value) < MAX_ITEMS:
            drawn.buttons.append(Button(f"add:{pointer(drawn.place)}", "Add one"))
        return with_leaving_out(drawn)


def drawn(
    schema: Any,
    said: Said,
    *,
    place: Place = (),
    prefix: str = "f",
    room: int = MAX_FIELDS,
    wrong: Sequence[Violation] = (),
    label: str = "",
) -> Field:
    """The fields of a form, with what is wrong beside the field that it is wrong in."""
    with bounded():
        whole = Drawing(schema, said, place=place, prefix=prefix, room=room).field(label)
    for one in (misfit for misfit in wrong if misfit.said):
        _nearest(whole, one.place, len(place)).wrong.append(one.said)
    if said.done is not None:
        _tell(whole, said.done, len(place))
    return whole


def _tell(whole: Field, done: Done, skip: int) -> None:
    """Have a field tell what a button has done there; of what is gone, the one that follows it, or
    the end of those that it stood among."""
    found = _nearest(whole, done.place, skip)
    if done.behind or len(found.place) - skip < len(done.place):
        found.done_behind = done.said
    else:
        found.done = done.said


def _nearest(whole: Field, place: Sequence[Any], skip: int) -> Field:
    """The field of a place, or of the nearest one around it."""
    found = whole
    for depth in range(1, len(place) + 1):
        here = [*map(str, place[:depth])]
        inner = [one for one in found.inside if [*map(str, one.place[skip:])] == here]
        if not inner:
            break
        found = inner[0]
    return found
