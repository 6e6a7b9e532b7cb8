"""What is shown of changes in a form (§7): what a button did, and what differs, entry by entry."""

from typing import Any

import pytest

from holdfast.runtime.narration.value_diff import MAX_COMPARED, MISSING, differences
from holdfast.web.call.decision_form import apply_action
from holdfast.web.forms.fields import FEW, MAX_ITEMS, Field, build_fields
from holdfast.web.forms.form_values import FormValue, UnreadableText, initial_value
from holdfast.web.pages import ENVIRONMENT
from tests.web.forms.test_bounds import TEXT, field, of_object

ADDRESSES = [f"person-{n}@lantern.example" for n in range(36)]
LESS = [*ADDRESSES[:22], *ADDRESSES[23:]]
FIELDS = ENVIRONMENT.get_template("call/parts.html").module
PARTS = ENVIRONMENT.get_template("call/parts.html").module


def shown(old: Any, new: Any) -> list[tuple[str, str, str]]:
    return [(one.place, one.before, one.after) for one in differences(old, new)]


def test_an_argument_has_its_title_and_an_amount_its_currency() -> None:
    money = {"type": "integer", "format": "money", "currency": "EUR", "minorUnits": True}
    schema = {"properties": {"amount": {"title": "Refund", **money}, "order_id": {}}}
    found = differences({"amount": 450, "order_id": 7}, {"amount": 5}, schema)
    assert [(one.place, one.before, one.after) for one in found] == [
        ("Refund", "€4.50", "€0.05"),
        ("Order id", "7", "omitted"),
    ]


# --- differences -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (ADDRESSES, LESS, [("23", ADDRESSES[22], "removed"), ("", "", "35 others unchanged")]),
        (["a", "b"], ["a", "x", "b"], [("2", "absent", "x"), ("", "", "2 others unchanged")]),
        (["a", "b"], ["b"], [("1", "a", "removed"), ("", "", "1 other unchanged")]),
        ([], ["a"], [("1", "absent", "a")]),
        (["a"], [], [("1", "a", "removed")]),
        (["a", "b"], ["c"], [("1", "a", "removed"), ("2", "b", "removed"), ("1", "absent", "c")]),
        # One is removed, and one is another: by its number as it was.
        (
            ["a", "b", "c", "d"],
            ["b", "c", "e"],
            [("1", "a", "removed"), ("4 (now 3)", "d", "e"), ("", "", "2 others unchanged")],
        ),
        # A pair is shown place by place, though its values seem to have moved.
        ([10, 20], [20, 20], [("1", "10", "20")]),
        ([1, 2], [2, 1], [("1", "1", "2"), ("2", "2", "1")]),
        (
            ["a", "b", "c", "d"],
            ["b", "c", "d", "a"],
            [("1", "a", "removed"), ("4", "absent", "a"), ("", "", "3 others unchanged")],
        ),
        (
            [{"item": "cup", "count": 1}],
            [{"item": "cup", "count": 2}, {"item": "pot", "of": ["tin"]}],
            [("1 › count", "1", "2"), ("2", "absent", "item: pot\nof:\n  1. tin")],
        ),
    ],
)
def test_differences_in_a_list_are_shown_entry_by_entry(
    old: Any, new: Any, found: list[tuple[str, str, str]]
) -> None:
    assert shown(old, new) == found


def test_beyond_a_bound_a_list_is_shown_as_a_whole() -> None:
    half = int(MAX_COMPARED**0.5)
    fits, beyond = ["a", *range(half - 3), "b"], ["a", *range(half), "b"]
    assert shown(fits, ["x", *fits[1:-1], "y", "z"])[0] == ("1", "a", "x")
    [(place, before, _)] = shown({"to": beyond}, {"to": ["x", *beyond[1:-1], "y", "z"]})
    assert place == "to"
    assert before.startswith("1. a\n2. 0\n3. 1\n")
    # One entry less is found in a list of any length.
    assert shown(beyond * 50, (beyond * 50)[1:])[0] == ("1", "a", "removed")
    # Of the same length, its entries are compared in their places all the same.
    assert shown(beyond, beyond[::-1])[0] == ("1", "a", "b")
    # The bound is for all lists together.
    changes = [([*"ab", *range(100)], [*range(100), *"cd"])] * 5
    old, new = ({str(n): pair[side] for n, pair in enumerate(changes)} for side in (0, 1))
    assert [place for place, _, after in shown(old, new) if after == "removed"][-1] == "2 › 2"


