"""The schema of a value as people are shown it: a `Shape`, with kinds, choices, parts and hints.

A constraint without a control of a form is left to the run's validator, which checks a whole value.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast.runtime.text_safety import as_json, one_line
from holdfast.schemas.json_schema import target_of
from holdfast.schemas.reference import MARK
from holdfast.validation.formats import format_words

_SAID_CHARS: Final = 200
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
_OF_NUMBERS: Final = {key for key, _ in _BOUNDS[:5]}
MAX_REFERENCES: Final = 16
MAX_CHOICES: Final = 200
MAX_BRANCHES: Final = 10
# The limit for the schemas of one value: schemas that refer to each other can expand without end.
MAX_READ: Final = 20_000
_NAMES_A_READ: Final = 50
LABEL_CHARS: Final = 120
# Annotations of a value for people, which do not apply to the parts of its schema.
_NOTES: Final = ("title", "description", "default", "examples")
_SCALARS: Final = frozenset({"string", "number", "integer", "boolean"})
Rules = Mapping[str, Any]


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
        return one_line(str(self.rules.get("title") or ""), LABEL_CHARS)

    def title_of(self, key: str) -> str:
        """Return the title of a property, which its type may have another beside."""
        own = self.property_schema(key)
        return (
            one_line(str(own.get("title") or ""), LABEL_CHARS) if isinstance(own, Mapping) else ""
        )

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
    def is_quantity(self) -> bool:
        """Report whether its numbers are quantities: another integer may be an identifier."""
        return "number" in self.kinds or not _OF_NUMBERS.isdisjoint(self.rules)

    @property
    def takes_properties(self) -> bool:
        """Report whether properties with any name may be added, as far as the schema shows it."""
        rule = self.rules.get("additionalProperties")
        unsaid = rule is None and not self.properties
        return isinstance(rule, Mapping) or rule is True or unsaid


class ShapeReader:
    """Reads the schemas of one form; references point into `root`.

    Beyond `MAX_READ`, a schema allows any value.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self._room = MAX_READ

    def read(self, schema: Any, depth: int = 0) -> Shape:
        """Return the shape of a schema; `depth` counts the references that led to it."""
        rules = self._whole(schema, depth)
        types = rules.get("type")
        types = [types] if isinstance(types, str) else types if isinstance(types, list) else []
        if not types and isinstance(rules.get("properties"), Mapping):
            types = ["object"]
        names = [kind for kind in types if isinstance(kind, str) and kind != "null"]
        kinds, nullable, values = tuple(dict.fromkeys(names)), "null" in types, rules.get("enum")
        choices: tuple[tuple[Any, str], ...] = ()
        if "const" in rules:
            choices = ((rules["const"], Shape(rules).title or choice_label(rules["const"])),)
        elif isinstance(values, list) and len(values) <= MAX_CHOICES:
            choices = tuple((value, choice_label(value)) for value in values)
        if choices:
            nullable = nullable or any(value is None for value, _ in choices)
            choices = tuple(choice for choice in choices if choice[0] is not None)
            return Shape(rules, kinds, nullable, choices)
        if kinds == ("boolean",):
            return Shape(rules, kinds, nullable, ((True, "yes"), (False, "no")))
        return self._with_branches(Shape(rules, kinds, nullable), depth)

    def _whole(self, schema: Any, depth: int) -> Rules:
        """Return the schema merged with its reference and all of `allOf`."""
        if not isinstance(schema, Mapping) or depth >= MAX_REFERENCES or self._room <= 0:
            return {}
        rules = dict(schema)
        # Each reading iterates over the names of a schema.
        named = [rules.get(key) for key in ("properties", "required", "enum")]
        names = sum(len(each) for each in named if isinstance(each, dict | list))
        self._room -= 1 + names // _NAMES_A_READ
        reference, every = rules.get("$ref"), rules.pop("allOf", None)
        parts = every[:MAX_BRANCHES] if isinstance(every, list) else []
        if isinstance(reference, str):
            del rules["$ref"]
            parts = [target_of(reference, self.root), *parts]
        for part in parts:
            rules = _merged(rules, self._whole(part, depth + 1))
        return rules

    def _with_branches(self, shape: Shape, depth: int) -> Shape:
        """Read `anyOf` or `oneOf`, where a form can show more of it than JSON.

        They become one list of choices, one control for several kinds, or branches.
        """
        several = shape.rules.get("anyOf") or shape.rules.get("oneOf")
        if not isinstance(several, list) or depth >= MAX_REFERENCES or len(several) > MAX_BRANCHES:
            return shape
        base = {key: rule for key, rule in shape.rules.items() if key not in ("anyOf", "oneOf")}
        rest = {key: rule for key, rule in base.items() if key not in _NOTES}
        wholes = [self._whole(one, depth + 1) for one in several]
        others = [
            one for one in wholes if one.get("type") != "null" and one.get("const", 0) is not None
        ]
        nullable = shape.nullable or len(others) < len(wholes)
        branches = [self.read(_merged(whole, rest), depth + 1) for whole in others]
        if not all(one.kinds or one.choices or one.branches for one in branches):
            return Shape(base, shape.kinds, nullable)
        nullable = nullable or any(one.nullable for one in branches)
        if len(branches) == 1:
            [one] = branches
            return replace(one, rules=_merged(base, one.rules), nullable=nullable)
        choices = tuple(choice for one in branches for choice in one.choices)
        if branches and all(one.choices for one in branches) and len(choices) <= MAX_CHOICES:
            return Shape(base, nullable=nullable, choices=choices)
        if all(_SCALARS.issuperset(one.kinds) for one in branches):
            kinds = tuple(dict.fromkeys(kind for one in branches for kind in one.kinds))
            return Shape(base, kinds, nullable)
        return Shape(base, (), nullable, branches=tuple(branches))


