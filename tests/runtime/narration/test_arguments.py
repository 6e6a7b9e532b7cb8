"""Arguments as a person reads them: formatted where that loses nothing, and else as written."""

import re
from itertools import product
from typing import Any

import pytest

from holdfast.runtime.narration.arguments import (
    argument_rows,
    arguments_in_line,
    effect_text,
    format_value,
    item_table,
    money_amount,
    readable_name,
    run_title,
    total_text,
)
from holdfast.runtime.narration.question_line import argument_line, is_whole, question_line
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.narration.schema_shapes import ShapeReader
from holdfast.runtime.narration.value_diff import differences
from holdfast.runtime.text_safety import as_json
from holdfast.web.forms.fields import build_fields
from holdfast.web.forms.form_values import FormValue
from tests.support.news_receivers import WAITING

EUROS = {"type": "number", "format": "money", "currency": "EUR"}
CENTS = {"type": "integer", "format": "money", "currency": {"property": "in"}, "minorUnits": True}
REFUND = {"properties": {"order_id": {"type": "string"}, "amount": EUROS, "note": {}}}


@pytest.mark.parametrize(
    ("value", "schema", "shown"),
    [
        (249.0, EUROS, "€249.00"),
        (-1234567.5, EUROS, "-€1,234,567.50"),
        ("249.00", EUROS, "€249.00"),
        # What cannot be shown in cents exactly is shown as it is.
        (249.005, EUROS, "EUR 249.005"),
        (0.1 + 0.2, EUROS, "EUR 0.30000000000000004"),
        (1e21, EUROS, "EUR 1e+21"),
        (float("inf"), EUROS, "EUR Infinity"),
        ("much", EUROS, "EUR much"),
        ("\u202e1", EUROS, r'EUR "\u202e1"'),
        ("†state.paid", EUROS, "†state.paid"),
        (24900, {**CENTS, "currency": "EUR"}, "€249.00"),
        (24900, {**CENTS, "currency": "JPY"}, "¥24,900"),
        (24900, {**CENTS, "currency": "KWD"}, "KWD 24.900"),
        (24900, CENTS, "CHF 249.00"),
        (2.5, CENTS, "2.5 minor units of CHF"),
        (5, {**EUROS, "currency": "euros"}, "5"),
        (5, {**EUROS, "currency": {"property": "nowhere"}}, "5"),
        (1042, {"type": "integer"}, "1042"),
        (10420, {"type": "integer"}, "10420"),
        (1000000, {"type": "integer", "minimum": 1}, "1,000,000"),
        (12500.5, {"type": "number"}, "12,500.5"),
        (10**15, {"type": "number"}, "1000000000000000"),
        (True, {"type": "boolean"}, "yes"),
        ("2026-03-01", {"format": "date"}, "Sunday, 1 March 2026"),
        ("2026-02-30", {"format": "date"}, "2026-02-30"),
        ("2026-03-01", {}, "2026-03-01"),
        ("2026-03-01T14:00:00Z", {"format": "date-time"}, "Sunday, 1 March 2026, 14:00 UTC"),
        (
            "2026-03-01T14:00:05-03:30",
            {"format": "date-time"},
            "Sunday, 1 March 2026, 14:00:05 UTC-03:30",
        ),
        ("2026-03-01T14:00:00", {"format": "date-time"}, "2026-03-01T14:00:00"),
        ("2026-03-01T14:00:00.5Z", {"format": "date-time"}, "2026-03-01T14:00:00.5Z"),
        (
            "2026-03-01T14:00:00.0000001Z",
            {"format": "date-time"},
            "2026-03-01T14:00:00.0000001Z",
        ),
        ("2026-03-01T14:00:00.000Z", {"format": "date-time"}, "Sunday, 1 March 2026, 14:00 UTC"),
        ("1042", {"type": "string"}, "1042"),
        ("1042", {}, '"1042"'),
        ("null", {"type": ["string", "null"]}, '"null"'),
        ("yes", {"type": ["string", "boolean"]}, '"yes"'),
    ],
)
def test_a_value_is_formatted_only_where_that_loses_nothing(
    value: Any, schema: Any, shown: str
) -> None:
    assert format_value(value, ShapeReader({}).read(schema), {"in": "chf"}) == shown


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("order_id", "Order id"),
        ("orderId", "Order id"),
        ("customerIBAN", "Customer IBAN"),
        ("to.address", "to.address"),
        ("amount ", '"amount "'),
        ("amount\u200b", '"amount\\u200b"'),
        ("x" * 121, f"X{'x' * 118}…"),
    ],
)
def test_a_name_is_a_title_where_there_is_none(name: str, title: str) -> None:
    assert readable_name(name) == title


