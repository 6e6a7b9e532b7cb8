"""A tool's parameters in those words of JSON Schema that an Ollama server hands on to a model.

The server takes tools apart into types of its own (`ToolProperty` in `api/types.go`). What these
have no field for, such as `$ref`, `const`, `oneOf` and `allOf`, is lost on the way to the model; a
schema that is `true`, or several types at the top, makes the whole request a bad one. So the same
is said in the words that they have. Arguments are checked against the tool's own schema anyway.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from holdfast.providers.schema_cache import cached_by_value

# Definitions can use each other without end, or nearly so: written out, they have a bound.
MAX_SCHEMAS = 2_000
MAX_DEPTH = 24

_WRITTEN_OUT = ("$ref", "allOf", "$defs", "definitions")


@cached_by_value
def ollama_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a tool as they are sent."""
    return {"properties": {}, **_Document(parameters).schema(parameters), "type": "object"}


class _Document:
    """Writes out what stands in a schema: the references, and all that must hold at once."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._room = MAX_SCHEMAS

    def schema(self, schema: Any, within: tuple[str, ...] = (), depth: int = 0) -> dict[str, Any]:
        """The schema, written out. `within` are the references that led to it."""
        self._room -= 1
        if not isinstance(schema, dict) or self._room < 0 or depth > MAX_DEPTH:
            return {}
        own = {
            name: self._part(name, value, within, depth)
            for name, value in schema.items()
            if name not in _WRITTEN_OUT
        }
        own = _in_their_words(own)
        for other in self._others(schema, within, depth):
            own = _both(other, own)
        return own

    def _part(self, name: str, value: Any, within: tuple[str, ...], depth: int) -> Any:
        match name, value:
            case "properties", dict():
                return {key: self.schema(each, within, depth + 1) for key, each in value.items()}
            case "anyOf" | "oneOf", list():
                return [self.schema(each, within, depth + 1) for each in value]
            case "items", dict():
                return self.schema(value, within, depth + 1)
        return value

    def _others(
        self, schema: dict[str, Any], within: tuple[str, ...], depth: int
    ) -> Iterator[dict[str, Any]]:
        """What must hold besides the schema's own words."""
        reference = schema.get("$ref")
        if isinstance(reference, str):
            target = self._target(reference)
            if reference in within:
                yield _kind(target)
            else:
                yield self.schema(target, (*within, reference), depth + 1)
        parts = schema.get("allOf")
        for part in parts if isinstance(parts, list) else ():
            yield self.schema(part, within, depth + 1)

    def _target(self, reference: str) -> Any:
        """What a reference within the document stands for; None where there is nothing."""
        place, *path = unquote(reference).split("/")
        found: Any = self._root if place == "#" else None
        for key in path:
            key = key.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        return found


def _in_their_words(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with a fixed value as a choice of one, and `oneOf` as `anyOf`."""
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
        del schema["const"]
    if "oneOf" in schema:
        schema = {"anyOf": schema["oneOf"], **schema}
        del schema["oneOf"]
    return schema


def _kind(target: Any) -> dict[str, Any]:
    """What is said of a schema that stands within itself."""
    return {"type": target["type"]} if isinstance(target, dict) and "type" in target else {}


def _both(other: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Two schemas that hold at once, as one; where they differ, the second."""
    both = {**other, **own}
    if "properties" in other and "properties" in own:
        both["properties"] = {**other["properties"], **own["properties"]}
    if "required" in other and "required" in own:
        both["required"] = list(dict.fromkeys([*other["required"], *own["required"]]))
    return both
