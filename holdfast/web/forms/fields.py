"""The fields of a form, or of a read-only view, from a value and its schema.

Every part of the value has a field, even if the schema does not mention it; a value without a
suitable control is shown as JSON, and so is a text that a control cannot hold exactly (invisible
characters, another kind of line end). A form has at most `MAX_FIELDS` fields: the rest of a value
is JSON, too. The run checks a form by the same rules, so a value that passes here passes there.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Final, Literal

from holdfast.runtime.narration import arguments, schema_shapes
from holdfast.runtime.narration.schema_shapes import Shape
from holdfast.runtime.narration.value_diff import MISSING, Place
from holdfast.runtime.text_safety import as_json, clean
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.reference import MARK
from holdfast.validation.formats import format_words
from holdfast.validation.schema_node import WorkBudget
from holdfast.validation.validator import Violation, violations
from holdfast.web.forms.form_values import FormValue, UnreadableText, pointer

MAX_FIELDS: Final = 200
MAX_DEPTH: Final = 8
MAX_ITEMS: Final = 100
# At most this number of parts have a field each, if there is room for the whole value.
FEW: Final = 10
# The characters that fit in one line on a phone.
_LINE_CHARS: Final = 30
_SCHEMA_CHARS: Final = 4_000
_HINT_CHARS: Final = 2_000

MEANINGS: Final = {
    "text": "text",
    "number": "number",
    "json": "JSON",
    "true": "yes",
    "false": "no",
    "null": "null",
    "gone": "omitted",
}

Control = Literal["line", "lines", "date", "pick", "fixed", "object", "list", "none"]


@dataclass(frozen=True)
class Option:
    """An option of a select."""

    value: str
    label: str
    selected: bool = False


@dataclass(frozen=True)
class Button:
    """A button that changes the fields of a form."""

    action: str
    label: str


@dataclass
class Field:
    """One value of a form: its control, or the fields inside it.

    `siblings` is the object that holds the value.
    One of `alternatives` describes the value: number `branch`; the buttons `branches` select
    another. `notice` is the effect of a button here, `notice_after` its effect behind the last
    inner field.
    """

    id: str
    place: Place
    control: Control
    label: str
    value: Any
    shape: Shape
    siblings: Any = None
    required: bool = False
    hint: str = ""
    limits: list[str] = field(default_factory=list)
    text: str = ""
    input_mode: str = "text"
    options: list[Option] = field(default_factory=list)
    meanings: list[Option] = field(default_factory=list)
    branches: list[Button] = field(default_factory=list)
    branch: int = 0
    alternatives: tuple[Shape, ...] = ()
    children: list["Field"] = field(default_factory=list)
    buttons: list[Button] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notice: str = ""
    notice_after: str = ""
    doubt: str = ""
    schema: str = ""
    reference_text: str = ""

    def name(self, kind: str) -> str:
        """Return the name of one of its controls: `text:/order/items/0`."""
        return f"{kind}:{pointer(self.place)}"

    @property
    def display_text(self) -> str:
        if self.value is MISSING:
            return "omitted"
        if isinstance(self.value, UnreadableText):
            return self.value.text
        return arguments.format_value(self.value, self.shape, self.siblings)

    @property
    def key(self) -> str:
        """Return the name of the value in the JSON."""
        step = self.place[-1] if self.place else ""
        return str(step + 1) if isinstance(step, int) else arguments.exact_name(step)

    @property
    def is_missing(self) -> bool:
        return self.value is MISSING

    @property
    def alternate_label(self) -> str:
        """Return the label of the selected option, if it adds something."""
        if isinstance(self.value, bool):
            return ""
        names = [one.label for one in self.options if one.selected]
        return names[0] if names and names[0] != self.display_text else ""

    @property
    def is_reference(self) -> bool:
        """Report whether the value is a reference, replaced when the call is executed."""
        return isinstance(self.value, str) and MARK in self.value

    @property
    def is_plain(self) -> bool:
        """Report whether the content of the control is read as a text or a number."""
        return any(one.selected and one.value[:4] in ("text", "numb") for one in self.meanings)

    @property
    def is_plain_list(self) -> bool:
        """Report whether the value is a list of single values, shown one a line."""
        plain = not any(one.children or one.control in ("object", "list") for one in self.children)
        return self.control == "list" and plain

    @property
    def table(self) -> tuple[list[str], list[list["Field | None"]]] | None:
        """Return the columns and rows of a list of objects that have single values, or None."""
        # By the raw names: those of two values may be shown alike.
        rows = [{str(each.place[-1]): each for each in row.children} for row in self.children]
        parts = [(key, each) for row in rows for key, each in row.items() if not each.is_missing]
        is_flat = all(row.control == "object" for row in self.children)
        if self.control != "list" or not parts or not is_flat or any(e.children for _, e in parts):
            return None
        columns = arguments.distinct_labels({key: each.label for key, each in parts})
        return [*columns.values()], [[row.get(key) for key in columns] for row in rows]

    @property
    def takes_properties(self) -> bool:
        return self.control == "object" and self.shape.takes_properties

    @property
    def actions(self) -> set[str]:
        buttons = {button.action for button in (*self.buttons, *self.branches)}
        return buttons | ({self.name("key")} if self.takes_properties else set())

    @property
    def doubts_mark(self) -> str:
        """Return a mark of the values that do not look like their format; empty for none."""
        found = [(pointer(one.place), one.value) for one in self.walk() if one.doubt]
        return sha256(canonical_json(found)) if found else ""

    def walk(self) -> list["Field"]:
        """Return the field and all fields inside it."""
        found = [self]
        for inner in self.children:
            found += inner.walk()
        return found


def _set_choices(drawn: Field) -> Field:
    """Make the field a select; the current value is an option, even if it is not allowed."""
    drawn.control = "pick"
    here = None if drawn.value is MISSING else as_json(drawn.value)
    offered = [(as_json(value), label) for value, label in drawn.shape.choices]
    if drawn.shape.nullable:
        offered.append(("null", MEANINGS["null"]))
    if here is not None and here not in dict(offered):
        offered.append((here, f"{schema_shapes.choice_label(drawn.value)} (current value)"))
    if not drawn.required or here is None:
        offered.append(("", "(choose)" if drawn.required else MEANINGS["gone"]))
    drawn.options = [Option(value, label, value == (here or "")) for value, label in offered]
    drawn.text = here or ""
    if len(drawn.options) == 1:
        drawn.control = "fixed"
    return drawn


def _set_json(drawn: Field) -> Field:
    """Make the field one of JSON, with its schema."""
    drawn.control = "lines"
    drawn.text = "" if drawn.value is MISSING else as_json(drawn.value, indent=2)
    drawn.schema = clean(as_json(dict(drawn.shape.rules), indent=2))[:_SCHEMA_CHARS]
    may_lack = drawn.value is MISSING or not drawn.required
    drawn.meanings = [Option("json/gone" if may_lack else "json", MEANINGS["json"], selected=True)]
    return drawn


def _set_scalar(drawn: Field) -> Field:
    """Make the field one of a text or a number."""
    value, shape = drawn.value, drawn.shape
    match value:
        case bool():
            kind = "true" if value else "false"
        case str():
            # A text with invisible characters, or one that a browser would change, is shown as
            # JSON.
            kind = "text" if clean(value) == value else "json"
        case int() | float():
            kind = "number" if shape.kinds else "json"
        case None:
            kind = "null" if shape.kinds or shape.nullable else "json"
        case _:
            kind = "gone"
    if kind in ("text", "number", "json"):
        drawn.text = value if kind == "text" else as_json(value)
    is_long = kind == "json" or "\n" in drawn.text or len(drawn.text) > _LINE_CHARS
    if value is MISSING and drawn.required and shape.kinds == ("string",):
        # A new text may have several lines, unless its schema is that of a short one.
        most = shape.rules.get("maxLength")
        is_short = isinstance(most, int) and most <= _LINE_CHARS
        is_long = not (is_short or {"pattern", "format"} & shape.rules.keys())
    drawn.control = "lines" if is_long else "line"
    if shape.rules.get("format") == "date":
        with suppress(ValueError):
            if not drawn.text or date.fromisoformat(drawn.text).isoformat() == drawn.text:
                drawn.control = "date"
                # A browser shows a date in the format of its user, which differs from the hint.
                drawn.limits = [one for one in drawn.limits if one != format_words("date")]
    return _with_meanings(drawn, kind)


def _with_meanings(drawn: Field, kind: str) -> Field:
    """Set the kinds of value that the content of a control can be read as; `kind` is selected."""
    shape, rules = drawn.shape, drawn.shape.rules
    texts = {"string": "text", "number": "number", "integer": "number"}
    written = [kind] if kind in ("text", "number", "json") else []
    kinds = shape.kinds or ("string", "object")
    written += [texts.get(one, "json") for one in kinds if one != "boolean"]
    written = [*dict.fromkeys(written)]
    unwritten = ["true", "false"] if "boolean" in shape.kinds else []
    unwritten += [kind] if kind in ("true", "false") and kind not in unwritten else []
    unwritten += ["null"] if shape.nullable or kind == "null" else []
    unwritten += ["gone"] if not drawn.required or kind == "gone" else []
    # The keyboard of a phone.
    drawn.input_mode = {"email": "email", "uri": "url"}.get(str(rules.get("format")), "text")
    least = rules.get("minimum")
    if set(shape.kinds) == {"integer"}:
        drawn.input_mode = "numeric" if isinstance(least, int) and least >= 0 else "text"
    elif set(shape.kinds) == {"number"}:
        drawn.input_mode = "decimal"
    first = written[0] if written else "json"
    # An empty control can only mean that there is no value.
    never_empty = bool(rules.get("minLength") or rules.get("format") or rules.get("pattern"))
    never_empty = never_empty and drawn.value != ""
    is_new = drawn.value is MISSING and drawn.required
    is_clear = not unwritten or (
        unwritten[0] in ("null", "gone") and (first == "number" or is_new or never_empty)
    )
    if len(written) <= 1 and len(unwritten) <= 1 and is_clear:
        drawn.meanings = [Option("/".join([first, *unwritten]), MEANINGS[first], selected=True)]
        return drawn
    for one in (*written, *unwritten):
        # Text that is entered where there was no value is read as text.
        is_kept = one == kind and one in unwritten
        value, label = f"{first}/{one}" if is_kept else one, MEANINGS[one]
        drawn.meanings.append(Option(value, f"{label} if empty" if is_kept else label, one == kind))
    return drawn


class _FieldBuilder:
    """Builds the fields of one form.

    `place` is the place of its value among others; `prefix` keeps the ids of its elements apart
    from those of other forms of the page.
    """

    def __init__(self, schema: Any, form: FormValue, place: Place, prefix: str, room: int) -> None:
        self.shapes = schema_shapes.ShapeReader(schema)
        self._form = form
        self._place = place
        self._prefix = prefix
        self._room = room
        self._budget = WorkBudget()
        self._used = 0

    def field(self, schema: Any, value: Any, place: Place, label: str, *, required: bool) -> Field:
        """Return the field of a value at a place in the form."""
        shape = self.shapes.read(schema)
        about = shape.rules.get("description")
        self._used += 1
        drawn = Field(
            id=f"{self._prefix}{self._used}",
            place=(*self._place, *place),
            control="line",
            label=label or "(no name)",
            value=value,
            shape=shape,
            required=required,
            hint=clean(about)[:_HINT_CHARS] if isinstance(about, str) else "",
            limits=schema_shapes.describe_limits(shape),
            doubt=schema_shapes.describe_doubt(shape, value),
        )
        if isinstance(value, UnreadableText):
            drawn.problems = [value.problem] if value.problem else []
            drawn.text = value.text
            if value.kind == "pick":
                drawn.value = MISSING
                return _set_choices(drawn)
            drawn.control = "lines" if value.kind == "json" else "line"
            return _with_meanings(drawn, value.kind)
        if self._used > self._room or len(place) > MAX_DEPTH:
            return _set_json(drawn)
        return self._set_control(drawn, place)

    def _set_control(self, drawn: Field, place: Place) -> Field:
        shape, value = drawn.shape, drawn.value
        if shape.branches:
            return self._set_branch(drawn, place)
        if shape.choices and not isinstance(value, dict | list):
            return _set_choices(drawn)
        is_container = "object" in shape.kinds or "array" in shape.kinds
        if is_container and (value is MISSING or value is None):
            drawn.control = "none"
            drawn.text = "gone" if value is MISSING else "null"
            drawn.buttons = [Button(drawn.name("make"), f"Add {drawn.label}")]
            return drawn
        if not isinstance(value, dict | list):
            return _set_scalar(drawn)
        if isinstance(value, dict) and "object" in shape.kinds:
            parts: Sequence[Any] = [*dict.fromkeys((*shape.properties, *value))]
        elif isinstance(value, list) and "array" in shape.kinds and len(value) <= MAX_ITEMS:
            parts = value
        else:
            return _set_json(drawn)
        has_room = len(parts) <= FEW or self._used + len(parts) <= self._room
        return self._add_parts(drawn, place, parts) if has_room else _set_json(drawn)

    def _set_branch(self, drawn: Field, place: Place) -> Field:
        branches, number = drawn.shape.branches, self._form.branches.get(place)
        if number is None or number >= len(branches):
            # The schema with the fewest violations.
            root = self.shapes.root if isinstance(self.shapes.root, Mapping) else {}
            named = {key: root[key] for key in ("$defs", "definitions") if key in root}
            number = min(
                range(len(branches)),
                key=lambda n: len(
                    violations(drawn.value, {**named, **branches[n].rules}, self._budget)
                ),
            )
        label, nullable = drawn.label, drawn.shape.nullable or branches[number].nullable
        drawn.shape = replace(branches[number], nullable=nullable)
        drawn.alternatives, drawn.branch = branches, number
        drawn.branches = [
            Button(f"{drawn.name('branch')}:{n}", one.title or f"form {n + 1}")
            for n, one in enumerate(branches)
        ]
        drawn.limits = schema_shapes.describe_limits(drawn.shape)
        self._set_control(drawn, place)
        drawn.label = label
        return drawn

    def _add_parts(self, drawn: Field, place: Place, parts: Sequence[Any]) -> Field:
        """Add the properties of an object, by name, or the items of a list."""
        shape, value = drawn.shape, drawn.value
        drawn.control = "list" if isinstance(value, list) else "object"
        properties = set(shape.properties)
        labels = {} if isinstance(value, list) else arguments.labels_of(shape, parts)
        is_fixed = {shape.rules.get(key) for key in ("minItems", "maxItems")} == {len(parts)}
        for index, key in enumerate(parts):
            if isinstance(value, list):
                part = shape.item_schema(index), key, (*place, index), str(index + 1)
                one = self.field(*part, required=True)
                drop = "" if is_fixed else "Remove"
            else:
                old, label = value.get(key, MISSING), labels[key]
                part = shape.property_schema(key), old, (*place, key), label
                one = self.field(*part, required=shape.requires(key))
                one.siblings = value
                drop = "" if key in properties else "Omit"
            if drop:
                one.buttons.append(Button(one.name("drop"), drop))
            drawn.children.append(one)
        if isinstance(value, list) and len(value) < MAX_ITEMS and not is_fixed:
            drawn.buttons.append(Button(drawn.name("add"), "Add entry"))
        if not drawn.required:
            drawn.buttons.append(Button(drawn.name("drop"), "Omit"))
        if shape.nullable:
            drawn.buttons.append(Button(drawn.name("null"), "Set to null"))
        return drawn


def build_fields(
    schema: Any,
    form: FormValue,
    *,
    place: Place = (),
    prefix: str = "f",
    room: int = MAX_FIELDS,
    wrong: Sequence[Violation] = (),
    label: str = "",
) -> Field:
    """Return the fields of a form, each with the violations of its value."""
    builder = _FieldBuilder(schema, form, place, prefix, room)
    root = builder.shapes.root
    label = builder.shapes.read(root).title or label
    whole = builder.field(root, form.value, (), label, required=True)
    for one in wrong:
        if one.said:
            _nearest(whole, one.place).problems.append(one.said)
    if (notice := form.notice) is not None:
        found = _nearest(whole, notice.place)
        # The notice of a removed field is on the next one, or at the end.
        if notice.after_children or len(found.place) - len(place) < len(notice.place):
            found.notice_after = notice.text
        else:
            found.notice = notice.text
    return whole


def _nearest(whole: Field, place: Sequence[Any]) -> Field:
    """Return the field of a place, or the nearest one around it."""
    for step in place:
        inner = {str(one.place[-1]): one for one in whole.children}
        if str(step) not in inner:
            break
        whole = inner[str(step)]
    return whole
