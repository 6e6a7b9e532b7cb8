"""Arguments: read leniently, coerced where no doubt is left, validated."""

import json
import socket
import urllib.request
from typing import Any

import pytest

from holdfast.validation.arguments import (
    InvalidArguments,
    coerce,
    filled_in,
    fit,
    read_arguments,
    unwrapped,
)
from holdfast.validation.lenient_json import inexact_number
from holdfast.validation.validator import errors, fits, new_errors


def nested(levels: int, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


def types_in(value: Any) -> list[type]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [type(value), *(found for each in inner for found in types_in(each))]


# Reading.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        (' \n{"a": 1}\n ', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n{"a": 1}\n```', {"a": 1}),
        ('```JSON5 \n{"a": 1}```', {"a": 1}),
        ('```{"a": 1}```', {"a": 1}),
        ('```json {"a": 1} ```', {"a": 1}),
        ('```{"a":\n1}```', {"a": 1}),
        ('{"a": "```\\nx\\n```"}', {"a": "```\nx\n```"}),
        ('{"a": [1, 2,], }', {"a": [1, 2]}),
        ('{"a": "x, ]", "b": ",}",}', {"a": "x, ]", "b": ",}"}),
        ('{"a": "\\",]",}', {"a": '",]'}),
        ("{}", {}),
        ("", {}),
        ("  \n", {}),
        ('{"a": 1e3, "b": -0.5}', {"a": 1000.0, "b": -0.5}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        ('{"a": 1, "b": {"c": 2, "c": 2}, "a": 1}', {"a": 1, "b": {"c": 2}}),
    ],
)
def test_text_is_read_as_models_write_it(text: str, value: Any) -> None:
    assert read_arguments(text) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "the arguments are no JSON: Expecting property name"),
        ("I would like to refund it", "the arguments are no JSON: Expecting value"),
        ("{'a': 1}", "the arguments are no JSON"),
        ('{"a": "cut off by the tok', "the arguments are no JSON: Unterminated string"),
        ('{"a": "\\ud83d"}', "half of a surrogate pair"),
        ('{"a": 1, "a": 2}', 'the key "a" is there twice, with different values'),
        ('{"b": [{"a": 1, "a": true}]}', 'the key "a" is there twice, with different values'),
        ('{"a": 1}{"a": 2}', "there are several objects; write one object for each call"),
        ('{"a": 1},\n{"b": 2}', "there are several objects; write one object for each call"),
        ('{"a": 1} and more', "the arguments are no JSON: Extra data"),
        ("[1]", "the arguments are no JSON object"),
        ("5", "the arguments are no JSON object"),
        ("null", "the arguments are no JSON object"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": -Infinity}', "-Infinity is no JSON number"),
        ('{"a": 1e999}', "1e999 is no JSON number"),
        ('{"a": ' + "1" * 5000 + "}", "a number has 5000 digits; at most 1000"),
        ('{"a": ' + "[" * 70 + "]" * 70 + "}", "nested deeper than 64 levels"),
        ('{"a": ' + "[" * 100_000, "nested deeper than 64 levels"),
        ('["\\ud83d",' + "[" * 900 + "]" * 900 + "]", "nested deeper than 64 levels"),
        ({"a": nested(64)}, "nested deeper than 64 levels"),
        ({"a": float("nan")}, "it holds NaN or an infinity, which JSON does not have"),
    ],
)
def test_unreadable_arguments_have_a_reason(text: Any, why: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        read_arguments(text)
    assert why in str(refused.value)


# Coercion, row by row of the contract.

NUMBER, INTEGER = {"type": "number"}, {"type": "integer"}
BOOLEAN, STRING = {"type": "boolean"}, {"type": "string"}
OBJECT, ARRAY = {"type": "object"}, {"type": "array"}


@pytest.mark.parametrize(
    ("value", "schema", "coerced"),
    [
        # a numeric text to a number
        ("3.5", NUMBER, 3.5),
        (" -2 ", NUMBER, -2),
        ("1e2", NUMBER, 100.0),
        # to an integer only without a fraction
        ("3", INTEGER, 3),
        ("3.0", INTEGER, 3),
        ("3e2", INTEGER, 300),
        (3.0, INTEGER, 3),
        # "true" and "false", 0 and 1 to a boolean
        ("true", BOOLEAN, True),
        ("false", BOOLEAN, False),
        (1, BOOLEAN, True),
        (0, BOOLEAN, False),
        # a number or a boolean to a string
        (5, STRING, "5"),
        (2.5, STRING, "2.5"),
        (True, STRING, "true"),
        (False, STRING, "false"),
        # a JSON text to an object or an array
        ('{"a": 1}', OBJECT, {"a": 1}),
        ("[1, 2,]", ARRAY, [1, 2]),
        ('{"n": "5"}', OBJECT | {"properties": {"n": INTEGER}}, {"n": 5}),
        # a scalar to an array of one
        ("x", ARRAY, ["x"]),
        (5, ARRAY, [5]),
        (False, ARRAY, [False]),
        ("5", ARRAY | {"items": INTEGER}, [5]),
        ('{"a": 1, "b": 2}', ARRAY, ['{"a": 1, "b": 2}']),
        # of anyOf, the first branch that fits; as it is, before it is turned into anything
        ("5", {"anyOf": [INTEGER, STRING]}, "5"),
        ("5", {"anyOf": [INTEGER, BOOLEAN]}, 5),
        ("true", {"anyOf": [INTEGER, BOOLEAN]}, True),
        (1, {"oneOf": [BOOLEAN, STRING]}, True),
        ({"n": "5"}, {"anyOf": [{"properties": {"n": INTEGER}}]}, {"n": 5}),
        # of several types, the first that it can be
        ("5", {"type": ["integer", "null"]}, 5),
        ("x", {"type": ["integer", "string"]}, "x"),
        # everywhere inside
        ({"a": [{"b": "1"}]}, {"properties": {"a": {"items": {"properties": {"b": INTEGER}}}}},
         {"a": [{"b": 1}]}),
        ({"x": "1"}, {"additionalProperties": INTEGER}, {"x": 1}),
        (["1", "1"], {"prefixItems": [INTEGER], "items": STRING}, [1, "1"]),
        ("5", {"allOf": [INTEGER, {"minimum": 1}]}, 5),
        # through references
        ("5", {"$ref": "#/$defs/n", "$defs": {"n": INTEGER}}, 5),
        ("5", {"$ref": "#/$defs/a~1b", "$defs": {"a/b": INTEGER}}, 5),
        ({"n": {"n": "5"}}, OBJECT | {"properties": {"n": {"anyOf": [INTEGER, {"$ref": "#"}]}}},
         {"n": {"n": 5}}),
    ],
)  # fmt: skip
def test_a_value_is_coerced_where_what_was_meant_is_beyond_doubt(
    value: Any, schema: Any, coerced: Any
) -> None:
    found = fit(value, schema)

    assert found == coerced
    assert type(found) is type(coerced)


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("3.5", INTEGER),
        (3.5, INTEGER),
        ("three", NUMBER),
        ("", NUMBER),
        ("0x10", NUMBER),
        ("1_000", NUMBER),
        ("٣", NUMBER),
        ("NaN", NUMBER),
        ("1e999", NUMBER),
        ("9" * 400, NUMBER),
        (True, NUMBER),
        (True, INTEGER),
        ("yes", BOOLEAN),
        ("True", BOOLEAN),
        ("1", BOOLEAN),
        (2, BOOLEAN),
        ([1], STRING),
        ({}, STRING),
        ("{not json", OBJECT),
        ("[1]", OBJECT),
        (5, OBJECT),
        ([], OBJECT),
        ({}, ARRAY),
        # a broken list, or none
        ('["a", "b"', ARRAY),
        ("['a', 'b']", ARRAY),
        (" [draft] letter", ARRAY),
        ("('a', 'b')", ARRAY),
        ('{"a": 1', ARRAY),
        ("- a\n- b", ARRAY),
        # several items, or one
        ("a, b", ARRAY),
        ("a; b", ARRAY | {"items": STRING}),
        ("Berlin，Bonn", {"anyOf": [ARRAY, {"type": "null"}]}),
        ("1,234", ARRAY | {"items": NUMBER}),
        ("a\rb", ARRAY),
        ("", ARRAY),
        (" ", ARRAY),
        ("null", {"type": ["array", "null"]}),
        ('["a', {"anyOf": [ARRAY, {"type": "null"}]}),
        ([5], INTEGER),
        ("x", {"type": "string", "enum": ["a"]}),
        ({"x1": "5"}, {"patternProperties": {"^x": INTEGER}, "additionalProperties": STRING}),
    ],
)
def test_a_value_that_leaves_doubt_stays_as_it_is_and_does_not_fit(value: Any, schema: Any) -> None:
    assert coerce(value, schema) == value
    with pytest.raises(InvalidArguments):
        fit(value, schema)


