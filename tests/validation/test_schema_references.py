"""A dynamic reference names the outermost schema of its anchor on the way to it."""

from typing import Any

import pytest

from holdfast.schemas.json_schema import DRAFT
from holdfast.validation.schema_check import schema_problems
from holdfast.validation.schema_drafts import MAX_COPIES, to_current_draft
from holdfast.validation.validator import fits

LIST = {
    "$id": "list",
    "type": "array",
    "items": {"$dynamicRef": "#item"},
    "$defs": {"any": {"$dynamicAnchor": "item"}},
}
LISTS = {
    "$id": "https://example.com/lists",
    "properties": {
        "any": {"$ref": "list"},
        "numbers": {
            "$id": "numbers",
            "$ref": "list",
            "$defs": {"number": {"$dynamicAnchor": "item", "type": "number"}},
        },
        "texts": {
            "$id": "texts",
            "$ref": "list",
            "$defs": {"text": {"$dynamicAnchor": "item", "type": "string"}},
        },
    },
    "$defs": {"list": LIST},
}
TREE = {
    "$id": "https://example.com/strict-tree",
    "$dynamicAnchor": "node",
    "$ref": "tree",
    "unevaluatedProperties": False,
    "$defs": {
        "tree": {
            "$id": "tree",
            "$dynamicAnchor": "node",
            "properties": {"children": {"items": {"$dynamicRef": "#node"}}, "value": True},
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "value", "is_valid"),
    [
        (LISTS, {"any": [1, "a"], "numbers": [1], "texts": ["a"]}, True),
        (LISTS, {"numbers": ["a"]}, False),
        (LISTS, {"texts": [1]}, False),
        (TREE, {"children": [{"value": 1}]}, True),
        (TREE, {"children": [{"children": [{"valeu": 1}]}]}, False),
        ({"properties": {"schema": {"$ref": DRAFT}}}, {"schema": {"minLength": 1}}, True),
        ({"properties": {"schema": {"$ref": DRAFT}}}, {"schema": {"minLength": -1}}, False),
        ({"$ref": DRAFT}, {"properties": {"a": {"type": "number", "items": {"type": 1}}}}, False),
    ],
)
def test_it_resolves_in_its_scope(schema: Any, value: Any, is_valid: bool) -> None:
    assert schema_problems(schema) == []
    assert fits(value, to_current_draft(schema)) == is_valid


def test_too_many_scopes_are_refused() -> None:
    def choice(n: int) -> dict[str, Any]:
        inner = {"$ref": f"r{n + 1}"} if n < 11 else {"$dynamicRef": "#a0"}
        ways = [
            {"$id": f"w{n}-{m}", "$defs": {"x": {"$dynamicAnchor": f"a{n}"}}, "allOf": [inner]}
            for m in range(2)
        ]
        return {
            "$id": f"r{n}",
            "anyOf": [{"$ref": way["$id"]} for way in ways],
            "$defs": {str(n): way for n, way in enumerate(ways)},
        }

    schema = {
        "$id": "https://example.com/",
        "$ref": "r0",
        "$defs": {str(n): choice(n) for n in range(12)},
    }
    [problem] = schema_problems(schema)
    assert problem.reason == f"it has more than {MAX_COPIES} dynamic scopes"
