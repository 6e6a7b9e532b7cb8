"""The words of a condition on arguments: all of it, or none."""

from typing import Any

import pytest

from holdfast.catalog.policies.rules import condition_text

EUROS = {"type": "number", "format": "money", "currency": "EUR"}
OF_ANY = {"type": "number", "format": "money", "currency": {"property": "currency"}}
PARAMETERS = {
    "properties": {
        "amount": {"type": "number"},
        "euros": EUROS,
        "sum": OF_ANY,
        "currency": {"type": "string"},
        "ticketId": {"title": "IT ticket"},
        "express": {"type": "boolean"},
    }
}


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"amount": {"exclusiveMinimum": 1000}}, "amount is over 1,000"),
        ({"amount": {"minimum": 10, "maximum": 99.5}}, "amount is at least 10 and at most 99.5"),
        ({"euros": {"exclusiveMaximum": 1000}}, "euros is under €1,000.00"),
        (
            {"sum": {"maximum": 50}, "currency": {"const": "USD"}},
            "sum is at most $50.00, currency is USD",
        ),
        ({"sum": {"maximum": 50}}, "sum is at most 50"),
        ({"currency": {"enum": ["EUR", "USD"]}}, "currency is EUR or USD"),
        ({"ticketId": {"const": 7}, "express": {"const": True}}, "IT ticket is 7, express is yes"),
        ({"express": {"type": "boolean"}}, "express is given"),
        ({"amount": {"multipleOf": 5}}, ""),
        ({"amount": {"maximum": 5, "not": {"const": 3}}}, ""),
        ({"amount": {"maximum": 5}, "currency": {"pattern": "^E"}}, ""),
        ({"amount": {"enum": [*range(1000)]}}, ""),
        ({"amount": True}, ""),
    ],
)
def test_a_condition_has_all_of_its_words_or_none(properties: Any, text: str) -> None:
    assert condition_text({"properties": properties}, PARAMETERS) == text


@pytest.mark.parametrize("when", [None, True, {"anyOf": []}, {"not": {}}, {"properties": 5}])
def test_another_schema_has_no_words(when: Any) -> None:
    assert condition_text(when, PARAMETERS) == ""


def test_a_required_argument_is_given() -> None:
    assert condition_text({"required": ["express"]}, PARAMETERS) == "express is given"