@pytest.mark.parametrize(
    "schema", [NUMBER, INTEGER, BOOLEAN, STRING, OBJECT, ARRAY, {"anyOf": [STRING, ARRAY]}]
)
def test_a_null_is_never_turned_into_a_value(schema: Any) -> None:
    assert coerce(None, schema) is None
    assert coerce({"a": None}, {"properties": {"a": schema}}) == {"a": None}
    with pytest.raises(InvalidArguments):
        fit(None, schema)


def test_what_was_written_is_not_changed_by_coercion() -> None:
    written = {"a": ["1"], "b": {"c": "2"}}
    schema = {"properties": {"a": {"items": INTEGER}, "b": {"properties": {"c": INTEGER}}}}

    assert fit(written, schema) == {"a": [1], "b": {"c": 2}}
    assert written == {"a": ["1"], "b": {"c": "2"}}


@pytest.mark.parametrize(
    ("written", "schema", "fitted"),
    [
        ("3.10", STRING, "3.10"),
        ("1e5", STRING, "1e5"),
        ("0.10000000000000000001", STRING, "0.10000000000000000001"),
        ("[3.10]", ARRAY | {"items": STRING}, ["3.10"]),
        ("3.10", {"anyOf": [BOOLEAN, STRING]}, "3.10"),
        ("3.10", {"anyOf": [BOOLEAN, NUMBER, STRING]}, 3.1),
        ("3.10", NUMBER, 3.1),
        ("3.0", INTEGER, 3),
        ('{"b": [3.10]}', True, {"b": [3.1]}),
    ],
)
def test_a_number_for_a_text_keeps_its_digits(written: str, schema: Any, fitted: Any) -> None:
    arguments = fit(read_arguments(f'{{"a": {written}}}'), {"properties": {"a": schema}})

    assert arguments == {"a": fitted}
    assert "Number" not in str(types_in(arguments))