def test_no_text_is_taken_for_a_word_of_the_page_or_for_more_than_one_entry() -> None:
    assert shown({"a": "removed"}, {"a": "omitted"}) == [("a", '"removed"', '"omitted"')]
    [(_, _, added)] = shown([], [{"note": "x\npaid: 7", "a\nb": []}])
    assert added == 'note: "x\\npaid: 7"\n"a\\nb": []'


def test_a_removed_value_is_not_drawn_as_a_typed_one() -> None:
    html = str(PARTS.differences(differences(ADDRESSES, LESS), "Before", "After"))  # type: ignore[attr-defined]
    assert f"<del>{ADDRESSES[22]}</del>" in html
    assert '<strong class="bad">removed</strong>' in html
    assert "<ins>" not in html
    assert '<td colspan="2" role="cell" class="dim">35 others unchanged</td>' in html


# --- what a button has done --------------------------------------------------------------

LISTED = of_object(
    to={"type": "array", "items": TEXT},
    note={**TEXT, "title": "Note"},
    address={**of_object(city=TEXT), "title": "Address"},
    labels={"type": "object", "additionalProperties": TEXT},
    by={"anyOf": [{**of_object(a=TEXT), "title": "Card"}, {**of_object(b=TEXT), "title": "Cash"}]},
)
VALUE: dict[str, Any] = {"to": ["ada", "bob", ""], "labels": {"x": "1"}, "by": {"a": "1"}}


def pressed(does: str, key: str = "") -> Field:
    said = apply_action(FormValue(VALUE, {}), does, LISTED, key)
    return build_fields(LISTED, said)


def stands(whole: Field) -> list[tuple[str, str, str]]:
    found = [(one.key, "at", one.notice) for one in whole.walk() if one.notice]
    return found + [
        (one.key, "behind", one.notice_after) for one in whole.walk() if one.notice_after
    ]


@pytest.mark.parametrize(
    ("does", "key", "place", "said"),
    [
        ("drop:/to/0", "", ("1", "at"), "Removed entry 1: ada"),
        ("drop:/to/1", "", ("2", "at"), "Removed entry 2: bob"),
        ("drop:/to/2", "", ("to", "behind"), "Removed entry 3."),
        ("add:/to", "", ("4", "at"), "Added entry 4."),
        ("make:/address", "", ("address", "at"), "Added “Address”: fill it in."),
        ("drop:/labels", "", ("labels", "at"), "Omitted “Labels”."),
        ("drop:/labels/x", "", ("labels", "behind"), "Omitted “x”: 1"),
        ("key:/labels", "y", ("y", "at"), "Added “y”."),
        ("key:/labels", "", ("labels", "behind"), "Nothing was added: enter a name first."),
        (
            "key:/labels",
            "x",
            ("labels", "behind"),
            "Nothing was added: a property of that name exists.",
        ),
        ("branch:/by:1", "", ("by", "at"), "“By” is now: Cash."),
    ],
)
def test_the_effect_of_a_button_is_reported_where_it_was_pressed(
    does: str, key: str, place: tuple[str, str], said: str
) -> None:
    whole = pressed(does, key)
    assert stands(whole) == [(*place, said)]
    html = str(FIELDS.input(whole, True))  # type: ignore[attr-defined]
    assert html.count('id="done"') == 1
    # Every button that gives a form other fields comes back to that place.
    buttons = [one for one in html.split("<button")[1:] if 'name="do"' in one]
    assert buttons
    assert all('formaction="#done"' in one.split(">")[0] for one in buttons)


def test_the_sentence_is_between_the_neighbours_of_the_removed_entry() -> None:
    html = str(FIELDS.input(pressed("drop:/to/1"), True))  # type: ignore[attr-defined]
    first, then = html.index('value="drop:/to/0"'), html.index('value="drop:/to/1"')
    assert first < html.index("Removed entry 2: bob") < then