def choice_label(value: Any) -> str:
    """Return the label of a choice."""
    plain = isinstance(value, str) and value.strip() == value and value
    return one_line(value if plain else as_json(value), LABEL_CHARS)


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
    """Return a warning where a value does not look like its `format`, although it fits."""
    name = str(shape.rules.get("format"))
    if not isinstance(value, str) or MARK in value:
        return ""
    try:
        match name:
            case "email":
                fits = bool(re.fullmatch(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+", value))
            case "date-time":
                fits = "T" in value.upper() and datetime.fromisoformat(value).tzinfo is not None
            case "uri":
                parts = urlsplit(value)
                is_whole = bool(parts.scheme and (parts.netloc or parts.path))
                fits = is_whole and not re.search(r"\s", value)
            case _:
                return ""
    except ValueError:
        fits = False
    return "" if fits else f"this does not look like {format_words(name)}."


def describe_limits(shape: Shape) -> list[str]:
    """Describe the constraints of a value, a few words each."""
    rules = shape.rules
    limits = [words] if (words := format_words(rules.get("format"))) else []
    if shape.kinds == ("integer",):
        limits.append("a whole number")
    if rules.get("format") == "money":
        unit = "minor units" if rules.get("minorUnits") is True else ""
        code = rules["currency"] if isinstance(rules.get("currency"), str) else ""
        if unit or code:
            limits.append("in " + " of ".join(filter(None, [unit, _said(code) if code else ""])))
    for key, words in _BOUNDS:
        if key in rules and rules[key] not in (None, "", [], {}):
            limits.append(words.format(_said(rules[key])))
    if rules.get("uniqueItems") is True:
        limits.append("unique entries")
    examples = rules.get("examples")
    if isinstance(examples, list) and examples:
        limits.append(f"for example {_said(examples[0])}")
    return limits


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(value if isinstance(value, str) and value else as_json(value), _SAID_CHARS)