CITY: dict[str, Any] = {"properties": {"city": STRING | {"default": "Rome"}, "n": INTEGER}}
NO_CITY = "`City` is no parameter, but `city` is: write it so"


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ({"City": "Paris"}, CITY),
        ({"City": "Paris", "city": "Rome"}, CITY),
        ({"City": "Paris"}, CITY | {"additionalProperties": False}),
        ([{"City": "Paris"}], {"items": {"$ref": "#/$defs/c"}, "$defs": {"c": CITY}}),
        ({"City": "Paris"}, {"anyOf": [{"type": "null"}, CITY, OBJECT]}),
    ],
)
def test_a_key_that_differs_in_case_alone_is_an_error_that_names_both(
    value: Any, schema: Any
) -> None:
    with pytest.raises(InvalidArguments) as refused:
        fit(value, schema, fill=True)
    assert refused.value.problems[0] == NO_CITY


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ({"City": "Paris", "n": 1}, CITY | {"additionalProperties": STRING}),
        ({"City": "Paris", "n": 1}, CITY | {"patternProperties": {"^C": STRING}}),
        (
            {"City": "Paris"},
            {"anyOf": [CITY | {"required": ["n"]}, {"properties": {"City": True}}]},
        ),
        ({"place": "Paris"}, CITY),
    ],
)
def test_a_key_that_may_be_another_one_is_kept(value: Any, schema: Any) -> None:
    assert value.items() <= fit(value, schema, fill=True).items()


