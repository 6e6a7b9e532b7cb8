"""The part of a schema that a form can show: kinds of value, choices, parts, and hints for people.

A constraint without a control is left to the run's validator, which checks the whole value.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast.runtime.text_safety import as_json, clean, one_line
from holdfast.schemas.reference import MARK
from holdfast.web.forms.form_values import MISSING

_HINT_CHARS: Final = 2_000
_SAID_CHARS: Final = 200
_FORMATS: Final = {
    "date": "a date, such as 2026-03-01",
    "date-time": "a date and time with its zone, such as 2026-03-01T14:00:00Z",
    "time": "a time of day, such as 14:00:00Z",
    "duration": "a duration, such as P3D or PT4H",
    "email": "an e-mail address",
    "uri": "an address, such as https://example.com/",
    "uuid": "a UUID",
}
_BOUNDS: Final = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("multipleOf", "a multiple of {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} entries"),
    ("maxItems", "at most {} entries"),
    ("pattern", "matching {}"),
    ("default", "default: {}"),
)
MAX_REFERENCES: Final = 16
MAX_CHOICES: Final = 200
MAX_BRANCHES: Final = 10
# The limit for the schemas of one form: schemas that refer to each other can expand without end.
_MAX_INITIAL: Final = 50
_MAX_INITIAL_DEPTH: Final = 4
MAX_READ: Final = 20_000
_NAMES_A_READ: Final = 50
_LABEL_CHARS: Final = 120
# Annotations of a value for people, which do not apply to the parts of its schema.
_NOTES: Final = ("title", "description", "default", "examples")
_SCALARS: Final = frozenset({"string", "number", "integer", "boolean"})
Rules = Mapping[str, Any]


def _is_email(text: str) -> bool:
    return re.fullmatch(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+", text) is not None


def _is_moment(text: str) -> bool:
    try:
        return "T" in text.upper() and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) and bool(parts.netloc or parts.path) and not re.search(r"\s", text)


_LOOKS_LIKE: Final[dict[str, Callable[[str], bool]]] = {
    "email": _is_email,
    "date-time": _is_moment,
    "uri": _is_address,
}


@dataclass(frozen=True)
class Shape:
    """A schema with its references resolved.

    `kinds` are the allowed types except null; none: any type. `choices` are the allowed values with
    their labels. One of `branches` applies.
    """

    rules: Rules
    kinds: tuple[str, ...] = ()
    nullable: bool = False
    choices: tuple[tuple[Any, str], ...] = ()
    branches: tuple["Shape", ...] = ()

    @property
    def title(self) -> str:
        """Return the title of the schema."""
        return one_line(str(self.rules.get("title") or ""), _LABEL_CHARS)

    def property_schema(self, key: str) -> Any:
        """Return the schema of a property."""
        properties = self.rules.get("properties")
        if isinstance(properties, Mapping) and key in properties:
            return properties[key]
        return self.rules.get("additionalProperties", True)

    def item_schema(self, index: int) -> Any:
        """Return the schema of an item."""
        prefix = self.rules.get("prefixItems")
        if isinstance(prefix, list) and index < len(prefix):
            return prefix[index]
        return self.rules.get("items", True)

    @property
    def properties(self) -> list[str]:
        """Return the names of its properties."""
        named = self.rules.get("properties")
        return list(named) if isinstance(named, Mapping) else []

    def requires(self, key: str) -> bool:
        """Report whether a property is required."""
        required = self.rules.get("required")
        return isinstance(required, list) and key in required

    @property
    def takes_properties(self) -> bool:
        """Report whether properties with any name may be added, as far as the schema shows it."""
        said = self.rules.get("additionalProperties")
        unsaid = said is None and not self.properties
        return isinstance(said, Mapping) or said is True or unsaid


class ShapeReader:
    """Reads the schemas of one form; references point into `root`.

    Beyond `MAX_READ`, a schema allows any value.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self._left = MAX_READ

    def read(self, schema: Any) -> Shape:
        """Return the shape of a schema."""
        return self._shape(schema, MAX_REFERENCES)

    def _shape(self, schema: Any, left: int) -> Shape:
        rules = self._whole(schema, left)
        choices = _choices(rules)
        kinds, nullable = _kinds(rules)
        if choices:
            nullable = nullable or any(value is None for value, _ in choices)
            given = tuple(choice for choice in choices if choice[0] is not None)
            return Shape(rules, kinds, nullable, given)
        if kinds == ("boolean",):
            return Shape(rules, kinds, nullable, ((True, "yes (true)"), (False, "no (false)")))
        return self._branched(Shape(rules, kinds, nullable), left)

    def _whole(self, schema: Any, left: int) -> Rules:
        """Return the schema merged with its reference and all of `allOf`."""
        if not isinstance(schema, Mapping) or left <= 0 or self._left <= 0:
            return {}
        rules = dict(schema)
        self._left -= _cost(rules)
        parts = [self._target(rules.pop("$ref"))] if isinstance(rules.get("$ref"), str) else []
        every = rules.pop("allOf", None)
        parts += every[:MAX_BRANCHES] if isinstance(every, list) else []
        for part in parts:
            rules = _merged(rules, self._whole(part, left - 1))
        return rules

    def _target(self, reference: str) -> Any:
        found: Any = self.root
        for step in reference.split("/")[1:] if reference.startswith("#/") else []:
            key = step.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        return found if reference == "#" or reference.startswith("#/") else None

    def _branched(self, shape: Shape, left: int) -> Shape:
        """Read `anyOf` or `oneOf`, where a form can show more of it than JSON."""
        several = shape.rules.get("anyOf") or shape.rules.get("oneOf")
        if not isinstance(several, list) or left <= 0 or len(several) > MAX_BRANCHES:
            return shape
        base = {key: rule for key, rule in shape.rules.items() if key not in ("anyOf", "oneOf")}
        rest = {key: rule for key, rule in base.items() if key not in _NOTES}
        wholes = [self._whole(one, left - 1) for one in several]
        nullable = shape.nullable or any(map(_is_null, wholes))
        read = [
            self._shape(_merged(whole, rest), left - 1) for whole in wholes if not _is_null(whole)
        ]
        if not all(one.kinds or one.choices or one.branches for one in read):
            return Shape(base, shape.kinds, nullable)
        return _joined(base, read, nullable)


