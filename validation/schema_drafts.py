"""Translate a JSON Schema of an older draft to draft 2020-12, which is stored and validated with.

The draft is that of `$schema`: 04, 06, 07, 2019-09 or 2020-12, which is the default. A reference to
an address or an anchor within the same document becomes one to its place: `#/$defs/money`.

| older | 2020-12 |
| --- | --- |
| a list as `items`, `additionalItems` | `prefixItems`, `items` |
| `dependencies` (of every draft) | `dependentRequired`, `dependentSchemas` |
| keywords beside a `$ref` (to 07) | none but notes |
| `exclusiveMinimum: true`, `id` (04) | `exclusiveMinimum: n`, `$id` |
| `$recursiveRef` (2019-09) | `$ref` |
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from holdfast.schemas.json_schema import DRAFT
from holdfast.validation.problems import Where

DRAFTS = {
    **{f"json-schema.org/draft-0{n}/schema": n for n in (4, 6, 7)},
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
}
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_ONE = (
    *("items", "additionalItems", "contains", "additionalProperties", "propertyNames", "not"),
    *("if", "then", "else", "unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)
# What stays beside a `$ref` where a draft ignores its siblings.
_BESIDE_REF = ("$ref", "$id", "title", "description", "default", "examples", "$defs", "definitions")


def draft_of(uri: Any) -> int | None:
    """Return the draft that a `$schema` names, as a number or a year; None for an unknown one."""
    return DRAFTS.get(str(uri).rstrip("#").partition("://")[2])


def to_current_draft(schema: Any) -> Any:
    """Return the schema as draft 2020-12; itself where there is nothing to change or to read."""
    if not isinstance(schema, dict) or draft_of(schema.get("$schema", DRAFT)) is None:
        return schema
    try:
        document = _Document(schema)
        return document.translated(schema) if document.differs else schema
    except ValueError:  # an address that is none, which is reported where it is referred to
        return schema


class _Document:
    """A written schema: the addresses in it, and the place of each part in its translation."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.differs = False
        self._resources: dict[str, Any] = {"": root}
        # By the address of a resource and the name of an anchor.
        self._anchors: dict[tuple[str, str], Any] = {}
        # By the id of a part: its draft, the address around it, and its place.
        self._parts: dict[int, tuple[int, str, Where]] = {}
        self._read(root, 2020, "", ())

    def _read(self, schema: Any, draft: int, base: str, place: Where) -> None:
        if not isinstance(schema, dict) or id(schema) in self._parts:
            return
        draft = draft_of(schema.get("$schema", "")) or draft
        is_reference = draft <= 7 and "$ref" in schema
        address = None if is_reference else schema.get("id" if draft == 4 else "$id")
        if isinstance(address, str):
            whole, anchor = urldefrag(urljoin(base, address))
            base = whole if address[:1] != "#" else base
            self._resources.setdefault(base, schema)
            if anchor:
                self._anchors[base, anchor] = schema
        for key in ("$anchor", "$dynamicAnchor"):
            if key in schema:
                self._anchors[base, str(schema[key])] = schema
        self._parts[id(schema)] = (draft, base, place)
        self.differs |= draft < 2020 or "dependencies" in schema or isinstance(address, str)
        for key, step, part in _parts(schema):
            new_key = _renamed(schema, key, part, draft)
            inner = (*place, new_key) if step is None else (*place, new_key, step)
            self._read(part, draft, base, inner)

    def translated(self, schema: Any) -> Any:
        """Return a part as draft 2020-12."""
        if not isinstance(schema, dict) or id(schema) not in self._parts:
            return schema
        draft, base, _ = self._parts[id(schema)]
        ignores_siblings = draft <= 7 and isinstance(schema.get("$ref"), str)
        made: dict[str, Any] = {}
        for key, value in schema.items():
            if not ignores_siblings or key in _BESIDE_REF:
                self._translate(schema, key, value, draft, base, made)
        return made

    def _translate(
        self, schema: dict[str, Any], key: str, value: Any, draft: int, base: str, made: Any
    ) -> None:
        match key, value:
            case (("$ref" | "$recursiveRef" | "$dynamicRef"), str()):
                made["$ref"] = self._target(value, base)
            case (("$schema" | "$id" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor"), _):
                pass
            case "id", str() if draft == 4:
                pass
            case (("exclusiveMinimum" | "exclusiveMaximum"), bool()):
                bound = schema.get(key.replace("exclusiveM", "m"))
                made.update({key: bound} if value and bound is not None else {})
            case (("minimum" | "maximum"), _) if schema.get(f"exclusive{key.capitalize()}") is True:
                pass
            case "additionalItems", _ if not isinstance(schema.get("items"), list):
                pass
            case "dependencies", dict():
                names = {name: each for name, each in value.items() if isinstance(each, list)}
                schemas = {name: each for name, each in value.items() if name not in names}
                for new_key, each in (("dependentRequired", names), ("dependentSchemas", schemas)):
                    inner = {name: self.translated(part) for name, part in each.items()}
                    made.update({new_key: inner} if inner else {})
            case _:
                made[_renamed(schema, key, value, draft)] = self._inner(key, value)

    def _inner(self, key: str, value: Any) -> Any:
        if key in _NAMED and isinstance(value, dict):
            return {name: self.translated(each) for name, each in value.items()}
        if key in (*_LISTS, "items") and isinstance(value, list):
            return [self.translated(each) for each in value]
        return self.translated(value) if key in _ONE else value

    def _target(self, reference: str, base: str) -> str:
        """Return the reference to the place of its target; as written if that is not found."""
        address, fragment = urldefrag(
            reference if reference[:1] == "#" else urljoin(base, reference)
        )
        address = base if reference[:1] == "#" else address
        found = self._resources.get(address)
        if fragment and fragment[0] != "/":
            found = self._anchors.get((address, unquote(fragment)))
        for key in unquote(fragment).split("/")[1:]:
            step = key.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                found = found[int(step)] if step.isdecimal() and int(step) < len(found) else None
            else:
                found = found.get(step) if isinstance(found, dict) else None
        if id(found) not in self._parts:
            return reference
        escaped = {ord("~"): "~0", ord("/"): "~1", ord("%"): "%25"}
        return "/".join(
            ["#", *(str(step).translate(escaped) for step in self._parts[id(found)][2])]
        )


def _parts(schema: dict[str, Any]) -> Iterator[tuple[str, str | int | None, Any]]:
    """Yield the schemas in a schema: the keyword, the step below it if there is one, the part."""
    for key, value in schema.items():
        if isinstance(value, dict) and key in (*_NAMED, "dependencies"):
            yield from ((key, name, each) for name, each in value.items())
        elif isinstance(value, list) and key in (*_LISTS, "items"):
            yield from ((key, n, each) for n, each in enumerate(value))
        elif key in _ONE:
            yield key, None, value


def _renamed(schema: dict[str, Any], key: str, part: Any, draft: int) -> str:
    """Return the name of a keyword in draft 2020-12."""
    is_list = draft < 2020 and isinstance(schema.get("items"), list)
    if key == "items" and is_list:
        return "prefixItems"
    if key == "additionalItems" and is_list:
        return "items"
    return "dependentSchemas" if key == "dependencies" else key
