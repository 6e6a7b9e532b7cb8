"""The keywords of JSON Schema, draft 2020-12: for editors, and to report a misspelt one."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

from pydantic.json_schema import GenerateJsonSchema

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
# Not of the draft, but common, and alike enough to one of its keywords to be taken for a slip.
EXTENSIONS = ("comment", "example", "id", "nullable", "discriminator", "xml", "externalDocs")

JSON_SCHEMA: Final = "JsonSchema"
"""The name under `$defs` of what describes a JSON Schema."""

IS_JSON_SCHEMA: Final = {"type": "object", "format": "json-schema"}
"""What represents a JSON Schema in a model; where it is published, a reference to it."""

PLACEHOLDER: Final = "YOUR ANSWER"
MAX_EXAMPLE_CHARACTERS: Final = 300
_MAX_EXAMPLE_DEPTH = 3
_MAX_EXAMPLE_PROPERTIES = 10
# An end of code, and a word in braces: Temporal's UI replaces some, and a model may write both.
_UNSAFE = re.compile(r"`|\{\w")

_BOUNDS = (
    *("format", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "default"),
)

_SCHEMA = {"$ref": f"#/$defs/{JSON_SCHEMA}"}
# Of a tool, `$schema` may also name the schema that an editor is to check it with.
_DRAFTS = r"^https?://json-schema\.org/(draft-0[67]|draft/20(19-09|20-12))/schema#?$"
_DIALECT = rf"{_DRAFTS}|(^|/)tool\.schema\.json$|^urn:holdfast:tool$"
_SCHEMAS = {"type": "array", "items": _SCHEMA, "minItems": 1}
_NAMED = {"type": "object", "additionalProperties": _SCHEMA}
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_NUMBER = {"type": "number"}
_COUNT = {"type": "integer", "minimum": 0}
_NAMES = {"type": "array", "items": _TEXT, "uniqueItems": True}
_TYPE = {"enum": list(TYPES)}
_ANY: dict[str, Any] = {}

_KEYWORDS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("$schema", {"type": "string", "pattern": _DIALECT}, f"The dialect: {DRAFT}."),
    ("$id", _TEXT, "The schema's own address."),
    ("$anchor", _TEXT, "A name by which the schema is referred to."),
    ("$dynamicAnchor", _TEXT, "A name that a schema around this one may take over."),
    (
        "$ref",
        {"type": "string", "pattern": "^#"},
        "The schema at another place of this one, such as `#/$defs/money`.",
    ),
    ("$dynamicRef", _TEXT, "The schema that has taken over a dynamic anchor."),
    ("$vocabulary", {"type": "object"}, "The vocabularies of a dialect."),
    ("$comment", _TEXT, "A note to the readers of the schema."),
    ("$defs", _NAMED, "Schemas that this one refers to, by name."),
    ("definitions", _NAMED, "What `$defs` was called before."),
    ("dependencies", {"type": "object"}, "What `dependentSchemas` was called before."),
    ("title", _TEXT, "A short name."),
    ("description", _TEXT, "What it is, for the model as well."),
    ("default", _ANY, "The value where none is given."),
    ("examples", {"type": "array"}, "Values that fit."),
    ("deprecated", _FLAG, "It should not be used any more."),
    ("readOnly", _FLAG, "It is not written to."),
    ("writeOnly", _FLAG, "It is not read back."),
    (
        "type",
        {"anyOf": [_TYPE, {"type": "array", "items": _TYPE, "minItems": 1, "uniqueItems": True}]},
        "The type of the value, or a list of types.",
    ),
    ("enum", {"type": "array"}, "The values that fit."),
    ("const", _ANY, "The one value that fits."),
    ("format", _TEXT, "What the text is, such as `date-time` or `email`."),
    ("contentEncoding", _TEXT, "How the text encodes bytes, such as `base64`."),
    ("contentMediaType", _TEXT, "The media type of what the text holds."),
    ("contentSchema", _SCHEMA, "The schema of what the text holds."),
    ("pattern", {"type": "string", "format": "regex"}, "A regular expression for the text."),
    ("minLength", _COUNT, "The fewest characters."),
    ("maxLength", _COUNT, "The most characters."),
    ("minimum", _NUMBER, "The least number."),
    ("maximum", _NUMBER, "The greatest number."),
    ("exclusiveMinimum", _NUMBER, "The number is greater than this."),
    ("exclusiveMaximum", _NUMBER, "The number is less than this."),
    ("multipleOf", {"type": "number", "exclusiveMinimum": 0}, "The number is a multiple of this."),
    ("items", _SCHEMA, "The schema of each item."),
    ("prefixItems", _SCHEMAS, "The schemas of the first items, one by one."),
    ("contains", _SCHEMA, "The schema of at least one item."),
    ("minContains", _COUNT, "How many items fit `contains` at least."),
    ("maxContains", _COUNT, "How many items fit `contains` at most."),
    ("minItems", _COUNT, "The fewest items."),
    ("maxItems", _COUNT, "The most items."),
    ("uniqueItems", _FLAG, "No item comes twice."),
    ("unevaluatedItems", _SCHEMA, "The schema of the items that no other keyword is about."),
    ("properties", _NAMED, "The schema of each property, by its name."),
    ("required", _NAMES, "The names of the properties that must be there."),
    ("additionalProperties", _SCHEMA, "The schema of the other properties; `false`: none."),
    ("patternProperties", _NAMED, "Schemas of properties by a regular expression."),
    ("propertyNames", _SCHEMA, "The schema of the names."),
    ("minProperties", _COUNT, "The fewest properties."),
    ("maxProperties", _COUNT, "The most properties."),
    (
        "dependentRequired",
        {"type": "object", "additionalProperties": _NAMES},
        "Which properties must be there if one is.",
    ),
    ("dependentSchemas", _NAMED, "Which schemas must fit if a property is there."),
    ("unevaluatedProperties", _SCHEMA, "The schema of the properties that no other is about."),
    ("allOf", _SCHEMAS, "Schemas that all fit."),
    ("anyOf", _SCHEMAS, "Schemas of which one or more fit."),
    ("oneOf", _SCHEMAS, "Schemas of which exactly one fits."),
    ("not", _SCHEMA, "A schema that does not fit."),
    ("if", _SCHEMA, "Where this fits, `then` must; elsewhere, `else`."),
    ("then", _SCHEMA, "The schema where `if` fits."),
    ("else", _SCHEMA, "The schema where `if` does not fit."),
)
KEYWORDS: Final = {name: {**kind, "description": text} for name, kind, text in _KEYWORDS}
"""Each keyword, and the schema of its value."""
ONE_SCHEMA: Final = tuple(name for name, kind, _ in _KEYWORDS if kind is _SCHEMA)
"""The keywords that hold one schema."""
SEVERAL_SCHEMAS: Final = tuple(
    name for name, kind, _ in _KEYWORDS if kind is _NAMED or kind is _SCHEMAS
)
"""The keywords that hold several schemas, by name or in a list."""

DEFINITION: Final[dict[str, Any]] = {
    "title": "JSON Schema",
    "description": "A JSON Schema, draft 2020-12; `true` is for any value, `false` for none.",
    "type": ["object", "boolean"],
    "properties": KEYWORDS,
}
"""What a JSON Schema looks like. Keywords of one's own are allowed."""


