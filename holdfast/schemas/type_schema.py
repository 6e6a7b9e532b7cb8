"""JSON Schemas of the models, for editors and clients in other languages.

Input is described in the form that is accepted here; the answers of a run, in the form in which
they are written.
"""

import ast
import inspect
import json
import re
import sys
from datetime import timedelta
from functools import cache
from itertools import pairwise
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from holdfast.schemas import log_entry
from holdfast.schemas.base import format_duration
from holdfast.schemas.json_schema import (
    DEFINITION,
    IS_JSON_SCHEMA,
    JSON_SCHEMA,
    KEYWORDS,
    UntitledSchema,
)
from holdfast.schemas.tool import ToolDefinition

EVENTS = tuple(kind for kind in log_entry.Entry.__subclasses__() if kind.event)


class _Published(UntitledSchema):
    """Fields described by the docstrings below them.

    Read here, since pydantic's `use_attribute_docstrings` reads the source of each class in every
    program that starts: a quarter of its time.
    """

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        properties = made.get("properties", {})
        for name, text in _field_docstrings(schema["cls"]).items():
            if (alias := schema["cls"].model_fields[name].alias) in properties:
                properties[alias]["description"] = text
        return made

    def encode_default(self, dft: Any) -> Any:
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


def _field_docstrings(model: type[Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        written = _class_definitions(each.__module__).get(each.__name__)
        for field, below in pairwise(written.body if written else ()):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ) if name in model.model_fields:
                    found[name] = inspect.cleandoc(text)
    return found


@cache
def _class_definitions(module: str) -> dict[str, ast.ClassDef]:
    if not module.startswith("holdfast."):
        return {}
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}


def described(kind: Any, mode: Literal["validation", "serialization"]) -> dict[str, Any]:
    """Return the schema of a type, as those who write or read its values see it."""
    made = TypeAdapter(kind).json_schema(mode=mode, schema_generator=_Published)
    definitions = made.get("$defs", {})
    for each in (made, *definitions.values()):
        # A tool may hold the keywords of JSON Schema as well.
        if each.get("title") == ToolDefinition.__name__:
            each["properties"] = {**KEYWORDS, **each["properties"]}
    for name, each in definitions.items():
        each["title"] = re.sub("(?<!^)(?=[A-Z])", " ", name).capitalize()
    pointed: dict[str, Any] = json.loads(json.dumps(made), object_hook=_pointing)
    if f"#/$defs/{JSON_SCHEMA}" in json.dumps(pointed):
        pointed["$defs"] = {**pointed.get("$defs", {}), JSON_SCHEMA: DEFINITION}
    return pointed


def _pointing(value: dict[str, Any]) -> dict[str, Any]:
    if not IS_JSON_SCHEMA.items() <= value.items():
        return value
    rest = {key: each for key, each in value.items() if key not in IS_JSON_SCHEMA}
    return {**rest, "$ref": f"#/$defs/{JSON_SCHEMA}"}
