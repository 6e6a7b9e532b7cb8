"""What a model that Ollama serves is shown of a tool's parameters."""

from enum import Enum
from typing import Any, Literal

import pytest
from ollama import Tool
from pydantic import BaseModel, Field

from holdfast.providers.ollama.schema import MAX_SCHEMAS, ollama_schema


class Size(Enum):
    """How large."""

    SMALL = "s"
    LARGE = "l"


class Address(BaseModel):
    """Where to."""

    city: str = Field(description="Its name.")


class NestedOrder(BaseModel):
    """As people write tools: models in models."""

    kind: Literal["order"]
    to: Address
    size: Size | None = None
    others: list[Address] = []


def kept(parameters: Any) -> Any:
    """What the types of Ollama's server keep of the parameters; those of its package are alike."""
    tool = Tool.model_validate({"function": {"name": "t", "parameters": parameters}})
    assert tool.function
    assert tool.function.parameters
    return tool.function.parameters.model_dump(exclude_none=True)


def test_a_model_within_a_model_is_shown_with_its_fields() -> None:
    properties = ollama_schema(NestedOrder.model_json_schema())["properties"]
    assert properties["to"]["properties"] == {
        "city": {"type": "string", "description": "Its name.", "title": "City"}
    }
    assert properties["others"]["items"]["required"] == ["city"]
    assert properties["size"]["anyOf"][0]["enum"] == ["s", "l"]
    assert properties["kind"]["enum"] == ["order"]
    assert "$ref" not in str(ollama_schema(NestedOrder.model_json_schema()))


def test_the_server_keeps_what_it_is_sent() -> None:
    sent = kept(ollama_schema(NestedOrder.model_json_schema()))
    assert sent["properties"]["to"] == {"type": "object", "description": "Where to."}
    assert sent["properties"]["kind"] == {"type": "string", "enum": ["order"]}
    assert kept(NestedOrder.model_json_schema())["properties"]["to"] == {}, (
        "unfolding is not needed"
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": ["object", "null"]}, {"type": "object", "properties": {}}),
        ({"properties": {"a": True}}, {"type": "object", "properties": {"a": {}}}),
        (
            {"properties": {"a": {"anyOf": [True, {"type": "null"}]}}},
            {"type": "object", "properties": {"a": {"anyOf": [{}, {"type": "null"}]}}},
        ),
        (
            {"properties": {"a": {"oneOf": [{"const": 1}, {"const": None}]}}},
            {"type": "object", "properties": {"a": {"anyOf": [{"enum": [1]}, {"enum": [None]}]}}},
        ),
        (
            {
                "properties": {"a": {"type": "string"}},
                "required": ["a"],
                "allOf": [{"properties": {"b": {"type": "number"}}, "required": ["b", "a"]}],
            },
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "number"}},
                "required": ["b", "a"],
            },
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/x~1y%20z", "description": "An A."}}}
            | {"$defs": {"x/y z": {"type": "integer", "description": "Any."}}},
            {"type": "object", "properties": {"a": {"type": "integer", "description": "An A."}}},
        ),
        (
            {"properties": {"a": {"$ref": "https://x/y"}, "b": {"$ref": "#/$defs/none"}}},
            {"type": "object", "properties": {"a": {}, "b": {}}},
        ),
        (
            {"properties": {"a": {"items": True, "minimum": 3, "default": 4}}},
            {"type": "object", "properties": {"a": {"items": True, "minimum": 3, "default": 4}}},
        ),
    ],
)
def test_the_same_is_written_in_keywords_that_the_server_has(written: Any, expected: Any) -> None:
    assert ollama_schema(written) == expected


def test_a_property_may_have_the_name_of_a_word() -> None:
    written = {"properties": {"$ref": {"type": "string"}, "const": {"type": "number"}}}
    assert ollama_schema(written) == {"type": "object", **written}


def test_a_schema_within_itself_is_shown_by_its_kind() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    shape = ollama_schema(
        {"properties": {"first": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    )
    assert shape["properties"]["first"] == {
        "type": "object",
        "properties": {"next": {"type": "object"}},
    }
    assert ollama_schema({"properties": {"a": {"$ref": "#"}}})["properties"]["a"]["properties"] == {
        "a": {}
    }


def test_definitions_that_double_each_other_are_written_out_up_to_a_bound() -> None:
    definitions = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(60)
    }
    shape = ollama_schema({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
    assert str(shape).count("anyOf") <= MAX_SCHEMAS


def test_a_deep_schema_is_shown_up_to_a_bound() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"items": deep}
    assert str(ollama_schema({"properties": {"a": deep}})).count("items") < 30
