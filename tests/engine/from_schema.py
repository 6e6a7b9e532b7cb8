"""Values that fit a JSON Schema, generated; and such a value as a model would write it in an answer
that is forced into another schema."""

import json
from typing import Any

from hypothesis import strategies as st
from jsonschema import Draft202012Validator

# With what could be taken for something else: JSON, numbers, nothing at all.
TEXTS = st.text(max_size=8) | st.sampled_from(["5", "true", "null", "[1]", '{"a": 1}', '"q"', ""])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


def valid(schema: Any, root: Any = None) -> st.SearchStrategy[Any]:
    """Values that fit the schema."""
    root = schema if root is None else root
    if not isinstance(schema, dict):
        return ANYTHING
    if "$ref" in schema:
        found = root
        for key in schema["$ref"].removeprefix("#/").split("/"):
            found = found[key]
        return valid(found, root)
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return st.one_of([valid(each, root) for each in schema[name]])
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return st.one_of([valid({**schema, "type": kind}, root) for kind in kinds])
    return _of_type(kinds, schema, root)


def _of_type(kind: Any, schema: dict[str, Any], root: Any) -> st.SearchStrategy[Any]:
    match kind:
        case "string":
            texts = TEXTS.filter(lambda text: len(text) >= schema.get("minLength", 0))
            formats = {"uuid": st.uuids().map(str), "uri": st.just("https://example.com/a")}
            return formats.get(schema.get("format", ""), texts)
        case "integer" | "number":
            least = schema.get("minimum", schema.get("exclusiveMinimum", -9) + 1)
            whole = st.integers(least, schema.get("maximum", least + 50))
            return whole if kind == "integer" else whole | whole.map(lambda n: n + 0.0)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(valid(schema.get("items", True), root), max_size=3)
        case "object":
            return _objects(schema, root)
    return ANYTHING


def _objects(schema: dict[str, Any], root: Any) -> st.SearchStrategy[Any]:
    named = schema.get("properties", {})
    parts = {name: valid(each, root) for name, each in named.items()}
    required = schema.get("required", ())
    needed = {name: each for name, each in parts.items() if name in required}
    optional = {name: each for name, each in parts.items() if name not in required}
    known = st.fixed_dictionaries(needed, optional=optional)
    others = schema.get("additionalProperties", False)
    if others is False:
        return known
    names = TEXTS.filter(lambda name: name not in named and name[:1] != "_")
    further = st.dictionaries(names, valid(others, root), max_size=2)
    return st.builds(lambda one, other: {**other, **one}, known, further)


def written(value: Any, schema: dict[str, Any]) -> Any:
    """A value as a model writes it that is held to the schema: with null for what it leaves out,
    and as JSON in a text where that is asked for."""
    for each in schema.get("anyOf", ()):
        made = written(value, each)
        if Draft202012Validator(each).is_valid(made) and not _is_reference(each):
            return made
    match value:
        case dict() if schema.get("type") == "object":
            return {name: written(value.get(name), s) for name, s in schema["properties"].items()}
        case list() if schema.get("type") == "array":
            return [written(each, schema["items"]) for each in value]
        case None if "null" in schema.get("type", ()):
            return None
        case _ if "text that holds" in schema.get("description", ""):
            return json.dumps(value)
    return value


def _is_reference(schema: dict[str, Any]) -> bool:
    return "reference such as" in schema.get("description", "")