def _joined(base: Rules, branches: list[Shape], nullable: bool) -> Shape:
    """Join shapes to one: one list of choices, one control for several kinds, or branches."""
    nullable = nullable or any(one.nullable for one in branches)
    if len(branches) == 1:
        [one] = branches
        return Shape(_merged(base, one.rules), one.kinds, nullable, one.choices, one.branches)
    choices = tuple(choice for one in branches for choice in one.choices)
    if branches and all(one.choices for one in branches) and len(choices) <= MAX_CHOICES:
        return Shape(base, nullable=nullable, choices=choices)
    if all(_SCALARS.issuperset(one.kinds) for one in branches):
        kinds = tuple(dict.fromkeys(kind for one in branches for kind in one.kinds))
        return Shape(base, kinds, nullable)
    return Shape(base, (), nullable, branches=tuple(branches))


def _cost(rules: Rules) -> int:
    """Return the share of `MAX_READ` that a schema uses; each reading iterates over its names."""
    named = (rules.get(key) for key in ("properties", "required", "enum"))
    return 1 + sum(len(one) for one in named if isinstance(one, dict | list)) // _NAMES_A_READ


def _is_null(rules: Rules) -> bool:
    return rules.get("type") == "null" or ("const" in rules and rules["const"] is None)


def _kinds(rules: Rules) -> tuple[tuple[str, ...], bool]:
    """Return the allowed types, and whether null is one of them."""
    said = rules.get("type")
    types = [said] if isinstance(said, str) else said if isinstance(said, list) else []
    if not types and isinstance(rules.get("properties"), Mapping):
        types = ["object"]
    kinds = [kind for kind in types if isinstance(kind, str) and kind != "null"]
    return tuple(dict.fromkeys(kinds)), "null" in types


