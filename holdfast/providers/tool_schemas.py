"""The parameters of tools as providers accept them, and what models do not see of them.

A provider that refuses one tool's schema refuses the request, and with it each turn of a run. What
it refuses is left out and described instead; calls are checked by the whole schema anyway. The
refusals of OpenAI and Anthropic are those of their servers ("schema must have type 'object' and not
have …", "array schema missing items", "input_schema does not support …"); the keywords are those of
Gemini's API reference (`parametersJsonSchema`) and of Ollama's `ToolProperty` (`api/types.go`).
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.validation.content_cache import cached_by_content
from holdfast.validation.schema_keywords import subschemas

Schema = dict[str, Any]
# Of a tool's parameters and description: what a provider accepts.
Acceptance = Callable[[Schema, str], tuple[Schema | None, str]]

_NOT_AT_TOP = {
    "openai": ("anyOf", "oneOf", "allOf", "enum", "const", "not"),
    "anthropic": ("anyOf", "oneOf", "allOf"),
    "bedrock": ("anyOf", "oneOf", "allOf"),
    # Clients send a tool of `holdfast mcp` to any provider.
    "mcp": ("anyOf", "oneOf", "allOf", "enum", "const", "not", "if", "then", "else"),
}
_OPENAI = ("openai", "mcp")
# Amazon's Nova models ignore a tool with these at the top of its schema ("Troubleshooting tool
# calls"); they restrict nothing, or are checked by the run.
_DROPPED_AT_TOP = {"bedrock": ("$schema", "title", "description", "additionalProperties")}
_RARE = (
    *("pattern", "minLength", "maxLength", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("uniqueItems", "contains", "patternProperties", "propertyNames", "minProperties"),
    *("maxProperties", "dependentRequired", "dependentSchemas", "not", "if"),
)
_NOT_SHOWN = {
    "gemini": _RARE,
    "ollama": (*_RARE, "format", "minimum", "maximum", "minItems", "maxItems", "prefixItems"),
}
_OPENAI_DESCRIPTION_CHARACTERS = 1_024
_ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")


def declared_tools(
    offers: list[tuple[str, Schema, str]], field: str, accepted: Acceptance
) -> list[Schema]:
    """Return tools, each as a name, its parameters as `field`, and a description, if any."""
    declared = []
    for name, schema, text in offers:
        parameters, description = accepted(_without_display(schema), text)
        fields = {"name": name, field: parameters, "description": description}
        declared.append({key: value for key, value in fields.items() if value})
    return declared


def _without_display(schema: Schema) -> Schema:
    """Return the schema without the keywords that only screens read: a provider may refuse them."""
    plain: Schema = json.loads(json.dumps(schema))
    for _, part in subschemas(plain):
        if part.get("format") == "money":
            for keyword in ("format", "currency", "minorUnits"):
                part.pop(keyword, None)
    return plain


@cached_by_content
def arguments_schema(provider: str, schema: Schema, description: str) -> tuple[Schema, str]:
    """Return the schema and the description of a tool for a provider that refuses some."""
    moved = {name: schema[name] for name in _NOT_AT_TOP[provider] if name in schema}
    left_out = (*moved, *_DROPPED_AT_TOP.get(provider, ()))
    plain = {name: value for name, value in schema.items() if name not in left_out}
    plain = {**(with_items(plain) if provider in _OPENAI else plain), "type": "object"}
    if not moved:
        return plain, description
    note = "The arguments must also fit this JSON Schema: "
    note += json.dumps(moved, ensure_ascii=False)
    described = "\n\n".join(filter(None, (description, note)))
    if provider in _OPENAI and len(described) > _OPENAI_DESCRIPTION_CHARACTERS:
        own = plain.get("description")
        return {**plain, "description": f"{own} {note}" if own else note}, description
    return plain, described


def with_items(schema: Schema) -> Schema:
    """Return the schema with `items` in each list, which OpenAI requires."""
    changed: Schema = json.loads(json.dumps(schema))  # shares no part, and can be changed
    for _, part in subschemas(changed):
        if _lacks_items(part):
            part["items"] = {}
    return changed


def schema_notes(provider: str, schema: Schema, description: str = "") -> Iterator[str]:
    """Yield what a provider does not accept of a tool, or does not show to a model."""
    if provider == "openai" and len(description) > _OPENAI_DESCRIPTION_CHARACTERS:
        most = f"write at most {_OPENAI_DESCRIPTION_CHARACTERS}"
        yield f"a description of {len(description)} characters may be refused: {most}"
    for keyword in _NOT_AT_TOP.get(provider, ()):
        if keyword in schema:
            yield f"`{keyword}` at the top is refused, and is in the description instead"
    for where, part in subschemas(schema):
        place = f"`{'.'.join(map(str, where))}`" if where else "the top"
        # The items of a list reach Ollama's models as they are.
        hidden = () if provider == "ollama" and "items" in where else _NOT_SHOWN.get(provider, ())
        for keyword in hidden:
            if keyword in part:
                yield f"`{keyword}` at {place} is not shown to the model"
        if provider == "openai" and _lacks_items(part):
            yield f"the list at {place} has no `items`, and is sent with `items: {{}}`"
        enum, names = part.get("enum", ()), part.get("properties", ())
        if provider == "gemini" and not all(type(each) in (str, int, float) for each in enum):
            yield f"the `enum` at {place} may be refused: write texts and numbers alone"
        if provider in ("anthropic", "bedrock") and not all(map(_ANTHROPIC_NAME.match, names)):
            fix = "write letters, digits, `_`, `.` and `-`, at most 64"
            yield f"a name of the properties at {place} is refused: {fix}"


def _lacks_items(schema: Any) -> bool:
    kinds = schema.get("type")
    return "array" in (kinds if isinstance(kinds, list) else [kinds]) and "items" not in schema
