"""References in schemas: a stored value may be used as a tool's argument.

A model whose answer is held to a schema can write `†state.total` in place of a number only if the
schema allows it. The tool's own schema checks the value of the reference once it is resolved.
"""

from typing import Any

from holdfast.schemas.tool import Schema, Tool

REFERENCE: Schema = {"type": "string", "description": "or a reference such as †state.path"}
# The keywords that do not restrict a text.
_NOTES = ("type", "title", "description", "default", "examples", "deprecated")


def refers(tools: list[Tool]) -> bool:
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
