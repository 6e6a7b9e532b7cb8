"""The fields of a form: what there is to draw of each value."""

from calendar import day_name
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, Literal

from holdfast.runtime.text_safety import format_argument, one_line
from holdfast.schemas.reference import MARK
from holdfast.web.forms.control_names import MISSING, Place, name
from holdfast.web.forms.schema_shape import Shape

LABEL_CHARS: Final = 120
MEANINGS: Final = {
    "text": "a text",
    "number": "a number",
    "json": "JSON",
    "true": "yes (true)",
    "false": "no (false)",
    "null": "nothing (null)",
    "gone": "left out",
}

Control = Literal["line", "lines", "date", "pick", "fixed", "object", "list", "none"]


@dataclass(frozen=True)
class Option:
    """One of the values of a select."""

    value: str
    label: str
    chosen: bool = False


@dataclass(frozen=True)
class Button:
    """A button that changes what the form has fields for."""

    does: str
    label: str


@dataclass
class Field:
    """One value of a form: its control, or the fields that are inside it.

    Where `several` schemas may describe it, `branch` says by which it is drawn, and `branches` are
    the buttons that draw it by each. `done` is what a button has just done here, `done_behind` what
    it has done behind the last of the fields inside.
    """

    id: str
    place: Place
    control: Control
    label: str
    value: Any
    shape: Shape
    needed: bool = False
    hint: str = ""
    limits: list[str] = field(default_factory=list)
    text: str = ""
    mode: str = "text"
    options: list[Option] = field(default_factory=list)
    meant: list[Option] = field(default_factory=list)
    branches: list[Button] = field(default_factory=list)
    branch: int = 0
    several: tuple[Shape, ...] = ()
    inside: list["Field"] = field(default_factory=list)
    buttons: list[Button] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    done: str = ""
    done_behind: str = ""
    doubt: str = ""
    schema: str = ""
    stands_for: str = ""

    def name(self, kind: str) -> str:
        """The name of one of its controls."""
        return name(kind, self.place)

    @property
    def shown(self) -> str:
        """The value as a person checks it."""
        if isinstance(self.value, bool):
            return MEANINGS["true" if self.value else "false"]
        plain = isinstance(self.value, str) and self.value.isascii() and self.value.isalnum()
        if plain and self.shape.kinds == ("string",):
            return str(self.value)  # it can be nothing else here, though it may look like a number
        return "left out" if self.value is MISSING else format_argument(self.value).rstrip("\n")

    @property
    def key(self) -> str:
        """The name that the value has in the JSON."""
        step = self.place[-1] if self.place else ""
        return str(step + 1) if isinstance(step, int) else one_line(step, LABEL_CHARS)

    @property
    def left_out(self) -> bool:
        """Whether there is no value."""
        return self.value is MISSING

    @property
    def also_called(self) -> str:
        """The name of the choice that it is, where that says more than the value; of a date, the
        day of the week."""
        if self.control == "date" and self.text:
            return day_name[date.fromisoformat(self.text).weekday()]
        names = [one.label for one in self.options if one.chosen]
        return names[0] if names and names[0] != self.shown else ""

    @property
    def is_reference(self) -> bool:
        """Whether it stands for a value that is filled in when the call is carried out."""
        return isinstance(self.value, str) and MARK in self.value

    @property
    def is_any(self) -> bool:
        """Whether a value of any kind may be written: most people mean a text."""
        return not self.shape.kinds and not self.shape.branches

    @property
    def says_text(self) -> bool:
        """Whether what is written in it is meant as a text."""
        return any(one.chosen and one.value.split("/")[0] == "text" for one in self.meant)

    @property
    def is_plain_list(self) -> bool:
        """Whether it is a list of single values, which are read one a line."""
        plain = not any(one.inside or one.control in ("object", "list") for one in self.inside)
        return self.control == "list" and plain

    @property
    def grows(self) -> bool:
        """Whether properties of any name can be added."""
        return self.control == "object" and self.shape.grows

    def all(self) -> list["Field"]:
        """It, and all fields inside it."""
        return [self, *(one for inner in self.inside for one in inner.all())]