def _choices(rules: Rules) -> tuple[tuple[Any, str], ...]:
    if "const" in rules:
        name = one_line(str(rules.get("title") or ""), _LABEL_CHARS)
        return ((rules["const"], name or choice_label(rules["const"])),)
    values = rules.get("enum")
    if not isinstance(values, list) or not values or len(values) > MAX_CHOICES:
        return ()
    return tuple((value, choice_label(value)) for value in values)


def choice_label(value: Any) -> str:
    """Return the label of a choice."""
    plain = isinstance(value, str) and value.strip() == value and value
    return one_line(value if plain else as_json(value), _LABEL_CHARS)


def _merged(rules: Rules, more: Rules) -> dict[str, Any]:
    """Merge two schemas; keywords of the first win."""
    merged = {**more, **rules}
    for key in ("properties", "$defs"):
        if isinstance(more.get(key), Mapping) and isinstance(rules.get(key), Mapping):
            merged[key] = {**more[key], **rules[key]}
    if isinstance(more.get("required"), list) and isinstance(rules.get("required"), list):
        both = (*rules["required"], *more["required"])
        merged["required"] = [*dict.fromkeys(name for name in both if isinstance(name, str))]
    return merged


def describe_doubt(shape: Shape, value: Any) -> str:
    """Return a warning where a value does not look like its `format`, which runs do not check."""
    name = str(shape.rules.get("format"))
    if not isinstance(value, str) or MARK in value or name not in _LOOKS_LIKE:
        return ""
    return "" if _LOOKS_LIKE[name](value) else f"this does not look like {_FORMATS[name]}."


def format_hint(format_: str) -> str:
    """Describe a format; empty for an unknown one."""
    return _FORMATS.get(format_, "")


def format_request(format_: str) -> str:
    """Return what to enter for a format that runs check."""
    return f"Give {_FORMATS.get(format_, f'what fits the format {format_}')}."


def schema_hint(shape: Shape) -> str:
    """Return the description of the schema."""
    said = shape.rules.get("description")
    return clean(said)[:_HINT_CHARS] if isinstance(said, str) else ""


def describe_limits(shape: Shape) -> list[str]:
    """Describe the constraints of a value, a few words each."""
    rules = shape.rules
    said = [_FORMATS[rules["format"]]] if rules.get("format") in _FORMATS else []
    if shape.kinds == ("integer",):
        said.append("a whole number")
    for key, words in _BOUNDS:
        if key in rules and rules[key] is not None:
            said.append(words.format(_said(rules[key])))
    if rules.get("uniqueItems") is True:
        said.append("unique entries")
    examples = rules.get("examples")
    if isinstance(examples, list) and examples:
        said.append(f"for example {_said(examples[0])}")
    return said


def _said(value: Any) -> str:
    return one_line(value if isinstance(value, str) and value else as_json(value), _SAID_CHARS)


def initial_value(schema: Any) -> Any:
    """Return the first value of an empty form: its object or list, with what is required."""
    shapes = ShapeReader(schema)
    shape = shapes.read(schema)
    holds = shape.branches or {"object", "array"} & set(shape.kinds)
    return start_value(shape, shapes) if holds else MISSING


def start_value(shape: Shape, shapes: ShapeReader, depth: int = 0) -> Any:
    """Return the first value for a shape: its default, its constant, or what is required."""
    rules = shape.rules
    if "default" in rules:
        return rules["default"]
    if "const" in rules:
        return rules["const"]
    if shape.branches:
        return start_value(shape.branches[0], shapes, depth)
    if "object" in shape.kinds and depth < _MAX_INITIAL_DEPTH:
        needed = [key for key in shape.properties if shape.requires(key)][:_MAX_INITIAL]
        inside = {
            key: start_value(shapes.read(shape.property_schema(key)), shapes, depth + 1)
            for key in needed
        }
        return {key: value for key, value in inside.items() if value is not MISSING}
    return [] if "array" in shape.kinds else MISSING
