"""Forms made from the schemas of tools: what is drawn, what comes back, what is beside it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.schemas.base import canonical_json
from holdfast.validation.schema_node import MAX_STEPS, WorkBudget
from holdfast.web.call.decision_form import apply_action as pressed
from holdfast.web.forms.fields import MAX_FIELDS, Field, build_fields
from holdfast.web.forms.form_values import FormValue, UnreadableText, form_violations
from holdfast.web.pages import ENVIRONMENT
from tests.web.forms.submitting import changed, read, submitted

REFUND: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "title": "Order", "description": "As on the invoice."},
        "amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 500},
        "currency": {"enum": ["EUR", "USD"]},
        "express": {"type": "boolean"},
        "note": {"type": "string"},
        "day": {"type": "string", "format": "date"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "maxItems": 3},
        "address": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "discount": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "by": {
            "oneOf": [
                {
                    "title": "Card",
                    "type": "object",
                    "properties": {"kind": {"const": "card"}, "number": {"type": "string"}},
                    "required": ["kind", "number"],
                },
                {
                    "title": "Transfer",
                    "type": "object",
                    "properties": {"kind": {"const": "transfer"}, "iban": {"type": "string"}},
                    "required": ["kind", "iban"],
                },
            ]
        },
    },
    "required": ["order_id", "amount"],
    "$defs": {
        "line": {
            "type": "object",
            "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
            "required": ["item"],
        }
    },
}
SMALL = {"order_id": "7", "amount": 20}
FIELDS = ENVIRONMENT.get_template("call/parts.html").module


def html(field: Field) -> str:
    return str(FIELDS.input(field, True))  # type: ignore[attr-defined]


def form(value: Any, schema: Any = REFUND) -> list[tuple[str, str]]:
    return submitted(html(build_fields(schema, FormValue(value, {}))))


def again(value: Any, schema: Any = REFUND) -> Any:
    return read(form(value, schema)).value


def same(one: Any, other: Any) -> bool:
    return canonical_json(one) == canonical_json(other) and json.dumps(
        one, sort_keys=True
    ) == json.dumps(other, sort_keys=True)


def named(schema: Any, value: Any) -> dict[str, Field]:
    return {one.key: one for one in build_fields(schema, FormValue(value, {})).walk()}


texts = some.text() | some.sampled_from(["", " ", "\n", "\nx\n", "a\r\nb", "†state.x", "null", "1"])
floats = some.floats(allow_nan=False, allow_infinity=False)
scalars: some.SearchStrategy[Any] = some.one_of(
    some.none(), some.booleans(), some.integers(-(2**53), 2**53), floats, texts
)
values = some.recursive(
    scalars,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
types = some.sampled_from(["string", "number", "integer", "boolean", "object", "array", "null"])
simple = some.one_of(
    some.just({}),
    some.just(True),
    types.map(lambda one: {"type": one}),
    some.lists(types, min_size=1, max_size=3, unique=True).map(lambda found: {"type": found}),
    some.lists(scalars, min_size=1, max_size=4).map(lambda found: {"enum": found}),
    scalars.map(lambda one: {"const": one}),
    some.sampled_from(["date", "date-time", "email", "uri"]).map(
        lambda one: {"type": "string", "format": one}
    ),
)
schemas = some.recursive(
    simple,
    lambda inner: some.one_of(
        some.builds(
            lambda properties, more, needed: {
                "type": "object",
                "properties": properties,
                "additionalProperties": more,
                "required": [*properties][:needed],
            },
            some.dictionaries(texts, inner, max_size=4),
            inner,
            some.integers(0, 2),
        ),
        inner.map(lambda one: {"type": "array", "items": one}),
        some.lists(inner, min_size=1, max_size=3).map(lambda found: {"anyOf": found}),
        some.lists(inner, min_size=1, max_size=2).map(lambda found: {"allOf": found}),
    ),
    max_leaves=8,
)


@given(schemas, values)
def test_what_is_not_touched_comes_back_as_it_was(schema: Any, value: Any) -> None:
    assert same(again(value, schema), value)


@given(some.fixed_dictionaries({}, optional=dict.fromkeys(REFUND["properties"], values)))
def test_so_it_does_where_it_fits_nothing(value: Any) -> None:
    assert same(again(value), value)


@pytest.mark.parametrize(
    ("more", "limits"),
    [
        ({"type": "number", "currency": "EUR"}, ["in EUR"]),
        (
            {"type": "integer", "currency": "EUR", "minorUnits": True},
            ["a whole number", "in minor units of EUR"],
        ),
        ({"type": "number", "currency": {"property": "paid_in"}}, []),
        ({"type": "number", "minorUnits": True}, ["in minor units"]),
    ],
)
def test_the_field_of_an_amount_names_its_unit(more: dict[str, Any], limits: list[str]) -> None:
    schema = {"type": "object", "properties": {"amount": {"format": "money", **more}}}
    assert named(schema, {"amount": 450})["amount"].limits == limits


def test_typed_values_are_sent_as_typed() -> None:
    typed = changed(
        form({**SMALL, "note": "old", "discount": None}),
        text__order_id=" 8\u00a0",
        text__amount="12.50",
        text__discount="3",
        pick__express="true",
        meant__note="gone",
    )
    assert read(typed).value == {
        "order_id": " 8\u00a0",
        "amount": 12.5,
        "discount": 3,
        "express": True,
    }


def test_left_out_empty_and_null_are_three_things() -> None:
    schema = {"type": "object", "properties": {"note": {"type": ["string", "null"]}}}
    for value in ({}, {"note": ""}, {"note": None}):
        assert same(again(value, schema), value)
    # A value that is typed where there was none is meant as typed.
    assert read(changed(form({}, schema), text__note="now")).value == {"note": "now"}
    assert read(changed(form({"note": None}, schema), text__note="now")).value == {"note": "now"}
    assert read(changed(form({"note": "x"}, schema), meant__note="null")).value == {"note": None}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("12,50", "Enter a number in digits"),
        ("", "Required"),
        ("1e999", "too large"),
        ("NaN", "Enter a number"),
        ("0x10", "Enter a number"),
    ],
)
def test_what_is_no_number_stays_in_its_control(text: str, why: str) -> None:
    said = read(changed(form(SMALL), text__amount=text))
    found = said.value["amount"]
    assert isinstance(found, UnreadableText)
    assert why in found.problem
    whole = build_fields(REFUND, said, wrong=form_violations(said.value, REFUND))
    problems = [(one.key, told) for one in whole.walk() for told in one.problems]
    [(field, told)] = problems
    assert field == "amount"
    assert why in told
    assert ("text:/amount", text) in submitted(html(whole))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "line 1, column 2"),
        ('{"a": 1, "a": 2}', "is there twice"),
        ("[" * 100 + "]" * 100, "64 levels"),
        ("Infinity", "no JSON number"),
        ("[1e999]", "too large"),
        ("[9007199254740993]", "too large"),
        ("0.12345678901234567890", "too long"),
        ("", "Enter a JSON value"),
    ],
)
def test_invalid_json_is_reported_with_its_place(text: str, why: str) -> None:
    value = {"x": [1, {"deep": None}]}
    schema = {"type": "object", "properties": {"x": {}}, "required": ["x"]}
    said = read(changed(form(value, schema), text__x=text))
    assert isinstance(said.value["x"], UnreadableText)
    assert why in said.value["x"].problem


@pytest.mark.parametrize("name", ["it's", 'a "b"', "c:\\d", "e\tf", "g" * 3_000])
def test_a_missing_value_is_reported_beside_its_field_whatever_its_name(name: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    assert [one.place for one in form_violations({}, schema)] == [(name,)]


def test_a_day_that_was_emptied_is_asked_for_in_a_calendar() -> None:
    schema = {"type": "object", "properties": {"day": REFUND["properties"]["day"]}}
    schema["required"] = ["day"]
    said = read(changed(form({"day": "2026-03-01"}, schema), text__day=""))
    whole = build_fields(schema, said, wrong=form_violations(said.value, schema))
    assert [told for one in whole.walk() for told in one.problems] == [
        "Give a date, such as 2026-03-01."
    ]
    assert whole.children[0].control == "date"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("email", "†state.mail", "noor@ourshop"),
        ("date-time", "2026-03-01T14:00:00+01:00", "2026-03-01T14:00:00"),
        ("uri", "mailto:ada@example.com", "http://[a"),
    ],
)
def test_what_fits_but_looks_wrong_is_doubted(name: str, good: str, bad: str) -> None:
    schema = {"type": "string", "format": name}
    assert form_violations(bad, schema) == []
    assert build_fields(schema, FormValue(good, {})).doubt == ""
    doubted = build_fields(schema, FormValue(bad, {}))
    assert doubted.doubt.startswith("this does not look like ")
    assert doubted.doubt in html(doubted)


def test_rows_and_parts_come_and_go_by_buttons() -> None:
    said = read(form(SMALL))
    for does in ("make:/lines", "add:/lines", "add:/lines", "make:/address", "make:/by"):
        said = pressed(said, does, REFUND)
    said = read(submitted(html(build_fields(REFUND, said))))
    assert [*said.value] == ["order_id", "amount", "lines", "address", "by"]
    typed = changed(
        submitted(html(build_fields(REFUND, said))),
        text__lines__0__item="cup",
        text__lines__1__item="pot",
    )
    said = pressed(read(typed), "drop:/lines/0", REFUND)
    assert said.value["lines"] == [{"item": "pot"}]
    said = pressed(said, "branch:/by:1", REFUND)
    assert said.value["by"] == {"kind": "transfer"}
    kept = read(submitted(html(build_fields(REFUND, said))))
    assert kept.branches == {("by",): 1}
    assert pressed(kept, "drop:/by", REFUND).value.keys() == {*SMALL, "lines", "address"}


def test_a_property_of_any_name_can_be_added() -> None:
    said = pressed(FormValue({**SMALL, "labels": {}}, {}), "key:/labels", REFUND, key="a/b ü")
    again_ = read(changed(submitted(html(build_fields(REFUND, said)))))
    assert again_.value["labels"] == {"a/b ü": ""}


@pytest.mark.parametrize(
    "does", ["", "add", "add:", "add:/amount/x", "drop:/nowhere", "branch:/by:99", "x:/y", "key:/"]
)
def test_a_button_that_means_nothing_changes_nothing(does: str) -> None:
    said = FormValue({**SMALL, "by": {"kind": "card", "number": "1"}}, {})
    assert pressed(said, does, REFUND) == said


def test_what_a_form_has_no_room_for_is_json() -> None:
    value = {"rows": [{"a": index, "b": str(index)} for index in range(90)]}
    row = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}
    whole = build_fields(schema, FormValue(value, {}))
    assert len([one for one in whole.walk() if not one.schema]) <= MAX_FIELDS
    assert len(form(value, schema)) < 1_000
    assert same(again(value, schema), value)


def test_a_schema_that_refers_to_itself_ends() -> None:
    node: dict[str, Any] = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "x": {"$ref": "#/z"}},
    }
    value: Any = None
    for _ in range(20):
        value = {"next": value}
    assert same(again(value, node), value)
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert again({"a": 1}, loop) == {"a": 1}


def test_what_cannot_be_seen_is_written_out() -> None:
    hidden = {"order_id": "7\u202e\u200b", "amount": 20}
    field = named(REFUND, hidden)["order_id"]
    assert field.text == r'"7\u202e\u200b"'
    assert same(again(hidden), hidden)


# --- what is sent and written to break it -----------------------------------------------


@pytest.mark.parametrize("place", ["%ff", "%C3", "/%ff/0"])
def test_a_name_that_no_page_has_is_ignored(place: str) -> None:
    assert read([("object:", ""), (f"text:/{place}", "x")]).value == {}


def test_items_are_numbered_as_a_page_does() -> None:
    odd = [(f"text:/{number}", "x") for number in ("01", "1" * 5_000, "²", "-1")]
    assert read([("list:", ""), ("text:/1", "b"), *odd, ("text:/0", "a")]).value == ["a", "b"]


def test_json_that_names_a_key_twice_is_refused_at_once() -> None:
    many = ", ".join(f'"k{number}": 1' for number in range(150_000))
    said = read([("text:", f'{{{many}, "k149999": 2}}'), ("meant:", "json")]).value
    assert "is there twice" in said.problem


def test_half_a_character_is_not_sent() -> None:
    said = read([("text:", '{"a": "\\ud800"}'), ("meant:", "json")]).value
    assert said == UnreadableText(
        '{"a": "\\ud800"}', "json", "It contains half a character (an unpaired surrogate)."
    )


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_schemas_that_expand_without_a_bound_are_given_up(keyword: str) -> None:
    defs = {f"n{n}": {keyword: [{"$ref": f"#/$defs/n{n + 1}"}] * 10} for n in range(16)}
    assert same(again({"a": 1}, {"$defs": defs, "$ref": "#/$defs/n0"}), {"a": 1})


def test_a_new_value_is_not_filled_without_end() -> None:
    names = [f"p{number}" for number in range(50)]
    node = {
        "type": "object",
        "properties": {name: {"$ref": "#/$defs/node"} for name in names},
        "required": names,
    }
    schema = {"properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    assert "p0" in pressed(FormValue({}, {}), "make:/a", schema).value["a"]


@pytest.mark.parametrize("named", [True, False])
def test_an_object_with_too_many_parts_is_one_field(named: bool) -> None:
    value = {f"p{number}": number for number in range(5_000)}
    known = {"properties": {key: {"type": "integer"} for key in value}} if named else {}
    schema = {"type": "object", "required": [*value], **known}
    assert len(build_fields(schema, FormValue(value, {})).walk()) == 1
    assert same(again(value, schema), value)


def test_forms_of_a_value_are_tried_within_one_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[int] = []
    spend = WorkBudget.spend

    def counted(self: WorkBudget, checks: int) -> None:
        spent.append(checks)
        spend(self, checks)

    monkeypatch.setattr(WorkBudget, "spend", counted)
    slow = {"type": "array", "items": {"anyOf": [{"const": number} for number in range(50)]}}
    branch = {"type": "object", "properties": {"rows": slow}}
    each = {"anyOf": [{**branch, "title": f"b{number}"} for number in range(10)]}
    names = [f"p{number}" for number in range(30)]
    schema = {"type": "object", "properties": dict.fromkeys(names, each)}
    value = {name: {"rows": ["none"] * 300} for name in names}
    build_fields(schema, FormValue(value, {}))
    assert MAX_STEPS < sum(spent) < 2 * MAX_STEPS