def test_unreadable_input_is_shown_as_it_was_typed() -> None:
    schema = {"type": "array", "items": {"type": "number"}}
    said = apply_action(
        FormValue([1, UnreadableText("12,50", "number", "No.")], {}), "drop:/1", schema
    )
    assert said.notice is not None
    assert said.notice.text == "Removed entry 2: 12,50"


def test_an_addition_without_room_is_reported_beside_its_json() -> None:
    rows = of_object(it={"type": "array", "items": TEXT})
    said = apply_action(FormValue({"it": ["x"] * FEW}, {}), "add:/it", rows)
    html = str(FIELDS.input(build_fields(rows, said, room=FEW), True))  # type: ignore[attr-defined]
    assert html.index(f"Added entry {FEW + 1}.") < html.index("<textarea")


def test_a_value_of_its_own_begins_with_nothing() -> None:
    for schema in ({}, {**TEXT, "default": "x"}, {"enum": ["a"], "default": "a"}):
        assert initial_value(schema) is MISSING
    assert initial_value({"type": ["array", "null"]}) == []
    assert initial_value({"anyOf": [of_object(a=TEXT), of_object(b=TEXT)]}) == {}


def test_nothing_was_done_where_no_button_was_pressed() -> None:
    assert stands(build_fields(LISTED, FormValue(VALUE, {}))) == []
    assert 'id="done"' not in str(FIELDS.input(build_fields(LISTED, FormValue(VALUE, {})), True))  # type: ignore[attr-defined]


# --- fields ------------------------------------------------------------------------------


def test_a_day_is_entered_as_its_browser_shows_it_and_shown_with_its_weekday() -> None:
    day = {"type": "string", "format": "date", "description": "When."}
    asked = field(day, "2026-11-29")
    assert (asked.control, asked.limits) == ("date", [])
    assert asked.display_text == "Sunday, 29 November 2026"
    # What a calendar cannot hold is written, with its form.
    typed = field(day, "soon")
    assert (typed.control, typed.display_text) == ("line", "soon")
    assert typed.limits == ["a date, such as 2026-03-01"]
    assert field(TEXT, "2026-11-29").display_text == "2026-11-29"


@pytest.mark.parametrize(("chars", "control"), [(30, "line"), (31, "lines")])
def test_what_is_too_long_for_one_line_on_a_phone_has_several(chars: int, control: str) -> None:
    assert field({**TEXT, "format": "email"}, "x" * chars).control == control


@pytest.mark.parametrize(
    ("rules", "control"),
    [
        *[({}, "lines"), ({"maxLength": 31}, "lines"), ({"maxLength": 30}, "line")],
        *[({"pattern": "^K"}, "line"), ({"format": "email"}, "line")],
    ],
)
def test_a_new_text_may_have_several_lines(rules: dict[str, Any], control: str) -> None:
    answer = {**of_object(it={**TEXT, **rules}), "required": ["it"]}
    [found] = build_fields(answer, FormValue({}, {})).children
    assert found.control == control


def test_a_long_list_that_lost_an_entry_is_a_form_again() -> None:
    rows = of_object(it={"type": "array", "items": TEXT})
    said = apply_action(FormValue({"it": ["x"] * MAX_ITEMS}, {}), f"drop:/it/{MAX_ITEMS - 1}", rows)
    [found] = build_fields(rows, said).children
    assert found.notice_after == f"Removed entry {MAX_ITEMS}: x"


def test_alternatives_move_up_with_their_entries() -> None:
    card, bank = (of_object(**{name: TEXT}) for name in ("card", "bank"))
    rows = of_object(it={"type": "array", "items": {"oneOf": [card, bank]}})
    written = {"it": [{"card": "1"}, {"bank": "2"}, {"card": "3"}]}
    branches: dict[tuple[str | int, ...], int] = {("it", n): n % 2 for n in range(3)}
    said = apply_action(FormValue(written, branches), "drop:/it/0", rows)
    assert said.branches == {("it", 0): 1, ("it", 1): 0}
    assert said.value == {"it": [{"bank": "2"}, {"card": "3"}]}
