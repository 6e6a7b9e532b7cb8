"""A schema in the words that Gemini takes: JSON Schema itself, but for a few of its ways.

Of the keywords that it has no use for, Gemini refuses none. It refuses a `$ref` that stands beside
other words, and knows neither `definitions` nor `const` nor `allOf` (API reference,
`responseJsonSchema`). These are said in words that it knows. Arguments and answers are checked
against the whole schema anyway.
"""

from typing import Any

from holdfast.providers.schema_cache import cached_by_value

_DEFINITIONS = "#/definitions/"
_OF_ONE = ("properties", "$defs")
_OF_MANY = ("anyOf", "oneOf", "prefixItems")
_NESTED = ("items", "additionalProperties")


@cached_by_value
def gemini_schema(schema: Any) -> Any:
    """The schema as it is sent."""
    return _said(schema)


def _said(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    words = {_name(name): _value(_name(name), value) for name, value in schema.items()}
    words.pop("$schema", None)
    return _apart(_chosen(words))


def _name(name: str) -> str:
    return "$defs" if name == "definitions" else name


def _value(name: str, value: Any) -> Any:
    match value:
        case dict() if name in _OF_ONE:
            return {key: _said(each) for key, each in value.items()}
        case list() if name in (*_OF_MANY, "allOf"):
            return [_said(each) for each in value]
        case dict() if name in _NESTED:
            return _said(value)
        case str() if name == "$ref" and value.startswith(_DEFINITIONS):
            return f"#/$defs/{value.removeprefix(_DEFINITIONS)}"
    return value


def _chosen(words: dict[str, Any]) -> dict[str, Any]:
    """A fixed value as a choice of one. An `enum` holds texts and numbers alone."""
    const = words.get("const")
    if isinstance(const, str | int | float) and not isinstance(const, bool):
        kind = "string" if isinstance(const, str) else "number"
        words = {"type": kind, **words, "enum": [const]}
        del words["const"]
    return words


def _apart(words: dict[str, Any]) -> dict[str, Any]:
    """A reference, or the one schema of an `allOf`, as a choice of one beside the other words."""
    match words:
        case {"$ref": reference, **others} if any(not name.startswith("$") for name in others):
            return {**others, "anyOf": [{"$ref": reference}]}
        case {"allOf": [only], **others}:
            return {"anyOf": [only], **others}
    return words
