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

A `$dynamicRef` names the outermost schema of its anchor among the resources that led to it (JSON
Schema Core 2020-12, section 8.2.3.2). Which these are is known from the document alone, so a copy
of each schema for each dynamic scope needs plain references alone. Nothing is fetched.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from holdfast.schemas.json_schema import DRAFT, ONE_SCHEMA, SEVERAL_SCHEMAS, target_of
from holdfast.validation.problems import Where

_DRAFTS = {
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
}
# The keywords of any draft that hold one schema, and those that hold several.
HOLDS_ONE = (*ONE_SCHEMA, "additionalItems")
HOLDS_SEVERAL = (*SEVERAL_SCHEMAS, "dependencies")
_BUILT_IN = DRAFT.removesuffix("schema")
# What stays beside a `$ref` where a draft ignores its siblings.
BESIDE_REF = ("$ref", "title", "description", "default", "examples", "$defs", "definitions")
MAX_COPIES = 1_000
_ADDRESSES = ("$id", "$anchor", "$dynamicAnchor", "$vocabulary")
_DEFINITIONS = ("$defs", "definitions")

# By the name of a dynamic anchor, the outermost schema of this name.
Scope = Mapping[str, dict[str, Any]]


def draft_of(uri: Any) -> int | None:
    """Return the draft that a `$schema` names, as a number or a year; None for an unknown one."""
    return _DRAFTS.get(str(uri).rstrip("#").partition("://")[2])


class Addresses:
    """The addresses of a document.

    `has_dynamic_scope`: a dynamic reference in it can name one of several schemas.
    """

    def __init__(self, root: Any) -> None:
        # By the address of a schema, with an anchor behind `#`.
        self._schemas: dict[str, Any] = {"": root}
        # By the id of a schema, the address of the resource around it.
        self._bases: dict[int, str] = {}
        # By the address of a resource, its dynamic anchors.
        self._dynamic: dict[str, dict[str, dict[str, Any]]] = {}
        self.has_dynamic_scope = False
        self._add(root, "", 2020)

    def _add(self, schema: Any, base: str, draft: int) -> None:
        if not isinstance(schema, dict):
            return
        draft = draft_of(schema.get("$schema")) or draft
        ignores_siblings = draft <= 7 and "$ref" in schema
        if isinstance(address := schema.get("$id"), str) and not ignores_siblings:
            address = _joined(base, address)
            self._schemas.setdefault(address.rstrip("#"), schema)
            base = urldefrag(address).url
        self._bases[id(schema)] = base
        for key in ("$anchor", "$dynamicAnchor"):
            if key in schema:
                self._schemas.setdefault(f"{base}#{schema[key]}", schema)
        if isinstance(name := schema.get("$dynamicAnchor"), str):
            self.has_dynamic_scope |= any(name in names for names in self._dynamic.values())
            self._dynamic.setdefault(base, {}).setdefault(name, schema)
        self.has_dynamic_scope |= str(schema.get("$ref")).startswith(_BUILT_IN)
        for key, part in _parts(schema):
            if not ignores_siblings or key in BESIDE_REF:
                self._add(part, base, draft)

    def base_of(self, schema: Any) -> str:
        return self._bases.get(id(schema), "")

    def find(self, reference: str, base: str) -> Any:
        """Return what a reference names, or None."""
        address, fragment = urldefrag(_joined(base, reference))
        if address.startswith(_BUILT_IN) and address not in self._schemas and address in REGISTRY:
            self._add(REGISTRY.contents(address), "", 2020)
        if fragment[:1] in ("", "/"):
            return target_of(f"#{fragment}", self._schemas.get(address))
        return self._schemas.get(f"{address}#{unquote(fragment)}")

    def dynamic_anchors(self, base: str) -> dict[str, dict[str, Any]]:
        return self._dynamic.get(base, {})


def _joined(base: str, reference: str) -> str:
    return base + reference if reference[:1] == "#" else urljoin(base, reference)


def _parts(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in schema.items():
        if key in HOLDS_ONE and not isinstance(value, list):
            yield key, value
        elif key in (*HOLDS_ONE, *HOLDS_SEVERAL) and isinstance(value, dict | list):
            parts = value.values() if isinstance(value, dict) else value
            yield from ((key, part) for part in parts)


class TooManyCopies(ValueError):
    """The document has more dynamic scopes than copies are made for."""


class _Copies:
    """The copies of a document's schemas, by schema and scope."""

    def __init__(self, root: dict[str, Any], addresses: Addresses) -> None:
        self._addresses = addresses
        self._names: dict[tuple[int, frozenset[tuple[str, int]]], str] = {}
        self._uncopied: list[tuple[str, Any, Scope]] = []
        made = self._copy(root, addresses.dynamic_anchors(addresses.base_of(root)))
        definitions = {}
        while self._uncopied:
            name, schema, scope = self._uncopied.pop()
            definitions[name] = self._copy(schema, scope)
        self.result = {**made, "$defs": definitions}

    def _copy(self, schema: Any, scope: Scope) -> Any:
        if not isinstance(schema, dict):
            return schema
        base = self._addresses.base_of(schema)
        if "$id" in schema:
            scope = {**self._addresses.dynamic_anchors(base), **scope}
        made: dict[str, Any] = {}
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                name = self._target(key, value, base, scope)
                made |= {key: value} if name is None else {"$ref": f"#/$defs/{name}"}
            elif key in _DEFINITIONS:
                continue  # those that are used are copied
            elif key in (*HOLDS_ONE, *HOLDS_SEVERAL) and isinstance(value, list):
                made[key] = [self._copy(each, scope) for each in value]
            elif key in HOLDS_SEVERAL and isinstance(value, dict):
                made[key] = {name: self._copy(each, scope) for name, each in value.items()}
            elif key in HOLDS_ONE:
                made[key] = self._copy(value, scope)
            elif key not in _ADDRESSES:
                made[key] = value
        return made

    def _target(self, key: str, reference: str, base: str, scope: Scope) -> str | None:
        """Return the name of the copy that a reference is to, or None if its target is missing."""
        target, anchor = self._addresses.find(reference, base), urldefrag(reference).fragment
        if target is None:
            return None
        is_dynamic = isinstance(target, dict) and target.get("$dynamicAnchor") == anchor
        if key == "$dynamicRef" and is_dynamic:
            target = scope.get(anchor, target)
        around = self._addresses.base_of(target)
        scope = {**self._addresses.dynamic_anchors(around), **scope}
        copy = id(target), frozenset((name, id(each)) for name, each in scope.items())
        if copy not in self._names:
            if len(self._names) == MAX_COPIES:
                raise TooManyCopies
            self._names[copy] = f"copy{len(self._names) + 1}"
            self._uncopied.append((self._names[copy], target, scope))
        return self._names[copy]


def to_current_draft(schema: Any) -> Any:
    """Return the schema as draft 2020-12."""
    try:
        addresses = Addresses(schema)
        if addresses.has_dynamic_scope:
            schema = _Copies(schema, addresses).result
            addresses = Addresses(schema)
        return _Translation(schema, addresses).result
    except TooManyCopies:
        raise
    except ValueError:  # an address that is none, which is reported where it is referred to
        return schema


class _Translation:
    """A document, the addresses in it, and the places of its schemas in the translation."""

    def __init__(self, root: Any, addresses: Addresses) -> None:
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
        draft = draft_of(schema.get("$schema")) or draft
        if draft <= 7 and "$ref" in schema:
            schema = {key: each for key, each in schema.items() if key in BESIDE_REF}
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
