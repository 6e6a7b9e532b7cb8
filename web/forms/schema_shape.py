"""What a schema says that a form can draw: the kinds of value, the choices, the parts.

A schema may say anything. What of it a form has no control for is left to the check of the whole,
which is the run's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.runtime.text_safety import as_json, one_line

MAX_REFERENCES: Final = 16
MAX_CHOICES: Final = 200
MAX_BRANCHES: Final = 10
# Of the schemas of one form. Those that refer to each other can stand for any number of them.
MAX_READ: Final = 20_000
_NAMES_A_READ: Final = 50
_LABEL_CHARS: Final = 120
# What is said of a value to people, and holds for no part of its schema.
_NOTES: Final = ("title", "description", "default", "examples")
_SCALARS: Final = frozenset({"string", "number", "integer", "boolean"})

Rules = Mapping[str, Any]


@dataclass(frozen=True)
class Shape:
    """A schema, with what it refers to in its place.

    `kinds` are the types that a value may have, but for null; none: any. `choices` are the values
    that there are to choose from, with their names. `branches` are schemas of which one is used.
    """

    rules: Rules
    kinds: tuple[str, ...] = ()
    nullable: bool = False
    choices: tuple[tuple[Any, str], ...] = ()
    branches: tuple["Shape", ...] = ()

    @property
    def title(self) -> str:
        """Its short name for people, where it has one."""
        return one_line(str(self.rules.get("title") or ""), _LABEL_CHARS)

    def of_key(self, key: str) -> Any:
        """The schema of a property."""
        properties = self.rules.get("properties")
        if isinstance(properties, Mapping) and key in properties:
            return properties[key]
        return self.rules.get("additionalProperties", True)

    def of_item(self, index: int) -> Any:
        """The schema of an item."""
        prefix = self.rules.get("prefixItems")
        if isinstance(prefix, list) and index < len(prefix):
            return prefix[index]
        return self.rules.get("items", True)

    @property
    def properties(self) -> list[str]:
        """The properties that it names."""
        named = self.rules.get("properties")
        return list(named) if isinstance(named, Mapping) else []

    def needs(self, key: str) -> bool:
        """Whether a property has to be there."""
        required = self.rules.get("required")
        return isinstance(required, list) and key in required

    @property
    def grows(self) -> bool:
        """Whether properties of any name may be added, as far as it says so."""
        said = self.rules.get("additionalProperties")
        unsaid = said is None and not self.properties
        return isinstance(said, Mapping) or said is True or unsaid


class Shapes:
    """The shapes of the schemas of one form; `root` is the one that their references point into.

    Where there is too much to read, what is left is any value.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self._left = MAX_READ

    def of(self, schema: Any) -> Shape:
        """What can be drawn of a schema."""
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
        """The schema with what it refers to, and all of `allOf`, in one."""
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
        """One of several schemas is used: those of which a form can draw more than JSON."""
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
    """Several shapes as one: one list of choices, one control for several kinds, or branches."""
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
    """How much of `MAX_READ` a schema takes: each time, its names are gone through."""
    named = (rules.get(key) for key in ("properties", "required", "enum"))
    return 1 + sum(len(one) for one in named if isinstance(one, dict | list)) // _NAMES_A_READ


def _is_null(rules: Rules) -> bool:
    return rules.get("type") == "null" or ("const" in rules and rules["const"] is None)


def _kinds(rules: Rules) -> tuple[tuple[str, ...], bool]:
    """The types that a value may have, and whether null is one of them."""
    said = rules.get("type")
    types = [said] if isinstance(said, str) else said if isinstance(said, list) else []
    if not types and isinstance(rules.get("properties"), Mapping):
        types = ["object"]
    kinds = [kind for kind in types if isinstance(kind, str) and kind != "null"]
    return tuple(dict.fromkeys(kinds)), "null" in types


def _choices(rules: Rules) -> tuple[tuple[Any, str], ...]:
    if "const" in rules:
        name = one_line(str(rules.get("title") or ""), _LABEL_CHARS)
        return ((rules["const"], name or said_as(rules["const"])),)
    values = rules.get("enum")
    if not isinstance(values, list) or not values or len(values) > MAX_CHOICES:
        return ()
    return tuple((value, said_as(value)) for value in values)


def said_as(value: Any) -> str:
    """A value as the name of a choice."""
    plain = isinstance(value, str) and value.strip() == value and value
    return one_line(value if plain else as_json(value), _LABEL_CHARS)


def _merged(rules: Rules, more: Rules) -> dict[str, Any]:
    """Two schemas that both hold, in one: what the first says of a keyword goes before."""
    merged = {**more, **rules}
    for key in ("properties", "$defs"):
        if isinstance(more.get(key), Mapping) and isinstance(rules.get(key), Mapping):
            merged[key] = {**more[key], **rules[key]}
    if isinstance(more.get("required"), list) and isinstance(rules.get("required"), list):
        both = (*rules["required"], *more["required"])
        merged["required"] = [*dict.fromkeys(name for name in both if isinstance(name, str))]
    return merged