def test_only_the_keys_of_arguments_are_compared() -> None:
    assert fit({"City": "Paris"}, CITY) == {"City": "Paris"}


# Calls inside of calls.

REFUND: dict[str, Any] = {"properties": {"order_id": STRING, "note": STRING}}
ONE: dict[str, Any] = {"order_id": "A-1"}


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ({"arguments": ONE}, ONE),
        ({"arguments": '{"order_id": "A-1"}'}, ONE),
        ({"parameters": ONE, "name": "refund", "_why": "so"}, {"_why": "so", **ONE}),
        ({"arguments": {**ONE, "_why": "so"}}, {**ONE, "_why": "so"}),
        ({"refund": ONE}, ONE),
        # that it is the tool's name is no argument, although there is such a parameter
        ({"note": "refund", "arguments": ONE}, ONE),
        ({"arguments": {}}, {}),
        # no call inside of a call
        (ONE, ONE),
        ({"note": {"order_id": "A-1"}}, {"note": {"order_id": "A-1"}}),
        ({"order_id": "A-1", "arguments": ONE}, {"order_id": "A-1", "arguments": ONE}),
        ({"meta": {"at": 1}}, {"meta": {"at": 1}}),
        ({}, {}),
    ],
)
def test_a_call_inside_of_its_arguments_is_unwrapped(written: Any, arguments: Any) -> None:
    assert unwrapped(written, REFUND, "refund") == arguments


@pytest.mark.parametrize("inside", [{"orderId": 1}, "A-1", None, [ONE], '{"order_id'])
def test_a_call_inside_of_its_arguments_that_is_none_is_an_error(inside: Any) -> None:
    with pytest.raises(InvalidArguments, match="`arguments` is no parameter"):
        unwrapped({"arguments": inside}, REFUND, "refund")


@pytest.mark.parametrize(
    "more", [{"name": "pay"}, {"name": "refund", "type": "function"}, {"id": "call_1"}]
)
def test_a_call_of_something_else_inside_of_arguments_is_an_error(more: Any) -> None:
    with pytest.raises(InvalidArguments, match="`arguments` is no parameter"):
        unwrapped({**more, "arguments": ONE}, REFUND, "refund")


@pytest.mark.parametrize(
    "more",
    [
        {"properties": {"arguments": OBJECT}},
        {"properties": None},
        {"additionalProperties": True},
        {"patternProperties": {"^a": OBJECT}},
    ],
)
def test_where_it_is_a_parameter_it_stays(more: Any) -> None:
    assert unwrapped({"arguments": ONE}, REFUND | more, "refund") == {"arguments": ONE}


# Validation.


