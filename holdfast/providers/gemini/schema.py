"""A JSON Schema as Gemini accepts it.

Gemini ignores keywords that it does not use. It rejects a `$ref` beside other keywords, and knows
neither `definitions` nor `const` nor `allOf` (API reference, `responseJsonSchema`), so these are
expressed by keywords that it knows. Arguments and answers are checked by the whole schema anyway.
"""

from typing import Any

from holdfast.providers.tool_schemas import cached_by_value

_DEFINITIONS = "#/definitions/"
_SCHEMAS_BY_NAME = ("properties", "$defs", "definitions")
_SCHEMA_LISTS = ("anyOf", "oneOf", "prefixItems", "allOf")
_SCHEMAS = ("items", "additionalProperties")


@cached_by_value
def gemini_schema(schema: Any) -> Any:
    """Return the schema as it is sent."""
    return _converted(schema)


def _converted(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    keywords: dict[str, Any] = {}
    for name, value in schema.items():
        match value:
            case dict() if name in _SCHEMAS_BY_NAME:
                value = {key: _converted(each) for key, each in value.items()}
            case list() if name in _SCHEMA_LISTS:
                value = [_converted(each) for each in value]
            case dict() if name in _SCHEMAS:
                value = _converted(value)
            case str() if name == "$ref" and value.startswith(_DEFINITIONS):
                value = f"#/$defs/{value.removeprefix(_DEFINITIONS)}"
        keywords["$defs" if name == "definitions" else name] = value
    keywords.pop("$schema", None)
    const = keywords.get("const")
    if isinstance(const, str | int | float) and not isinstance(const, bool):
        # An `enum` has only texts and numbers.
        kind = "string" if isinstance(const, str) else "number"
        keywords = {"type": kind, **keywords, "enum": [const]}
        del keywords["const"]
    match keywords:
        case {"$ref": reference, **others} if any(not name.startswith("$") for name in others):
            return {**others, "anyOf": [{"$ref": reference}]}
        case {"allOf": [only], **others}:
            return {"anyOf": [only], **others}
    return keywords
