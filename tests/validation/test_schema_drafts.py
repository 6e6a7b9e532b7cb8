"""Schemas of older drafts mean, as draft 2020-12, what they mean in their own."""

from typing import Any

import pytest
from jsonschema import validators

from holdfast.validation.schema_check import schema_problems
from holdfast.validation.schema_drafts import to_current_draft
from holdfast.validation.validator import fits

D4, D6, D7 = (f"http://json-schema.org/draft-0{n}/schema#" for n in (4, 6, 7))
D2019 = "https://json-schema.org/draft/2019-09/schema"
D2020 = "https://json-schema.org/draft/2020-12/schema"
INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
LIST = {"items": [INTEGER, TEXT], "additionalItems": INTEGER}
SCHEMAS: list[Any] = [
    *({"$schema": draft, **LIST} for draft in (D6, D7, D2019)),
    {"$schema": D7, "items": [INTEGER], "additionalItems": False},
    {"$schema": D7, "items": INTEGER, "additionalItems": False},
    {"$schema": D7, "dependencies": {"a": ["b"], "b": {"required": ["c"]}, "c": False}},
    {"$schema": D7, "definitions": {"a": TEXT}, "$ref": "#/definitions/a", "maxLength": 1},
    {"$schema": D7, "properties": {"a": {"$ref": "#/definitions/l/items/0"}},
     "definitions": {"l": LIST}},
    {"$schema": D7, "definitions": {"a": {"$id": "#a", **TEXT}}, "items": {"$ref": "#a"}},
    {"$schema": D7, "$id": "http://x.test/", "items": {"$ref": "t"},
     "definitions": {"t": {"$id": "t", **TEXT}}},
    {"$schema": D2019, "additionalProperties": {"$recursiveRef": "#"}, "type": ["object", "null"]},
    {"$id": "http://x.test/root.json", "items": {"$ref": "a.json#/$defs/b~1c"},
     "$defs": {"a": {"$id": "a.json", "$defs": {"b/c": {"$ref": "#d"}, "d": {"$anchor": "d",
                                                                            **TEXT}}}}},
    {"$id": "http://x.test/root.json", "items": {"$ref": "root.json#/$defs/t"},
     "$defs": {"t": TEXT}},
    {"$dynamicAnchor": "n", "type": ["object", "null"], "additionalProperties": {
        "$dynamicRef": "#n"}},
]  # fmt: skip
VALUES: list[Any] = [
    *(None, 1, 2, 1.5, "a", "ab", [], [1], ["a"], [1, "a"], [1, "a", 2], [1, "a", "b"], [1, 2]),
    *({}, {"a": 1}, {"a": "x", "b": 1}, {"a": 1, "b": 1, "c": 1}, {"b": 1, "c": 1}),
    *({"c": 1}, {"a": {"b": None}}, {"a": None}),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_a_schema_means_what_it_means_in_its_draft(schema: Any) -> None:
    own = validators.validator_for(schema)(schema)
    translated = to_current_draft(schema)
    assert schema_problems(schema) == schema_problems(translated) == []
    assert to_current_draft(translated) == translated
    for value in VALUES:
        assert fits(value, translated) is own.is_valid(value), value


def test_dependencies_are_followed_in_a_schema_without_a_draft() -> None:
    schema = {"dependencies": {"a": ["b"], "b": TEXT}}
    named = {"dependentSchemas": {"b": TEXT}, "dependentRequired": {"a": ["b"]}}
    assert to_current_draft(schema) == named


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": ["string", "null"], "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": False}, {"type": "string", "nullable": False}),
        ({"enum": ["a"], "nullable": True}, {"enum": ["a"], "nullable": True}),
        ({"properties": {"nullable": TEXT}}, {"properties": {"nullable": TEXT}}),
    ],
)
def test_nullable_beside_a_type_adds_null_to_it(written: Any, read: Any) -> None:
    assert schema_problems(written) == []
    assert to_current_draft({"items": written}) == {"items": read}


def test_what_needs_no_translation_stays_the_same() -> None:
    schema = {"properties": {"dependencies": {"$ref": "#/$defs/a"}, "$schema": TEXT},
              "$defs": {"a": {"const": {"$id": "x"}}}}  # fmt: skip
    assert to_current_draft({"$schema": D2020, **schema}) == schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$schema": D4}, "draft-04/schema#` is not read"),
        ({"properties": {"a": {"$schema": "x"}}}, "`x` is not read"),
        (
            {"prefixItems": [{}], "additionalItems": False},
            "ignored beside `prefixItems`",
        ),
        ({"$ref": "#", "$dynamicRef": "#"}, "ignored beside `$ref`"),
        (
            {"$recursiveAnchor": True, "$defs": {"b": {"$recursiveAnchor": True}}},
            "another `$recursiveAnchor`",
        ),
        ({"$id": "http://[", "$ref": "other"}, "`other` is outside of this schema"),
        ({"$schema": D7, "items": [{"$ref": "#/no"}]}, "`#/no` is nowhere in this schema"),
    ],
)
def test_what_would_be_ignored_is_reported(schema: Any, reason: str) -> None:
    [problem] = schema_problems(schema)
    assert problem.reason.endswith(reason)


@pytest.mark.parametrize("keyword", ["$dynamicRef", "$ref"])
def test_a_wrong_reference_is_at_the_keyword_that_is_written(keyword: str) -> None:
    [missing] = schema_problems({"properties": {"a": {keyword: "#nowhere"}}})
    [wrong] = schema_problems({"properties": {"a": {keyword: 5}}})
    assert missing.where == wrong.where == ("properties", "a", keyword)
