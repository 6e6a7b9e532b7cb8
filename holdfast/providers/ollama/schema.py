"""A tool's parameters in the keywords of JSON Schema that an Ollama server passes to a model.

The server parses tools into types of its own (`ToolProperty` in `api/types.go`). Keywords without a
field there, such as `$ref`, `const`, `oneOf` and `allOf`, are lost; a schema that is `true`, or
several types at the top, makes the whole request a bad one. So these are expressed by keywords that
the types have. Arguments are checked by the tool's own schema anyway.
"""

from collections.abc import Iterator
from typing import Any

from holdfast.providers.tool_schemas import cached_by_value
from holdfast.schemas.json_schema import target_of

# Definitions can use each other without end: expanded, they have a bound.
MAX_SCHEMAS = 2_000
MAX_DEPTH = 24

_EXPANDED = ("$ref", "allOf", "$defs", "definitions")


@cached_by_value
def ollama_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a tool as they are sent."""
    return {"properties": {}, **_Expansion(parameters).schema(parameters), "type": "object"}


class _Expansion:
    """Expands the references of a schema, and all that must hold at once."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._room = MAX_SCHEMAS

    def schema(self, schema: Any, within: tuple[str, ...] = (), depth: int = 0) -> dict[str, Any]:
        """Return the schema, expanded. `within` are the references that led to it."""
        self._room -= 1
        if not isinstance(schema, dict) or self._room < 0 or depth > MAX_DEPTH:
            return {}
        own = {
            name: self._part(name, value, within, depth)
            for name, value in schema.items()
            if name not in _EXPANDED
        }
        if "const" in own:
            own |= {"enum": [own["const"]]}
            del own["const"]
        if "oneOf" in own:
            own = {"anyOf": own["oneOf"], **own}
            del own["oneOf"]
        for other in self._others(schema, within, depth):
            # Both hold at once; where they differ, the schema's own keywords win.
            merged = {**other, **own}
            if "properties" in other and "properties" in own:
                merged["properties"] = {**other["properties"], **own["properties"]}
            if "required" in other and "required" in own:
                merged["required"] = list(dict.fromkeys([*other["required"], *own["required"]]))
            own = merged
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
        reference = schema.get("$ref")
        if isinstance(reference, str):
            target = target_of(reference, self._root)
            if reference not in within:
                yield self.schema(target, (*within, reference), depth + 1)
            elif isinstance(target, dict) and "type" in target:
                yield {"type": target["type"]}
        parts = schema.get("allOf")
        for part in parts if isinstance(parts, list) else ():
            yield self.schema(part, within, depth + 1)
