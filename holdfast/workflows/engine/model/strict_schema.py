"""Forms of values for providers that enforce a schema on answers, and the way to read them back.

Each provider enforces a different part of JSON Schema. A form uses only the common part: closed
objects with every property required, lists, choices of branches, texts, numbers, booleans, null and
plain enums, with `$ref`s inlined and little nesting. An optional property is nullable instead. A
value outside of this part, such as an object with unknown keys, is requested as JSON in a text;
bounds and patterns are in the description.

A form is computed from a tool's schema alone, so it is computed again to read an answer back.
Reading is lenient, since not every answer is enforced: a value that does not fit its form is kept
as written, and the tool's own schema validates it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from holdfast.schemas.base import readable_json
from holdfast.schemas.json_schema import target_of
from holdfast.schemas.tool import ResolvedTool, Schema
from holdfast.validation.lenient_json import read_json
from holdfast.validation.schema_node import CannotCheck, WorkBudget
from holdfast.validation.validator import fits as fits_schema

REFERENCE: Schema = {"type": "string", "description": "or a reference such as †state.path"}
# The keywords that do not restrict a text.
_NOTES = ("type", "title", "description", "default", "examples", "deprecated")

# OpenAI accepts ten levels in all; the calls around an argument use three of them.
MAX_LEVELS = 6
MAX_SCHEMAS = 500
MAX_CHOICES = 100
MAX_TOLD_CHARACTERS = 1_000

_PLAIN = ("string", "number", "integer", "boolean", "null")
# Keywords that are not enforced are described, so that the model follows them anyway.
_TOLD = (
    *("format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum"),
    *("exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "default"),
)
_JSON_TEXT = "Written as a text that holds JSON"

Fits = Callable[[Any], bool]


@dataclass(frozen=True)
class StrictForm:
    """The schema with which a value is requested, and the function to read an answer back.

    Without `read`, the value is used as written. `is_json`: it is any value, as JSON in a text.
    """

    schema: Schema
    read: Callable[[Any], Any] = lambda value: value
    is_json: bool = False

    def map(self, change: Callable[[Schema], Schema]) -> "StrictForm":
        return replace(self, schema=change(self.schema))


def json_text(schema: Schema, fits: Fits) -> StrictForm:
    """Return the form of any value: JSON in a text."""

    def read(value: Any) -> Any:
        meant = _parsed(value)
        return value if fits(value) and not fits(meant) else meant

    return StrictForm(schema, read, is_json=True)


@dataclass(frozen=True)
class Property:
    """A property's form.

    A null means that it is left out, if it does not fit its schema, or the property is not `needed`
    and is written as JSON in a text. If a `needed` property that may be null is left out, its value
    is null.
    """

    form: StrictForm
    fits: Fits
    needed: bool = False

    def map(self, change: Callable[[Schema], Schema]) -> "Property":
        return replace(self, form=self.form.map(change))


class StrictForms:
    """A factory for the forms of the parts of one schema, which resolves references within it.

    An answer is read back within the budget.
    """

    def __init__(self, root: Any, budget: WorkBudget | None = None) -> None:
        self._root, self._budget = root, budget
        self._room = MAX_SCHEMAS

    def form(self, schema: Any, level: int = 0, within: tuple[str, ...] = ()) -> StrictForm:
        """Return the form of a value, to which the references `within` led."""
        self._room -= 1
        written = schema
        schema, within = self.target(schema, within)
        if not isinstance(schema, dict) or self._room < 0:
            return self._text(written)
        if "const" in schema or "enum" in schema:
            return self._choice(schema)
        for name in ("anyOf", "oneOf"):
            if name in schema and "properties" not in schema:
                return self._one_of(schema, schema[name], level, within)
        return self._of_type(schema, level, within)

    def target(self, schema: Any, within: tuple[str, ...] = ()) -> tuple[Any, tuple[str, ...]]:
        """Return the schema with a reference or lone `allOf` inlined; None if not possible."""
        while isinstance(schema, dict) and schema.keys() & {"$ref", "allOf"}:
            others = {key: each for key, each in schema.items() if key not in ("$ref", "allOf")}
            found = None
            match schema:
                case {"$ref": str(reference)} if "allOf" not in schema:
                    found = None if reference in within else target_of(reference, self._root)
                    within = (*within, reference)
                case {"allOf": [part]} if "$ref" not in schema:
                    found = part
            schema = {**found, **others} if isinstance(found, dict) else None
        return schema, within

    def fits(self, schema: Any) -> Fits:
        """Return whether a value fits this part of the whole schema."""

        def fits(value: Any) -> bool:
            try:
                return fits_schema(value, self._root, schema, self._budget)
            except CannotCheck:  # too large, or an invalid schema: validation reports it
                return False

        return fits

    def property(
        self, schema: Any, level: int, within: tuple[str, ...] = (), *, required: bool
    ) -> Property:
        """Return the form of a property; an optional one may be null instead."""
        form = self.form(schema, level, within)
        form = form if required else form.map(or_null)
        return Property(form, self.fits(schema), needed=required)

    def properties(
        self, schema: Schema, level: int, within: tuple[str, ...] = ()
    ) -> dict[str, Property]:
        """Return the forms of the properties that a schema of an object names."""
        named, required = schema.get("properties"), schema.get("required")
        needed = required if isinstance(required, list) else []
        return {
            name: self.property(each, level, within, required=name in needed)
            for name, each in (named if isinstance(named, dict) else {}).items()
        }

    def _of_type(self, schema: Schema, level: int, within: tuple[str, ...]) -> StrictForm:
        kind = "object" if "properties" in schema else "array" if "items" in schema else None
        kind = schema.get("type", kind)
        if isinstance(kind, list):
            # The parts have no descriptive keywords.
            own = {key: each for key, each in schema.items() if key not in ("description", *_TOLD)}
            return self._one_of(schema, [{**own, "type": each} for each in kind], level, within)
        if kind in _PLAIN:
            return StrictForm({"type": kind, **_told(schema)})
        if level >= MAX_LEVELS:
            return self._text(schema)
        items = None if "prefixItems" in schema else schema.get("items")
        if kind == "array" and isinstance(items, dict):
            return self._list(schema, self.form(items, level + 1, within))
        if kind != "object" or is_open(schema):
            return self._text(schema)
        properties = self.properties(schema, level + 1, within)

        def read_object(value: Any) -> Any:
            value = _parsed(value, dict)
            return read_properties(value, properties) if isinstance(value, dict) else value

        return StrictForm({**closed(properties), **_told(schema)}, read_object)

    def _list(self, schema: Schema, item: StrictForm) -> StrictForm:
        minimum = schema.get("minItems")
        is_some = isinstance(minimum, int | float) and minimum >= 1
        least = {"minItems": 1} if is_some else {}
        schema_of_list = {"type": "array", "items": item.schema, **least, **_told(schema)}

        def read_list(value: Any) -> Any:
            value = _parsed(value, list)
            return [item.read(each) for each in value] if isinstance(value, list) else value

        return StrictForm(schema_of_list, read_list)

    def _one_of(
        self, schema: Schema, parts: Any, level: int, within: tuple[str, ...]
    ) -> StrictForm:
        if not isinstance(parts, list) or not parts:
            return self._text(schema)
        branches = [(self.form(each, level, within), self.fits(each)) for each in parts]
        texts = [
            form
            for form, _ in branches
            if form.schema.get("type") == "string" and "enum" not in form.schema
        ]
        if len(texts) > 1 and any(form.is_json for form in texts):
            return self._text(schema)  # the branch of a text could not be determined
        if len(branches) == 1:
            return branches[0][0].map(lambda own: {**own, **_told(schema)})
        any_of = _any_of([form.schema for form, _ in branches])
        plain = [fits for form, fits in branches if not form.is_json]

        def read_first_fitting(value: Any) -> Any:
            if isinstance(value, str) and any(fits(value) for fits in plain):
                return value
            meant = ((form.read(value), fits) for form, fits in branches)
            return next((each for each, fits in meant if fits(each)), value)

        return StrictForm({**any_of, **_told(schema)}, read_first_fitting)

    def _choice(self, schema: Schema) -> StrictForm:
        """Return one of several values; providers accept no texts and numbers in one enum."""
        values = [schema["const"]] if "const" in schema else schema["enum"]
        if not isinstance(values, list) or any(isinstance(each, dict | list) for each in values):
            return self._text(schema)
        parts = [*_enum(values, "string", str), *_enum(values, "number", int, float)]
        flags = [each for each in values if isinstance(each, bool)]
        parts += [{"type": "boolean"}] if flags else []
        parts += [{"type": "null"}] if None in values else []
        if len(parts) == 1 and len(values) > MAX_CHOICES:
            known = readable_json(parts[0]["enum"])
            notes = [f"one of {known[:MAX_TOLD_CHARACTERS]}"]
            return StrictForm({"type": parts[0]["type"], **_described(schema, notes)})
        if not parts or len(values) > MAX_CHOICES:
            return self._text(schema)
        notes = [f"always {readable_json(flags[0])}"] if len(flags) == 1 else []
        return StrictForm({**_any_of(parts), **_described(schema, notes)})

    def _text(self, schema: Any) -> StrictForm:
        note, own = _JSON_TEXT, {}
        if isinstance(schema, dict):
            own = {key: each for key, each in schema.items() if key not in ("title", "description")}
        text = readable_json(own)
        if '"$ref"' in text and isinstance(self._root, dict):
            named = {key: self._root[key] for key in ("$defs", "definitions") if key in self._root}
            text = readable_json({**own, **named})
        if own and len(text) <= MAX_TOLD_CHARACTERS:
            note += f", which fits this JSON Schema: {text}"
        return json_text({"type": "string", **_described(schema, [note])}, self.fits(schema))


def read_properties(written: dict[str, Any], properties: dict[str, Property]) -> dict[str, Any]:
    """Return the properties as written, without those that were left out."""
    read: dict[str, Any] = {}
    for name, value in written.items():
        known = properties.get(name)
        if value is None and known is not None and known.form.is_json and not known.needed:
            continue
        value = value if known is None else known.form.read(value)
        if value is not None or known is None or known.fits(None):
            read[name] = value
    left = [name for name, each in properties.items() if each.needed and name not in written]
    return read | {name: None for name in left if properties[name].fits(None)}


def is_open(schema: Schema) -> bool:
    named = schema.get("properties")
    return not (isinstance(named, dict) and named) or takes_others(schema)


def takes_others(schema: Schema) -> bool:
    """Return whether the schema allows properties that it does not name: explicitly, or all."""
    others = schema.get("additionalProperties", schema.get("properties") is None)
    return others is True or isinstance(others, dict) or "patternProperties" in schema


def closed(properties: dict[str, Property], **own: Schema) -> Schema:
    """Return a closed object that has all of these properties; `own` come before them."""
    fields = {**own, **{name: each.form.schema for name, each in properties.items()}}
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def or_null(schema: Schema) -> Schema:
    """Return the schema, extended so that null fits as well."""
    kind = schema.get("type")
    if isinstance(kind, list) or kind == "null":
        return schema
    if kind in _PLAIN and "enum" not in schema and "const" not in schema:
        return {**schema, "type": [kind, "null"]}
    notes = {key: schema[key] for key in ("description",) if key in schema}
    own = {key: each for key, each in schema.items() if key not in notes}
    branches = own["anyOf"] if own.keys() == {"anyOf"} else [own]
    kinds = [each.get("type") for each in branches]
    if any(kind == "null" or (isinstance(kind, list) and "null" in kind) for kind in kinds):
        return schema
    return {**notes, "anyOf": [*branches, {"type": "null"}]}


def _any_of(parts: list[Schema]) -> Schema:
    """Return the one part, or a choice of them; null and a plain type become one list of types."""
    flat = [
        each for part in parts for each in (part["anyOf"] if part.keys() == {"anyOf"} else [part])
    ]
    others = [each for each in flat if each.get("type") != "null"]
    if not others:
        return {"type": "null"}
    combined = others[0] if len(others) == 1 else {"anyOf": others}
    return or_null(combined) if len(others) < len(flat) else combined


def _enum(values: list[Any], kind: str, *types: type) -> list[Schema]:
    found = [each for each in values if isinstance(each, types) and not isinstance(each, bool)]
    return [{"type": kind, "enum": found}] if found else []


def _told(schema: Schema) -> Schema:
    """Return the description, with the constraints that are not enforced."""
    notes = [
        f"{key}: {readable_json(schema[key])}"
        for key in _TOLD
        if key in schema and len(str(schema[key])) <= MAX_TOLD_CHARACTERS
    ]
    return _described(schema, notes)


def _described(schema: Any, notes: list[str]) -> Schema:
    description = schema.get("description") if isinstance(schema, dict) else None
    note = "; ".join(notes)
    if not isinstance(description, str) or not description:
        return {"description": note} if note else {}
    return {"description": f"{description} ({note})" if note else description}


def _parsed(value: Any, kind: type[Any] = object) -> Any:
    """Return the value of JSON in a text, if it is of the type; any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        meant = read_json(value)
    except ValueError:
        return value
    return meant if isinstance(meant, kind) else value


def refers(tools: list[ResolvedTool]) -> bool:
    """Return whether references are possible: some results are stored in the state."""
    return any(tool.output_path or "_outputPath" in tool.chosen for tool in tools)


def takes_any_text(schema: Any) -> bool:
    """Return whether every text fits the schema unchanged, so that a reference does too."""
    if not isinstance(schema, dict):
        return schema is True
    if any(key not in (*_NOTES, "anyOf") for key in schema):
        return False
    kinds = schema.get("type", "string")
    if "string" not in (kinds if isinstance(kinds, list) else [kinds]):
        return False
    branches = schema.get("anyOf")
    return not isinstance(branches, list) or any(takes_any_text(each) for each in branches)


def or_reference(schema: Any) -> Any:
    """Return the schema, extended so that a reference fits it as well."""
    if takes_any_text(schema) or not isinstance(schema, dict):
        return schema
    notes = {key: schema[key] for key in ("title", "description") if key in schema}
    own = {key: value for key, value in schema.items() if key not in notes}
    branches = own["anyOf"] if own.keys() == {"anyOf"} else [own]
    return {**notes, "anyOf": [*branches, REFERENCE]}
