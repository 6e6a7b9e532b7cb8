"""The fields of a form, and the control of each value without inner fields.

A text that a control cannot hold exactly (invisible characters, another kind of line end) is shown
as JSON, which can.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, Literal

from holdfast.runtime.narration.arguments import format_value
from holdfast.runtime.narration.schema_shape import FORMATS, Shape, choice_label
from holdfast.runtime.text_safety import as_json, clean, one_line
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.reference import MARK
from holdfast.web.forms.form_values import MISSING, Place, UnreadableText, pointer

# The characters that fit in one line on a phone.
_LINE_CHARS: Final = 30
_SCHEMA_CHARS: Final = 4_000

LABEL_CHARS: Final = 120
MEANINGS: Final = {
    "text": "text",
    "number": "number",
    "json": "JSON",
    "true": "yes (true)",
    "false": "no (false)",
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
        """Return the value for display."""
        if self.value is MISSING:
            return "omitted"
        return format_value(self.value, self.shape, self.siblings)

    @property
    def key(self) -> str:
        """Return the name of the value in the JSON."""
        step = self.place[-1] if self.place else ""
        return str(step + 1) if isinstance(step, int) else one_line(step, LABEL_CHARS)

    @property
    def is_missing(self) -> bool:
        """Report whether there is no value."""
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
    def is_any(self) -> bool:
        """Report whether a value of any kind is allowed; text is the most likely one."""
        return not self.shape.kinds and not self.shape.branches

    @property
    def is_text(self) -> bool:
        """Report whether the content of the control is read as text."""
        return any(one.selected and one.value.split("/")[0] == "text" for one in self.meanings)

    @property
    def is_plain_list(self) -> bool:
        """Report whether the value is a list of single values, shown one a line."""
        plain = not any(one.children or one.control in ("object", "list") for one in self.children)
        return self.control == "list" and plain

    @property
    def takes_properties(self) -> bool:
        """Report whether properties with any name can be added."""
        return self.control == "object" and self.shape.takes_properties

    @property
    def actions(self) -> set[str]:
        """Return the actions of its buttons."""
        buttons = {button.action for button in (*self.buttons, *self.branches)}
        return buttons | ({f"key:{pointer(self.place)}"} if self.takes_properties else set())

    @property
    def doubts_mark(self) -> str:
        """Return a mark of the values that do not look like their format; empty for none."""
        found = [(pointer(one.place), one.value) for one in self.walk() if one.doubt]
        return sha256(canonical_json(found)) if found else ""

    def walk(self) -> list["Field"]:
        """Return the field and all fields inside it."""
        return [self, *(one for inner in self.children for one in inner.walk())]


def set_absent(drawn: Field) -> Field:
    """Make the field one of an absent object or list, with a button that adds it."""
    drawn.control = "none"
    drawn.text = "gone" if drawn.value is MISSING else "null"
    drawn.buttons = [Button(f"make:{pointer(drawn.place)}", f"Add {drawn.label}")]
    return drawn


def set_choices(drawn: Field) -> Field:
    """Make the field a select; the current value is an option, even if it is not allowed."""
    drawn.control = "pick"
    here = None if drawn.value is MISSING else as_json(drawn.value)
    offered = [(as_json(value), label) for value, label in drawn.shape.choices]
    if drawn.shape.nullable:
        offered.append(("null", MEANINGS["null"]))
    if here is not None and here not in dict(offered):
        offered.append((here, f"{choice_label(drawn.value)} (current value)"))
    if not drawn.required or here is None:
        offered.append(("", "(choose)" if drawn.required else MEANINGS["gone"]))
    drawn.options = [Option(value, label, value == (here or "")) for value, label in offered]
    drawn.text = here or ""
    if len(drawn.options) == 1:
        drawn.control = "fixed"
    return drawn


def set_unreadable(drawn: Field, value: UnreadableText) -> Field:
    """Make the field one of an unreadable text, as it was entered."""
    drawn.problems = [value.problem] if value.problem else []
    drawn.text = value.text
    if value.kind == "pick":
        drawn.value = MISSING
        return set_choices(drawn)
    drawn.control = "lines" if value.kind == "json" else "line"
    return _with_meanings(drawn, value.kind)


def set_json(drawn: Field) -> Field:
    """Make the field one of JSON, with its schema."""
    drawn.control = "lines"
    drawn.text = "" if drawn.value is MISSING else as_json(drawn.value, indent=2)
    drawn.schema = clean(as_json(dict(drawn.shape.rules), indent=2))[:_SCHEMA_CHARS]
    may_lack = drawn.value is MISSING or not drawn.required
    drawn.meanings = [Option("json/gone" if may_lack else "json", MEANINGS["json"], selected=True)]
    return drawn


def set_scalar(drawn: Field) -> Field:
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
                drawn.limits = [one for one in drawn.limits if one != FORMATS["date"]]
    return _with_meanings(drawn, kind)


def _with_meanings(drawn: Field, kind: str) -> Field:
    """Set the kinds of value that the content of a control can be read as; `kind` is selected."""
    shape, rules = drawn.shape, drawn.shape.rules
    texts = {"string": "text", "number": "number", "integer": "number", "boolean": ""}
    written = [texts.get(one, "json") for one in shape.kinds] if shape.kinds else ["text", "json"]
    if kind in ("text", "number", "json"):
        written.insert(0, kind)
    written = [one for one in dict.fromkeys(written) if one]
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