def test_problems_are_reported_field_by_field() -> None:
    schema = {
        "properties": {"order": {"properties": {"id": INTEGER, "lines": {"items": INTEGER}}}},
        "required": ["order", "amount", "reason"],
        "additionalProperties": False,
    }
    with pytest.raises(InvalidArguments) as refused:
        fit({"order": {"id": "x", "lines": [1, "y"]}, "amuont": 5}, schema)

    assert str(refused.value).split("; ") == [
        'order.id: "x" is not of type "integer"',
        'order.lines.1: "y" is not of type "integer"',
        '"amount" is a required property',
        '"reason" is a required property',
        'Additional properties are not allowed ("amuont" was unexpected)',
    ]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", "2026-11-21", "tomorrow"),
        ("uuid", "3f2b1c4e-0000-4000-8000-000000000000", "order 7"),
        ("uuid", "3F2B1C4E-0000-4000-8000-000000000000", " f2b1c4e-0000-4000-8000-000000000000"),
        ("uuid", "00000000-0000-0000-0000-000000000000", "3_2b1c4e-0000-4000-8000-000000000000"),
        ("uuid", "3f2b1c4e-0000-4000-8000-000000000000", "+f2b1c4e-0000-4000-8000-000000000000"),
        ("uuid", "3f2b1c4e-0000-4000-8000-000000000000", "٣f2b1c4e-0000-4000-8000-000000000000"),
        ("uuid", "3f2b1c4e-0000-4000-8000-000000000000", "3f2b1c4e-0000-4000-8000-00000-000000"),
        ("date", "2026-11-21", "٢026-11-21"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("ipv4", "10.0.0.1", "10.0.0.1_0"),
        ("ipv6", "::1", "localhost"),
        ("ipv6", "::ffff:10.0.0.1", "::1_0"),
        ("date-time", "2026-11-21T14:00:00.5+01:00", "2026-11-21"),
        ("date-time", "2026-11-21T14:00:00", "2026-02-30T14:00:00Z"),
        ("time", "14:00:00Z", "25:00:00Z"),
        ("email", "ada@example.com", "ada at example.com"),
        ("email", '"ada l"@example.com', "ada..l@example.com"),
        ("uri", "https://example.com/a?b=%20#c", "example.com/a"),
        ("uri", "urn:isbn:0", "https://example.com/a b"),
    ],
)
def test_a_format_that_is_quick_to_check_is_checked(name: str, good: str, bad: str) -> None:
    schema = {"properties": {"a": {"type": "string", "format": name}}}
    assert errors({"a": good}, schema) == []
    assert errors({"a": bad}, schema) == [f'a: "{bad}" is not a "{name}"']


def test_problems_are_bounded_in_lines_and_in_characters() -> None:
    lines = errors(["x" * 10_000] * 100, {"items": INTEGER})

    assert len(lines) == 21
    assert lines[-1] == "and more"
    assert all(len(line) < 400 for line in lines)


def test_of_a_changed_value_only_new_problems_are_reported() -> None:
    schema = {"required": ["a", "b"], "properties": {"list": {"minItems": 3, "items": INTEGER}}}

    assert new_errors({"list": [1, 2]}, {"list": [1]}, schema) == []
    assert new_errors({"a": 1}, {}, schema) == []
    assert new_errors({"a": 1, "list": ["x"]}, {"b": 1}, schema) == [
        '"b" is a required property',
        'list: ["x"] is too short',
        'list.0: "x" is not of type "integer"',
    ]


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, 2], True),
        ([1, 1.0], False),
        ([1, True], True),
        ([0, False], True),
        (["1", 1], True),
        ([[1], [1.0]], False),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
        ([{"a": 1}, {"a": True}], True),
        ([None, None], False),
        ([[], {}, "", 0, False, None], True),
    ],
)
def test_unique_items_are_compared_as_json_does(items: list[Any], unique: bool) -> None:
    assert fits(items, {"uniqueItems": True}) is unique
    assert fits(items, {"uniqueItems": False})


