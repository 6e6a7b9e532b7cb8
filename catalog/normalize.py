"""Normalize a written tool: move every meta-property to the top, as a value.

A tool has its meta-properties at the top as values, or under `properties` as schemas: a `const`
fixes a value, and some can be left to the model. The original places are kept, so that a problem
names the place where the value is written.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.runtime.settings_files.file_problems import InvalidValueError
from holdfast.schemas.phrases import suggest_names
from holdfast.schemas.tool import CHOSEN_BY_MODEL, META_PROPERTIES
from holdfast.validation.problems import ValueProblem, Where
from holdfast.validation.schema_check import schema_problems
from holdfast.validation.schema_keywords import tool_keyword_problems

_OUR_SCHEMAS = ("tool.schema.json", "urn:holdfast:tool")


@dataclass
class NormalizedTool:
    """A tool with every meta-property at the top, as a value."""

    schema: dict[str, Any]
    fixed: dict[str, Any] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)
    # The original places of the meta-properties under `properties`.
    moved: dict[str, Where] = field(default_factory=dict)
    faults: list[ValueProblem] = field(default_factory=list)

    def at_source(self, fault: ValueProblem) -> ValueProblem:
        """Return the problem at the place where the value is written."""
        if fault.where and fault.where[0] in self.moved:
            return replace(fault, where=(*self.moved[str(fault.where[0])], *fault.where[1:]))
        return fault


def normalize_tool(written: Any) -> NormalizedTool:
    """Move the meta-properties of a tool to the top.

    Raises:
        InvalidValueError: the tool is not an object. Other problems are in the result's `faults`.
    """
    if not isinstance(written, dict):
        raise InvalidValueError([ValueProblem((), "this is no tool", "write a JSON Schema object")])
    properties = written.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    unread = list(tool_keyword_problems(written))
    folded = NormalizedTool(
        schema=_without_meta(written, properties, [fault.where[0] for fault in unread]),
        fixed={key: value for key, value in written.items() if key in META_PROPERTIES},
        faults=unread,
    )
    folded.faults.extend(_unknown_meta(written, ()))
    folded.faults.extend(_unknown_meta(properties, ("properties",)))
    for key in [key for key in properties if key in META_PROPERTIES]:
        folded.faults.extend(_fold_one(key, properties[key], folded))
    return folded


def _fold_one(key: str, schema: Any, folded: NormalizedTool) -> Iterator[ValueProblem]:
    where: Where = ("properties", key)
    if key in folded.fixed:
        yield ValueProblem(
            where, f"`{key}` is set here and at the top of the tool", "keep one of them"
        )
    elif key == "_output":
        folded.fixed[key], folded.moved[key] = schema, where
    elif isinstance(schema, dict) and "const" in schema:
        folded.fixed[key], folded.moved[key] = schema["const"], (*where, "const")
    elif key in CHOSEN_BY_MODEL:
        folded.chosen[key] = schema
        yield from (fault.under(*where) for fault in _chosen_faults(schema))
    else:
        fix = f'fix it: {{"const": …}}, or "{key}": … at the top of the tool'
        yield ValueProblem(where, f"`{key}` is not for the model to choose", fix)


def _chosen_faults(schema: Any) -> list[ValueProblem]:
    if isinstance(schema, dict | bool):
        return schema_problems(schema)
    return [
        ValueProblem((), "this is no schema", "write a JSON Schema, or fix the value with `const`")
    ]


def _unknown_meta(keys: Mapping[str, Any], where: Where) -> Iterator[ValueProblem]:
    for key in keys:
        if key.startswith("_") and key not in META_PROPERTIES:
            fix = suggest_names(key, META_PROPERTIES)
            yield ValueProblem((*where, key), f"unknown meta-property `{key}`", fix)


def _without_meta(
    written: dict[str, Any], properties: dict[str, Any], left_out: list[str | int]
) -> dict[str, Any]:
    plain = {
        key: value
        for key, value in written.items()
        if not key.startswith("_") and key not in left_out and not _names_ours(key, value)
    }
    if isinstance(plain.get("properties"), dict):
        plain["properties"] = {
            key: value for key, value in properties.items() if not key.startswith("_")
        }
    if isinstance(plain.get("required"), list):
        plain["required"] = [key for key in plain["required"] if not str(key).startswith("_")]
    return plain


def _names_ours(key: str, value: Any) -> bool:
    """Return whether the key is a `$schema` for editors, and not a dialect of JSON Schema."""
    return key == "$schema" and isinstance(value, str) and value.endswith(_OUR_SCHEMAS)
