"""The fields of a form, and the control of each value without inner fields.

A text that a control cannot hold exactly (invisible characters, another kind of line end) is shown
as JSON, which can.
"""

from calendar import day_name
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, Literal

from holdfast.runtime.text_safety import as_json, clean, format_argument, one_line
from holdfast.schemas.reference import MARK
from holdfast.web.forms import form_values
from holdfast.web.forms.form_values import MISSING, Place, UnreadableText, control_name, pointer
from holdfast.web.forms.schema_shape import Shape, choice_label, format_hint

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
        """Return the name of one of its controls."""
        return control_name(kind, self.place)

    @property
    def display_text(self) -> str:
        """Return the value for display."""
        if isinstance(self.value, bool):
            return MEANINGS["true" if self.value else "false"]
        plain = isinstance(self.value, str) and self.value.isascii() and self.value.isalnum()
        if plain and self.shape.kinds == ("string",):
            return str(self.value)  # the value is a text, even if it looks like a number
        return "omitted" if self.value is MISSING else format_argument(self.value).rstrip("\n")

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
        """Return the label of the selected option, if it adds something.

        For a date, return the day of the week.
        """
        if self.control == "date" and self.text:
            return day_name[date.fromisoformat(self.text).weekday()]
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

    def walk(self) -> list["Field"]:
        """Return the field and all fields inside it."""
        return [self, *(one for inner in self.children for one in inner.walk())]


def add_omit_buttons(drawn: Field) -> Field:
    """Add the buttons that omit a value or set it to null, where that is allowed."""
    where = pointer(drawn.place)
    if not drawn.required:
        drawn.buttons.append(Button(f"drop:{where}", "Omit"))
    if drawn.shape.nullable:
        drawn.buttons.append(Button(f"null:{where}", "Set to null"))
    return drawn


def set_absent(drawn: Field) -> Field:
    """Make the field one of an absent object or list, with a button that adds it."""
    drawn.control = "none"
    drawn.text = form_values.GONE if drawn.value is MISSING else form_values.NULL
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
    return _meant(drawn, value.kind)


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
    value = drawn.value
    now = _kind_of(value, drawn.shape)
    match now:
        case "text":
            drawn.text = value
        case "number" | "json":
            drawn.text = as_json(value)
    long = now == "json" or "\n" in drawn.text or len(drawn.text) > _LINE_CHARS
    drawn.control = "lines" if long else "line"
    wants_date = drawn.shape.rules.get("format") == "date"
    if wants_date and (not drawn.text or _is_date(drawn.text)):
        drawn.control = "date"
        # A browser shows a date in the format of its user, which differs from that of the hint.
        drawn.limits = [one for one in drawn.limits if one != format_hint("date")]
    return _meant(drawn, now)


def _meant(drawn: Field, now: str) -> Field:
    """Return the kinds of value that the content of a control can be read as."""
    shape = drawn.shape
    written = [kind for kind in _written(shape) if kind != now]
    if now in ("text", "number", "json"):
        written.insert(0, now)
    unwritten = ["true", "false"] if "boolean" in shape.kinds else []
    unwritten += [now] if now in ("true", "false") and now not in unwritten else []
    unwritten += ["null"] if shape.nullable or now == "null" else []
    unwritten += ["gone"] if not drawn.required or now == "gone" else []
    drawn.input_mode = _mode(shape)
    first = written[0] if written else "json"
    if len(written) <= 1 and len(unwritten) <= 1 and _says_by_nothing(first, unwritten, drawn):
        both = "/".join([first, *unwritten])
        drawn.meanings = [Option(both, MEANINGS[first], selected=True)]
        return drawn
    drawn.meanings = [
        # Text that is entered where there was no value is read as text.
        Option(
            f"{first}/{each}" if each == now and each in unwritten else each,
            MEANINGS[each],
            each == now,
        )
        for each in (*written, *unwritten)
    ]
    return drawn


def _says_by_nothing(first: str, unwritten: Sequence[str], drawn: Field) -> bool:
    """Report whether an empty control can only mean that there is no value."""
    if not unwritten:
        return True
    rules = drawn.shape.rules
    never_empty = bool(rules.get("minLength") or rules.get("format") or rules.get("pattern"))
    empty_now = drawn.value == "" and isinstance(drawn.value, str)
    fresh = drawn.value is MISSING and drawn.required
    return unwritten[0] in ("null", "gone") and (
        first == "number" or fresh or (never_empty and not empty_now)
    )


def _written(shape: Shape) -> list[str]:
    """Return the kinds of value that are entered as a text."""
    if not shape.kinds:
        return ["text", "json"]
    kinds = {"string": "text", "number": "number", "integer": "number", "boolean": ""}
    return [kind for kind in dict.fromkeys(kinds.get(one, "json") for one in shape.kinds) if kind]


def _kind_of(value: Any, shape: Shape) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            # A text with invisible characters, or one that a browser would change, is shown as
            # JSON.
            return "text" if clean(value) == value else "json"
        case int() | float():
            return "number" if shape.kinds else "json"
        case None:
            return "null" if shape.kinds or shape.nullable else "json"
        case _:
            return "gone"


def _mode(shape: Shape) -> str:
    """Return the keyboard for a phone."""
    if set(shape.kinds) == {"integer"}:
        least = shape.rules.get("minimum")
        return "numeric" if isinstance(least, int) and least >= 0 else "text"
    if set(shape.kinds) == {"number"}:
        return "decimal"
    return {"email": "email", "uri": "url"}.get(str(shape.rules.get("format")), "text")


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