@pytest.mark.filterwarnings("ignore")  # jsonschema would warn, and fetch
def test_a_remote_reference_is_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []

    def refuse(*args: Any, **more: Any) -> Any:
        tried.append(args)
        raise OSError("no connection")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    for remote in ("http://example.com/schema.json", "file:///etc/hostname", "other.json#/x"):
        assert "the schema cannot be applied" in errors(5, {"$ref": remote})[0]
        assert coerce("5", {"$ref": remote}) == "5"
    assert tried == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strng"},
        {"properties": 5},
        {"required": 5},
        {"minimum": "x"},
        {"pattern": "("},
        {"$ref": "#/$defs/none"},
        {"$ref": "#"},
        {"anyOf": 5},
        {"items": {"$ref": "#/items"}},
        {"multipleOf": 0},
        {"enum": 5},
    ],
)
@pytest.mark.parametrize("value", [5, "x", {"a": 1}, [1], 10**400])
def test_a_schema_that_is_none_raises_nothing_but_that_the_value_does_not_fit(
    value: Any, schema: Any
) -> None:
    coerce(value, schema)
    errors(value, schema)


@pytest.mark.parametrize(
    ("value", "rule", "is_valid"),
    [
        (10**400, 0.01, True),
        (10**400, 0.03, False),
        (0.3, 0.1, True),
        (4.35, 0.01, True),
        (4.355, 0.01, False),
        (4.0, 2, True),
        (1e-7, 1e-8, True),
    ],
)
def test_a_multiple_is_one_of_the_decimals_as_they_are_written(
    value: float, rule: float, is_valid: bool
) -> None:
    assert fits(value, {"multipleOf": rule}) is is_valid


# Defaults.

EUR = {"type": "string", "default": "EUR"}
MONEY = {"type": "object", "properties": {"currency": EUR}}
TREE = {"type": "object", "properties": {"left": {"$ref": "#", "default": {}}}}
WIDE = {
    "type": "object",
    "properties": {name: {"$ref": "#", "default": {}} for name in "abcd"},
}
FILLED: list[tuple[Any, Any, Any]] = [
    (MONEY, {}, {"currency": "EUR"}),
    (MONEY, {"currency": "USD"}, {"currency": "USD"}),
    ({**MONEY, "properties": {"a": {"default": None}}}, {}, {"a": None}),
    ({"properties": {"a": {"default": 0}, "b": {"default": False}}}, {}, {"a": 0, "b": False}),
    # In objects, items and defaults.
    ({"properties": {"to": MONEY}}, {"to": {}}, {"to": {"currency": "EUR"}}),
    ({"properties": {"to": MONEY}}, {"to": '{"x": 1}'}, {"to": {"x": 1, "currency": "EUR"}}),
    ({"properties": {"to": {**MONEY, "default": {}}}}, {}, {"to": {"currency": "EUR"}}),
    ({"properties": {"all": {"items": MONEY}}}, {"all": [{}]}, {"all": [{"currency": "EUR"}]}),
    ({"additionalProperties": MONEY}, {"a": {}}, {"a": {"currency": "EUR"}}),
    # Elsewhere in the schema.
    ({"$defs": {"c": EUR}, "properties": {"c": {"$ref": "#/$defs/c"}}}, {}, {"c": "EUR"}),
    ({"$defs": {"m": MONEY}, "$ref": "#/$defs/m"}, {}, {"currency": "EUR"}),
    ({"allOf": [MONEY]}, {}, {"currency": "EUR"}),
    ({"anyOf": [{"required": ["x"]}, MONEY]}, {}, {"currency": "EUR"}),
    (
        {"properties": {"to": {"anyOf": [MONEY, {"type": "null"}]}}},
        {"to": {}},
        {"to": {"currency": "EUR"}},
    ),
    # None that does not fit, or that must be given.
    ({"properties": {"a": {"type": "string", "default": None}}}, {}, {}),
    ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/b"}}}, {}, {}),
]


@pytest.mark.parametrize(("schema", "value", "filled"), FILLED)
def test_defaults_are_filled_in_once_and_for_all(schema: Any, value: Any, filled: Any) -> None:
    assert fit(value, schema, fill=True) == filled
    assert fit(filled, schema, fill=True) == filled
    assert fit(value, schema) == coerce(value, schema)


def test_what_must_be_given_is_not_filled_in() -> None:
    with pytest.raises(InvalidArguments, match='"currency" is a required property'):
        fit({}, {**MONEY, "required": ["currency"]}, fill=True)


