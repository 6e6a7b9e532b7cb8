"""How much of what is costly to hold an answer to Anthropic takes in one schema.

Its guide counts properties that may be missing, and choices of types or branches ("Structured
outputs", "Schema complexity limits", "Explicit limits"). Beyond that a request is refused with 400.
"""

from collections.abc import Iterator
from typing import Any

MAX_OPTIONAL = 24
MAX_UNIONS = 16

Schema = dict[str, Any]
_NULL = {"type": "null"}


def is_within_limits(schema: Schema) -> bool:
    """Whether an answer can be held to a schema of so many optional properties and unions."""
    return _optional(schema) <= MAX_OPTIONAL and _unions(schema) <= MAX_UNIONS


def with_fewer_unions(schema: Schema) -> Schema:
    """The schema with as many unions as are allowed, if that can be: of the others, those that are
    a union with null alone may be missing instead."""
    spare = [_unions(schema) - MAX_UNIONS]
    return _with_fewer(schema, spare)


def _with_fewer(schema: Schema, spare: list[int]) -> Schema:
    """The schema with up to `spare` fewer unions, which is counted down."""
    made = dict(schema)
    if isinstance(schema.get("items"), dict):
        made["items"] = _with_fewer(schema["items"], spare)
    if "anyOf" in schema:
        made["anyOf"] = [_with_fewer(each, spare) for each in schema["anyOf"]]
    if "properties" in schema:
        inner = {name: _with_fewer(each, spare) for name, each in schema["properties"].items()}
        required = list(schema["required"])
        for name, each in inner.items():
            if spare[0] > 0 and name in required and (alone := _without_null(each)) is not None:
                spare[0] -= 1
                inner[name] = alone
                required.remove(name)
        made |= {"properties": inner, "required": required}
    return made


def _without_null(schema: Schema) -> Schema | None:
    """What else than null the value may be, where that is one thing."""
    branches = schema.get("anyOf", [])
    others = [each for each in branches if each != _NULL]
    if len(branches) != 2 or len(others) != 1:
        return None
    return {**others[0], **{key: each for key, each in schema.items() if key != "anyOf"}}


def _unions(schema: Schema) -> int:
    return sum("anyOf" in part for part in _parts(schema))


def _optional(schema: Schema) -> int:
    return sum(
        name not in part["required"]
        for part in _parts(schema)
        for name in part.get("properties", ())
    )


def _parts(schema: Schema) -> Iterator[Schema]:
    yield schema
    groups = [schema.get(group, {}) for group in ("properties", "$defs", "definitions")]
    within = [each for group in groups for each in group.values()]
    within += schema.get("anyOf", [])
    within += [schema["items"]] if "items" in schema else []
    for each in within:
        yield from _parts(each)
