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
from urllib.parse import unquote, urldefrag, urljoin

from holdfast.schemas.json_schema import ONE_SCHEMA, SEVERAL_SCHEMAS, target_of
from holdfast.validation.problems import Where
from holdfast.validation.validator import ANCHORS

_DRAFTS = {
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
}
# What stays beside a `$ref` where a draft ignores its siblings.
_BESIDE_REF = ("$ref", "title", "description", "default", "examples", "$defs", "definitions")


def draft_of(uri: Any) -> int | None:
    """Return the draft that a `$schema` names, as a number or a year; None for an unknown one."""
    return _DRAFTS.get(str(uri).rstrip("#").partition("://")[2])


def to_current_draft(schema: Any) -> Any:
    """Return the schema as draft 2020-12."""
    try:
        return _Translation(schema).result
    except ValueError:  # an address that is none, which is reported where it is referred to
        return schema


class _Translation:
    """A document, the addresses in it, and the places of its schemas in the translation."""

    def __init__(self, root: Any) -> None:
        # By the address of a schema, with an anchor behind `#`.
        self._schemas: dict[str, Any] = {"": root}
        # By the id of a schema.
        self._places: dict[int, Where] = {}
        # The schemas with a reference, and the address around them.
        self._referring: list[tuple[dict[str, Any], str, bool]] = []
        self.result = self._translated(root, 2020, "", ())
        for schema, base, is_dynamic in self._referring:
            if (target := self._target(schema["$ref"], base)) is not None:
                schema["$ref"] = target
            elif is_dynamic:  # to be reported as it is written
                schema["$dynamicRef"] = schema.pop("$ref")

    def _translated(self, schema: Any, draft: int, base: str, place: Where) -> Any:
        if not isinstance(schema, dict):
            return schema
        self._places[id(schema)] = place
        draft = draft_of(schema.get("$schema")) or draft
        if draft <= 7 and "$ref" in schema:
            schema = {key: each for key, each in schema.items() if key in _BESIDE_REF}
        base = self._base_of(schema, base)
        made: dict[str, Any] = {}
        for key, value in _renamed(_with_null(schema), draft):
            if key in ONE_SCHEMA:
                made[key] = self._translated(value, draft, base, (*place, key))
            elif key in SEVERAL_SCHEMAS and isinstance(value, dict | list):
                steps = value.items() if isinstance(value, dict) else enumerate(value)
                inner = {
                    step: self._translated(each, draft, base, (*place, key, step))
                    for step, each in steps
                }
                made[key] = inner if isinstance(value, dict) else [*inner.values()]
            else:
                made[key] = value
        if isinstance(made.get("$ref"), str):
            self._referring.append((made, base, "$dynamicRef" in schema))
        return made

    def _base_of(self, schema: dict[str, Any], base: str) -> str:
        """Note the addresses of a schema, and return that around its parts."""
        if isinstance(address := schema.get("$id"), str):
            address = _joined(base, address)
            self._schemas.setdefault(address.rstrip("#"), schema)
            base = urldefrag(address).url
        for anchor in ANCHORS:
            if anchor in schema:
                self._schemas[f"{base}#{schema[anchor]}"] = schema
        return base

    def _target(self, reference: str, base: str) -> str | None:
        """Return the reference to the place of its target, or None if that is not found."""
        address, fragment = urldefrag(_joined(base, reference))
        if fragment[:1] in ("", "/"):
            found = target_of(f"#{fragment}", self._schemas.get(address))
        else:
            found = self._schemas.get(f"{address}#{unquote(fragment)}")
        place = self._places.get(id(found))
        if place is None:
            return None
        escaped = {ord("~"): "~0", ord("/"): "~1", ord("%"): "%25"}
        return "/".join(["#", *(str(step).translate(escaped) for step in place)])


def _joined(base: str, reference: str) -> str:
    return base + reference if reference[:1] == "#" else urljoin(base, reference)


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
