"""References in schemas: a value that a tool asks for may be one that is kept already.

A model that is held to a schema cannot write `†state.total` where a number is asked for, unless the
schema says so. What a reference represents is checked by the tool's own schema, once it is read.
"""

from typing import Any

from holdfast.schemas.tool import Schema, Tool

REFERENCE: Schema = {"type": "string", "description": "or a reference such as †state.path"}
# What leaves a text as free as it was.
_NOTES = ("type", "title", "description", "default", "examples", "deprecated")


def refers(tools: list[Tool]) -> bool:
    """Return whether there is anything to refer to: some results are kept in the state."""
    return any(tool.output_path or "_outputPath" in tool.chosen for tool in tools)


def takes_any_text(schema: Any) -> bool:
    """Return whether every text fits the schema as it is, so that a reference does too."""
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
    """Return the schema, which a reference fits as well."""
    if takes_any_text(schema) or not isinstance(schema, dict):
        return schema
    notes = {key: schema[key] for key in ("title", "description") if key in schema}
    own = {key: value for key, value in schema.items() if key not in notes}
    branches = own["anyOf"] if own.keys() == {"anyOf"} else [own]
    return {**notes, "anyOf": [*branches, REFERENCE]}