class UntitledSchema(GenerateJsonSchema):
    """Describe a model without the titles that pydantic derives from names, which add nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return that no field's name becomes its title."""
        return False


def target_of(reference: str, root: Any) -> Any:
    """Return the part of a schema that a reference such as `#/$defs/money` names, or None."""
    place, *path = unquote(reference).split("/")
    found = root if place == "#" else None
    for key in path:
        key = key.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            is_index = key.isdecimal() and len(key) < 10 and int(key) < len(found)
            found = found[int(key)] if is_index else None
        else:
            found = found.get(key) if isinstance(found, dict) else None
    return found


def example_json(schema: Any) -> str:
    """Return the form of a value as JSON, with placeholders that a person replaces.

    It is short, in one line, and safe within backticks; it may not fit a pattern or a range.
    """
    text = json.dumps(_example(schema, schema, 0))
    is_usable = len(text) <= MAX_EXAMPLE_CHARACTERS and not _UNSAFE.search(text)
    return text if is_usable else json.dumps(PLACEHOLDER)


def answer_fields(schema: Any, within: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the description of each field of a form, or of forms by their keys."""
    for name, field in schema.get("properties", {}).items():
        if "properties" in field:
            yield from answer_fields(field, f"{within}{name}.")
            continue
        titled = field.get("oneOf") or field.get("items", {}).get("anyOf") or []
        choices = [f"{each['const']} ({each['title']})" for each in titled]
        choices += field.get("enum") or field.get("items", {}).get("enum") or []
        bounds = [f"{key} {field[key]}" for key in _BOUNDS if key in field]
        kind = field["type"] if isinstance(field.get("type"), str) else "null"
        parts = [field.get("title"), field.get("description"), None if choices else kind]
        parts += [f"one of {', '.join(map(str, choices))}" if choices else None, *bounds]
        parts.append(None if name in schema.get("required", []) else "optional")
        yield f"{within}{name}", "; ".join(filter(None, parts))


def _example(schema: Any, root: Any, depth: int) -> Any:
    if not isinstance(schema, dict):
        return PLACEHOLDER
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    inner = [*schema.get("examples", []), *schema.get("enum", [])]
    if inner:
        return inner[0]
    branches = [target_of(schema["$ref"], root)] if "$ref" in schema else []
    branches += (each for key in ("allOf", "anyOf", "oneOf") for each in schema.get(key, []))
    properties, kind = schema.get("properties"), schema.get("type", "")
    if properties and depth < _MAX_EXAMPLE_DEPTH:
        shown = islice(properties.items(), _MAX_EXAMPLE_PROPERTIES)
        return {name: _example(each, root, depth + 1) for name, each in shown}
    if branches and depth < _MAX_EXAMPLE_DEPTH:
        return _example(branches[0], root, depth + 1)
    kind = kind if isinstance(kind, str) else next(iter(kind), "")
    least = schema.get("minimum", 0)
    plain = {"object": {}, "array": [], "integer": least, "number": least, "boolean": False}
    return {**plain, "null": None}.get(kind, PLACEHOLDER)
