"""Forms at their bounds (§7): what has no room, what was not typed, and what cannot be seen."""

from typing import Any

import pytest

from holdfast.runtime.narration.schema_shapes import MAX_BRANCHES, MAX_CHOICES
from holdfast.runtime.narration.value_diff import MAX_DIFFERENCES, MISSING, Place, differences
from holdfast.schemas.base import MAX_JSON_DEPTH, canonical_json
from holdfast.web.call.decision_form import apply_action as pressed
from holdfast.web.forms.fields import MAX_DEPTH, MAX_ITEMS, Field, build_fields
from holdfast.web.forms.form_values import (
    FormValue,
    UnreadableText,
    form_violations,
    is_same,
)
from tests.web.forms.submitting import read

TEXT = {"type": "string"}


def of_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def field(schema: Any, value: Any) -> Field:
    [found] = build_fields(of_object(it=schema), FormValue({"it": value}, {})).children
    return found


def does(one: Field) -> list[str]:
    return [button.action for button in one.buttons]


def test_what_lies_too_deep_is_json() -> None:
    value: Any = "x"
    schema: Any = TEXT
    for _ in range(MAX_DEPTH + 4):
        value, schema = {"in": value}, of_object(**{"in": schema})
    deepest = build_fields(schema, FormValue(value, {})).walk()[-1]
    assert (len(deepest.place), deepest.control) == (MAX_DEPTH + 1, "lines")
    assert '"in"' in deepest.text


def test_a_list_has_so_many_rows_and_no_button_for_more() -> None:
    rows = {"type": "array", "items": TEXT}
    fits = field(rows, ["x"] * MAX_ITEMS)
    assert (fits.control, len(fits.children)) == ("list", MAX_ITEMS)
    assert "add:/it" not in does(fits)
    assert "add:/it" in does(field(rows, ["x"] * (MAX_ITEMS - 1)))
    assert field(rows, ["x"] * (MAX_ITEMS + 1)).control == "lines"


def test_what_has_too_many_choices_or_forms_has_none() -> None:
    def choices(count: int) -> Field:
        return field({"enum": [f"v{n}" for n in range(count)]}, "v0")

    def branches(count: int) -> Field:
        return field({"anyOf": [of_object(**{f"p{n}": TEXT}) for n in range(count)]}, {"p0": "x"})

    assert choices(MAX_CHOICES).control == "pick"
    assert choices(MAX_CHOICES + 1).control == "line"
    assert len(branches(MAX_BRANCHES).branches) == MAX_BRANCHES
    assert branches(MAX_BRANCHES + 1).branches == []


def test_the_text_of_a_schema_is_shown_up_to_a_bound() -> None:
    wordy = {"type": "object", "description": "x" * 9_000, "title": "y" * 900}
    told = field(wordy, [1])
    assert (len(told.hint), len(told.schema), len(told.label)) == (2_000, 4_000, 120)


def test_a_new_object_begins_with_so_many_of_what_it_needs() -> None:
    names = [f"p{n}" for n in range(60)]
    needed = {**of_object(**{key: {"const": 1} for key in names}), "required": names}
    assert len(pressed(FormValue({}, {}), "make:/it", of_object(it=needed)).value["it"]) == 50


def test_an_added_property_does_not_take_the_place_of_one_that_is_there() -> None:
    said = FormValue({"it": {"a": "kept"}}, {})
    schema = of_object(it={"type": "object", "additionalProperties": TEXT})
    assert pressed(said, "key:/it", schema, key="a").value == said.value
    assert pressed(said, "key:/it", schema, key="b").value == {"it": {"a": "kept", "b": ""}}


def test_one_of_several_forms_inside_another_is_changed_by_itself() -> None:
    card = of_object(kind={"const": "card"}, by={"anyOf": [of_object(a=TEXT), of_object(b=TEXT)]})
    cash = {**of_object(cash=TEXT), "required": ["cash"]}
    schema = of_object(it={"anyOf": [cash, card]})
    given = {"it": {"kind": "card", "by": {"a": "x"}}}
    # A form may name a branch that its schema has not.
    named: list[dict[Place, int]] = [{}, {("it",): 1}, {("it",): 999}]
    for branches in named:
        turned = pressed(FormValue(given, branches), "branch:/it/by:1", schema)
        assert turned.branches == {**branches, ("it", "by"): 1}
        assert turned.value == {"it": {"kind": "card", "by": {}}}
    # What was inside another form is no part of the new one.
    outer = pressed(FormValue(given, {("it",): 1, ("it", "by"): 1}), "branch:/it:0", schema)
    assert outer.branches == {("it",): 0}


def test_what_was_not_typed_is_asked_for() -> None:
    assert [one.said for one in form_violations(MISSING, TEXT)] == ["Required."]
    assert read([("list:", ""), ("pick:/0", "")]).value == [
        UnreadableText("", "pick", "Choose one.")
    ]


def test_a_form_shows_nothing_deeper_than_json_may_be() -> None:
    value = read([(f"object:{'/a' * depth}", "") for depth in range(2 * MAX_JSON_DEPTH)]).value
    assert canonical_json(value).count(b"a") == MAX_JSON_DEPTH


def test_a_problem_is_beside_its_field_wherever_the_form_is() -> None:
    schema, value = of_object(it={"type": "number"}), {"it": "x"}
    whole = build_fields(
        schema, FormValue(value, {}), place=("calls", "t1c1"), wrong=form_violations(value, schema)
    )
    assert [one.key for one in whole.walk() if one.problems] == ["it"]


def test_differences_are_shown_up_to_a_bound_and_the_rest_is_counted() -> None:
    new = {f"p{n}": n for n in range(MAX_DIFFERENCES + 7)}
    found = differences({}, new)
    assert len(found) == MAX_DIFFERENCES + 1
    assert (found[-1].place, found[-1].after) == ("…", "7 more")
    assert len(differences({}, dict(list(new.items())[:MAX_DIFFERENCES]))) == MAX_DIFFERENCES


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"a": 1}, {"a": True}, [("a", "1", "true")]),
        ({"a": 0}, {"a": False}, [("a", "0", "false")]),
        ({"a": None}, {}, [("a", "null", "omitted")]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("a › 2", "2", "3")]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
    ],
)
def test_another_value_is_shown_as_another(
    old: Any, new: Any, told: list[tuple[str, str, str]]
) -> None:
    assert [(one.place, one.before, one.after) for one in differences(old, new)] == told
    assert is_same(new, old) is not bool(told)


def test_what_could_not_be_read_is_never_the_same() -> None:
    assert not is_same({"a": [UnreadableText("x", "number")]}, {"a": ["x"]})
    assert not is_same(MISSING, None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ada", "ada"),
        ("1042", "1042"),
        ("null", "null"),
        (" ada", '" ada"'),
        # Letters that have no shape.
        ("ada\u3164", r'"ada\u3164"'),
        ("7\u115f", r'"7\u115f"'),
    ],
)
def test_of_a_text_nothing_stands_on_the_page_that_cannot_be_seen(text: str, shown: str) -> None:
    assert field(TEXT, text).display_text == shown
    # Where it need not be a text, it is marked as one.
    assert field({}, text).display_text == (f'"{shown}"' if text in ("1042", "null") else shown)