def test_in_a_line_money_is_first_and_no_text_looks_like_an_argument() -> None:
    for dot in "·\u0387\u2022\u2027\u30fb":
        note = f"no {dot} €1.00"
        line = arguments_in_line({"order_id": "7", "note": note, "amount": 20}, REFUND, 200)
        assert line == f'€20.00 · Order 7 · Note "{note}"'
    assert arguments_in_line({"a · b": 7}, True, 200) == '"a · b" 7'
    assert arguments_in_line({"note": "x" * 90}, REFUND, 200).endswith("x…")
    assert arguments_in_line({"orderId": 7}, True, 200) == "Order 7"
    assert arguments_in_line({"orderId": 7}, REFUND, 200) == "orderId 7", "a name of no property"


def test_no_two_values_have_the_same_label() -> None:
    titled = {"properties": {"net": {"title": "Amount"}, "order_id": {}}}
    alike = {"net": 500, "Amount": 5, "amount ": 6, "order_id": 7, "Order": 8}
    labels = ["Amount (net)", "Amount (Amount)", '"amount "', "Order id", "Order"]
    assert [name for name, _ in argument_rows(alike, titled, 300)] == labels
    table = item_table({"_each": [alike, None]}, titled)
    assert table is not None
    assert table.columns == [labels[0], labels[3], labels[1], labels[2], labels[4]]
    assert table.rows == [["500", "7", "5", "6", "8"], None]
    assert arguments_in_line(alike, titled, 200) == (
        'Amount (net) 500 · Amount (Amount) 5 · "amount " 6 · Order (order_id) 7 · Order (Order) 8'
    )
    named = {"order_id": 7, "Order id": 1, "Order id (order_id)": 9}
    assert [name for name, _ in argument_rows(named, titled, 300)] == [
        *('"order_id"', "Order id (Order id)", '"Order id (order_id)"')
    ]
    changed = differences({**alike, "net": 1}, {**alike, "amount ": 1}, titled)
    assert [one.place for one in changed] == ["Amount (net)", '"amount "']
    asked = WAITING.model_copy(update={"arguments": {"amount": 5, "amount\u200b": 6}})
    assert QuestionView.of(asked).rows == [("amount", "5"), ('"amount\\u200b"', "6")]


def test_a_value_has_its_own_label_not_that_of_its_type() -> None:
    account: dict[str, Any] = {"title": "Account", "type": "object"}
    maybe = {"anyOf": [{"$ref": "#/$defs/account"}, {"type": "null"}]}
    payouts = {"type": "object", "additionalProperties": {"$ref": "#/$defs/account"}}
    schema = {
        "$defs": {"account": account},
        "properties": {"sender": maybe, "recipient": maybe, "payouts": payouts},
    }
    given = {"recipient": {"iban": "A"}, "payouts": {"Bob_1": {"iban": "B"}}}
    assert argument_rows(given, schema, 300) == [
        ("Recipient", "Iban A"),
        ("Payouts", 'Bob_1 {"iban": "B"}'),
    ]
    form = build_fields(schema, FormValue(given, {}))
    assert [one.label for one in form.walk()][1:] == [
        *("Sender", "Recipient", "Iban", "Payouts", "Bob_1", "Iban")
    ]
    [_, change] = differences(given, {"sender": {"iban": "A"}, "payouts": {}}, schema)[:2]
    assert change.place == "Payouts › Bob_1"


def test_a_row_of_a_list_has_every_value_or_is_not_whole() -> None:
    arguments: dict[str, Any] = {"amount": 249.0, "urgent": True}
    asked = WAITING.model_copy(update={"arguments": arguments, "amount": "249.00 EUR"})
    assert argument_line(asked) == "€249.00 · Urgent yes"
    many = {"amount": 249.0, **{f"text_{n}": "x" * 40 for n in range(6)}}
    asked = asked.model_copy(update={"arguments": many})
    _, line = question_line(QuestionView.of(asked))
    assert is_whole(line, many)
    assert line.endswith("Text 5 " + "x" * 40)
    alike = {"order_id": "a" * 70, "orderId": "b" * 70}
    line = argument_line(asked.model_copy(update={"arguments": alike}))
    assert line.startswith("Order (order_id) ")


TEXT = {**EUROS, "type": "string"}
NUMBERS = (5, 500, 5.0, "5.00", "500", None, "€5.00")
LABELS = {"price": "Price", "quantity": "Quantity", "a_price": "A price", "€5.00": "€5.00"}


