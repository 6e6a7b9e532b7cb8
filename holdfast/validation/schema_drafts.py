"""Translate a JSON Schema of an older draft to draft 2020-12, which is stored and validated with.

The draft is that of `$schema`: 06, 07, 2019-09 or 2020-12, which is the default. A reference to an
address or an anchor within the same document becomes one to its place: `#/$defs/money`.

| older | 2020-12 |
| --- | --- |
| a list as `items`, `additionalItems` | `prefixItems`, `items` |
| `dependencies` (of every draft) | `dependentRequired`, `dependentSchemas` |
| keywords beside a `$ref` (to 07) | none but notes |
| `$recursiveRef` (2019-09) | `$ref` |
| `nullable: true` beside a `type` (OpenAPI 3.0) | a `type` with `null` |
"""

from collections.abc import Iterator
from typing import Any

from holdfast.schemas.json_schema import ONE_SCHEMA, SEVERAL_SCHEMAS
from holdfast.validation import schema_references
from holdfast.validation.problems import Where


def to_current_draft(schema: Any) -> Any:
    """Return the schema as draft 2020-12."""
    try:
        addresses = schema_references.Addresses(schema)
        if addresses.has_dynamic_scope:
            schema = schema_references.without_dynamic_scope(schema, addresses)
            addresses = schema_references.Addresses(schema)
        return _Translation(schema, addresses).result
    except schema_references.TooManyCopies:
        raise
    except ValueError:  # an address that is none, which is reported where it is referred to
        return schema


class _Translation:
    """A document, the addresses in it, and the places of its schemas in the translation."""

    def __init__(self, root: Any, addresses: schema_references.Addresses) -> None:
        self._addresses = addresses
        # By the id of a schema.
        self._places: dict[int, Where] = {}
        # The schemas with a reference, and the address around them.
        self._referring: list[tuple[dict[str, Any], str, bool]] = []
        self.result = self._translated(root, 2020, ())
        for schema, base, is_dynamic in self._referring:
            if (target := self._target(schema["$ref"], base)) is not None:
                schema["$ref"] = target
            elif is_dynamic:  # to be reported as it is written
                schema["$dynamicRef"] = schema.pop("$ref")

    def _translated(self, schema: Any, draft: int, place: Where) -> Any:
        if not isinstance(schema, dict):
            return schema
        self._places[id(schema)] = place
        base = self._addresses.base_of(schema)
        draft = schema_references.draft_of(schema.get("$schema")) or draft
        if draft <= 7 and "$ref" in schema:
            schema = {
                key: each for key, each in schema.items() if key in schema_references.BESIDE_REF
            }
        made: dict[str, Any] = {}
        for key, value in _renamed(_with_null(schema), draft):
            if key in ONE_SCHEMA:
                made[key] = self._translated(value, draft, (*place, key))
            elif key in SEVERAL_SCHEMAS and isinstance(value, dict | list):
                steps = value.items() if isinstance(value, dict) else enumerate(value)
                inner = {
                    step: self._translated(each, draft, (*place, key, step)) for step, each in steps
                }
                made[key] = inner if isinstance(value, dict) else [*inner.values()]
            else:
                made[key] = value
        if isinstance(made.get("$ref"), str):
            self._referring.append((made, base, "$dynamicRef" in schema))
        return made

    def _target(self, reference: str, base: str) -> str | None:
        """Return the reference to the place of its target, or None if that is not found."""
        place = self._places.get(id(self._addresses.find(reference, base)))
        if place is None:
            return None
        escaped = {ord("~"): "~0", ord("/"): "~1", ord("%"): "%25"}
        return "/".join(["#", *(str(step).translate(escaped) for step in place)])


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with `nullable` as a part of its type."""
    names = [types] if isinstance(types := schema.get("type"), str) else types
    if schema.get("nullable") is not True or not isinstance(names, list):
        return schema
    own = {key: each for key, each in schema.items() if key != "nullable"}
    return {**own, "type": names if "null" in names else [*names, "null"]}


def _renamed(schema: dict[str, Any], draft: int) -> Iterator[tuple[str, Any]]:
    has_prefix = draft < 2020 and isinstance(schema.get("items"), list)
    for key, value in schema.items():
        match key:
            case "$schema" | "$id" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor":
                pass
            case "$recursiveRef" | "$dynamicRef":
                # One that is no text is reported as it is written.
                yield key if key == "$dynamicRef" and not isinstance(value, str) else "$ref", value
            case "items" if has_prefix:
                yield "prefixItems", value
            case "additionalItems":
                if has_prefix:
                    yield "items", value
            case "dependencies" if isinstance(value, dict):
                names = {name: each for name, each in value.items() if isinstance(each, list)}
                if names:
                    yield "dependentRequired", names
                if schemas := {name: value[name] for name in value if name not in names}:
                    yield "dependentSchemas", schemas
            case _:
                yield key, value