def test_filled_arguments_have_to_fit_as_well() -> None:
    with pytest.raises(InvalidArguments, match='"amount" is a dependency of "currency"'):
        fit({}, {**MONEY, "dependentRequired": {"currency": ["amount"]}}, fill=True)


def test_defaults_without_end_are_refused_and_not_left_out() -> None:
    with pytest.raises(InvalidArguments, match="steps"):
        fit({}, WIDE, fill=True)
    deep = fit({}, TREE, fill=True)
    assert fit(deep, TREE, fill=True) == deep
    itself = {"$ref": "#/$defs/a"}
    circle = {"properties": {"a": itself, "b": EUR}, "$defs": {"a": itself}}
    with pytest.raises(InvalidArguments, match="steps"):
        fit({}, circle, fill=True)


def test_before_references_are_resolved_no_branch_is_chosen_and_no_reference_is_made() -> None:
    schema = {
        "properties": {"currency": EUR, "note": {"default": "†state.note"}},
        "anyOf": [{"properties": {"x": {"default": 1}}}],
    }

    raw = coerce({"n": "†state.n"}, schema, fill=True, is_resolved=False)
    assert raw == {"n": "†state.n", "currency": "EUR"}
    assert fit({}, schema, fill=True) == {"currency": "EUR", "x": 1, "note": "†state.note"}


def test_what_was_filled_in_is_named_by_its_place() -> None:
    written = {"a": {"b": 1}, "rows": [{}, {"c": 2}], "later": "†state.x"}
    now = {"a": {"b": 1, "z": 0}, "rows": [{"c": 1}, {"c": 2}], "later": {"any": 1}, "new": 1}

    assert list(filled_in(written, now)) == ["a.z", "rows.0.c", "new"]


@pytest.mark.parametrize(
    "written",
    [
        *("9007199254740993", "-9007199254740993", f"1{'0' * 400}", "100000000000000000000001"),
        *("1e400", "1e-400", "0.1000000000000000055", "[{}, [9007199254740993]]"),
        *("9007199254740993.0", "9007199254740993e0", "90071992547409.93e2", "0e" + "9" * 30),
    ],
)
def test_a_number_that_float64_would_change_is_refused(written: str) -> None:
    with pytest.raises(InvalidArguments, match=r"float64|is no JSON number"):
        fit(read_arguments(f'{{"a": {written}}}'), {"type": "object"})
    assert inexact_number(f'{{"a": ["x", {written}]}}'.encode()) is not None
    assert inexact_number(json.dumps({"a": written}).encode()) is None, "a text holds every digit"


@pytest.mark.parametrize(
    "written",
    [
        *("0.1", "9007199254740992", "-9007199254740992", "1e22", "100000000000000000000"),
        *(
            "1.7976931348623157e308",
            "5e-324",
            "0.30000000000000004",
            "0.10000000000000001",
            "1.000000000000000000",
            "-0.0",
        ),
    ],
)
def test_a_number_that_float64_holds_is_kept(written: str) -> None:
    assert fit(read_arguments(f'{{"a": {written}}}'), True) == {"a": json.loads(written)}
    assert inexact_number(f'{{"a": {written}}}'.encode()) is None


def test_a_number_for_a_text_may_have_any_digits_and_a_text_for_a_number_may_not() -> None:
    schema = {"properties": {"a": STRING, "b": {"type": "number"}}}
    assert fit({"a": 9007199254740993}, schema) == {"a": "9007199254740993"}
    whole = read_arguments('{"a": 9007199254740993.0}')
    assert fit(whole, schema) == {"a": "9007199254740993.0"}
    with pytest.raises(InvalidArguments, match="float64"):
        fit(whole, {"properties": {"a": {"type": "integer"}}})
    with pytest.raises(InvalidArguments, match='"9007199254740993" is not of type "number"'):
        fit({"b": "9007199254740993"}, schema)