@pytest.mark.parametrize("price", [EUROS, TEXT, {**CENTS, "currency": "KWD"}, {}], ids=str)
@pytest.mark.parametrize("effect", ["", "fee of €5.00", "fee of €5.001"])
def test_the_amount_of_money_hides_no_other_value(price: dict[str, Any], effect: str) -> None:
    for value, other, name in product(NUMBERS, NUMBERS, [*LABELS][1:]):
        one = {name: other, "price": value}
        for items in ([one], [one, {name: other, "price": 7}]):
            arguments = one if items == [one] else {"_each": items}
            amount = money_amount(arguments, {"properties": {"price": price}})
            more = {"arguments": arguments, "amount": amount, "effect": effect}
            title, line = question_line(QuestionView.of(WAITING.model_copy(update=more)))
            assert is_whole(line, arguments)
            shown = {title.removeprefix("Fee of "), *re.split(" · |; ", f"{title} · {line}")}
            leads = {("price", total_text([amount]))} if arguments is one else set()
            for each, its in (pair for item in items for pair in item.items()):
                texts = {f"{LABELS[each]} {text}" for text in (its, as_json(its))}
                texts |= {text for of, text in leads if of == each and text}
                assert not texts.isdisjoint(shown), (arguments, title, line)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"amount": 20, "note": "a"}, "refund of €20.00 for a"),
        ({"amount": 20}, ""),
        ({"amount": 20, "note": "x" * 81}, ""),
        ({"amount": 20, "note": "a  b"}, ""),
        ({"amount": 20, "note": "†state.note"}, ""),
        ({"amount": 20, "note": ["a"]}, ""),
        ({"amount": "{note}", "note": "a"}, 'refund of EUR "{note}" for a'),
        ({"amount": 20, "note": "7 (€1.00)"}, 'refund of €20.00 for "7 (€1.00)"'),
    ],
)
def test_an_effect_has_whole_values_or_is_none(arguments: dict[str, Any], text: str) -> None:
    assert effect_text("refund of {amount} for {note}", arguments, REFUND) == text
    assert effect_text("refund of {amount}" + "x" * 200, arguments, REFUND) == ""


def test_amounts_of_money_are_summed_by_currency_where_a_call_has_one_exact_amount() -> None:
    fee = {"properties": {"amount": EUROS, "fee": EUROS, "paid": CENTS, "in": {}}}
    found = [
        money_amount(arguments, fee)
        for arguments in (
            {"amount": 1200, "note": "x"},
            {"amount": "0.10"},
            {"paid": 500, "in": "jpy"},
            {"amount": 1, "fee": 1},
            {"amount": 1.005},
            {"amount": True},
            {"amount": None},
            {},
        )
    ]
    assert found == ["1200.00 EUR", "0.10 EUR", "500 JPY", "", "", "", "", ""]
    assert total_text(found) == "€1,200.10 + ¥500"
    assert total_text([]) == total_text([""]) == ""


def test_rows_have_a_line_for_each_object_and_the_text_of_one_value_alone() -> None:
    item = {"properties": {"sku": {"title": "Article"}, "price": {"$ref": "#/$defs/money"}}}
    schema = {
        "$defs": {"money": {"type": "number", "format": "money", "currency": "EUR"}},
        "properties": {
            "total": {"$ref": "#/$defs/money"},
            "lines": {"type": "array", "items": item, "title": "Order lines"},
            "buyer": {"properties": {"name": {"type": "string"}}},
        },
    }
    lines = [{"sku": "K-1", "price": 249.0}, {"sku": "a · Price €1.00", "price": 1.005}]
    arguments = {"total": 250, "lines": lines, "buyer": {"name": "Ann\nLee"}, "tags": ["a", "b"]}
    assert argument_rows(arguments, schema, 300) == [
        ("Total", "€250.00"),
        ("Order lines 1", "€249.00 · Article K-1"),
        ("Order lines 2", 'EUR 1.005 · Article "a · Price €1.00"'),
        ("Buyer", 'Name "Ann\\nLee"'),
        ("tags", '["a", "b"]'),
    ]
    loop = {"_each": [lines[0], None]}
    assert argument_rows(loop, {**item, "$defs": schema["$defs"]}, 300) == [
        ("Item 1", "€249.00 · Article K-1"),
        ("Item 2", "not run"),
    ]
    assert argument_rows({"a": "x" * 400, "b": {"c": "y" * 400}}, True, 300) == [
        ("A", "x" * 301),
        ("B", f'C "{"y" * 297}…'),
    ]


@pytest.mark.parametrize(
    ("template", "content", "title"),
    [
        (None, {"order_id": "7"}, ""),
        (
            "Refund {amount} of order {order_id}",
            {"order_id": "7", "amount": 5},
            "Refund €5.00 of order 7",
        ),
        ("Order {order_id}", {"order_id": "7 (paid)"}, 'Order "7 (paid)"'),
        ("Order {order_id}", {"amount": 5}, ""),
        ("Support", "From: Ada\nSubject: A broken tank\n\nHello", "Support: A broken tank"),
        ("Support", "\nIt broke.\nSo", "Support: It broke."),
        ("Support", None, "Support"),
    ],
)
def test_a_run_has_the_title_of_its_agent_with_its_input(
    template: str | None, content: Any, title: str
) -> None:
    assert run_title(template, content, REFUND) == title
