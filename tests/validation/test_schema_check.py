"""Schemas that cannot be used: each mistake with its place and its fix."""

from typing import Any

import pytest

from holdfast.validation.schema_check import schema_problems

MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"required": True}, "write the list of the required properties' names beside `properties`"),
    ({"items": [{}]}, "write one schema; a list of schemas is `prefixItems`"),
    ({"additionalProperties": "no"}, "write a schema"),
    ({"additionalProperties": "false"}, "write false without quotes"),
    ({"properties": {"a": {"items": "True"}}}, "write true without quotes"),
    ({"minimum": "0"}, "write 0 without quotes"),
    ({"uniqueItems": "true"}, "write true without quotes"),
    ({"type": "string", "nullable": "true"}, "write true without quotes"),
    ({"required": "true"}, "write the list of the required properties' names"),
    ({"type": None}, 'the type of nothing is written in quotes: "null"'),
    ({"type": 5}, "the types are "),
    ({"required": ["a", "a"]}, "keep one of them"),
    ({"anyOf": []}, "write a schema in it, or leave it out"),
    ({"multipleOf": 0}, "write more than 0"),
    ({"maxLength": -1}, "write 0 or more"),
    ({"pattern": "(a)\\1"}, "repeat the pattern of the group"),
    ({"allOf": [{"pattern": "(a{200}){100}"}] * 60}, "use smaller counts, or `minLength` and"),
    ({"$ref": False}, "write a text"),
    ({"$ref": "#/allOf/" + "9" * 5_000, "allOf": [{}]}, "write it under this schema's own"),
    ({"properties": {}, "required": [{}]}, "write a text"),
    ({"$ref": "other.json#/a"}, "nothing is fetched: copy what it names under `$defs`"),
]


@pytest.mark.parametrize(("schema", "fix"), MISTAKES)
def test_a_mistake_in_a_schema_is_refused_with_its_fix(schema: dict[str, Any], fix: str) -> None:
    [problem] = schema_problems(schema)
    assert problem.fix.startswith(fix)
