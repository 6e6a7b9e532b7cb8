"""Forms of MCP servers: only flat ones are shown, cleaned, and none that requires a secret."""

from typing import Any

import pytest
from mcp_types import ElicitRequest, ElicitRequestURLParams, InputRequiredResult, ListRootsRequest

from holdfast.runtime.mcp import input_forms
from holdfast.runtime.mcp.errors import NoResultError
from holdfast.runtime.mcp.input_forms import is_secret, read_forms
from tests.activities.mcp.servers.airline import form

SECRET = [
    *("password", "newPassword", "password_confirmation", "user passphrase", "pwd", "api_key"),
    *("apiKey", "APIKEY", "secret access key", "clientSecret", "token", "access_token", "key"),
    *("Your API token", "PIN", "pin code", "cvv", "CVC2", "iban", "card_number", "cardNumber"),
    *("Credit card", "one-time code", "otp", "seed phrase", "mot de passe", "credentials"),
    # Letters of Cyrillic, Greek, small capitals and mathematics, accents, digits.
    *("pаssword", "newPаsswоrd", "сvv", "АРІ kеy", "ΡΙΝ", "οtp", "ᴘᴀꜱꜱᴡᴏʀᴅ", "𝐩assword"),
    *("pässwörd", "p@ssw0rd", "pa$$w0rd", "t0ken", "p1n", "cаrdNumbеr"),
]
HARMLESS = [
    *("monkey", "keyboard", "token count", "max_tokens", "issue key", "key_name", "pinboard"),
    *("passenger", "password policy", "compass", "secretary", "seat", "postal code", "tokenizer"),
    *("номер заказа", "Θέση", "seat 1A", "room 305", "5 keys", "größe"),
    *("account name", "author", "card", "spin", "access", "keyword", "hyphen"),
]


@pytest.mark.parametrize("name", SECRET)
def test_a_field_for_a_secret_is_recognized(name: str) -> None:
    assert is_secret(name)
    assert is_secret("field", title=name)


@pytest.mark.parametrize("name", HARMLESS)
def test_a_field_of_a_like_name_is_none(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("text", "wants"),
    [
        ("Please enter your password.", True),
        ("Paste the API key of your account", True),
        ("What is the card number?", True),
        ("Never enter a password here. Which seat?", False),
        ("Your password was reset. Which seat?", False),
        ("Enter the length of the token", False),
    ],
)
def test_a_message_that_requests_a_secret_is_recognized(text: str, *, wants: bool) -> None:
    assert input_forms.wants_secret(text) is wants


def read(*requests: Any, state: str | None = "s") -> Any:
    asked = {f"r{number}": each for number, each in enumerate(requests)}
    return read_forms(InputRequiredResult(input_requests=asked, request_state=state))


def test_texts_are_cleaned_and_unknown_keywords_left_out() -> None:
    field = {
        "type": "string",
        "title": "Se\u202eat\n",
        "oneOf": [{"const": "a", "title": "Ais\x07le", "x": 1}, {"const": "b", "title": "Window"}],
        "pattern": "(a+)+$",
        "x": 1,
    }
    made = read(form("Which\x1b[31m seat?\nNow.", seat=field)).forms["r0"]
    assert made.message == "Which seat? Now."
    choices = [{"const": "a", "title": "Aisle"}, {"const": "b", "title": "Window"}]
    assert made.fields["properties"] == {
        "seat": {"type": "string", "title": "Seat", "oneOf": choices}
    }


def address(url: str) -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestURLParams(message="There.", url=url))


REFUSED = [
    (ListRootsRequest(), "it requires `roots/list`, which is not supported"),
    (form("?", a={"type": "object"}), "field `a` of its form is no text"),
    (form("?", a={"type": "string", "minLength": "x"}), "its form is no JSON Schema"),
    (
        form("?", pw={"type": "string", "description": "The password."}),
        "field `pw` requires a secret",
    ),
    (form("Enter your password.", a={"type": "string"}), "requires a secret in its message"),
    (form("x" * 99, **{f"f{n}": {"type": "string"} for n in range(999)}), "at most 100000"),
    (form("?", a={"type": "array", "items": {"type": "object"}}), "field `a` of its form is no"),
    (form("?", a={"type": "array", "items": True}), "field `a` of its form is no text, number"),
    (form("?", a=True), "field `a` of its form is no text, number, choice"),
    (form("?", a={"type": "string", "oneOf": [1]}), "its form is no JSON Schema"),
    (address("http://pay.example/"), "is not one of https"),
    (address("https://bank.example@pay.example/"), "is not one of https"),
    (address("javascript:alert(1)"), "is not one of https"),
    (address("https://p\u0430y.example/"), "is not one of https"),
]


@pytest.mark.parametrize(("request_", "why"), REFUSED, ids=[each[1] for each in REFUSED])
def test_what_no_person_is_asked_for_is_refused(request_: Any, why: str) -> None:
    with pytest.raises(NoResultError, match=why):
        read(request_)


def test_a_large_state_is_refused() -> None:
    with pytest.raises(NoResultError, match="at most 100000"):
        read(address("http://localhost:8000/x"), state="x" * 100_000)


def test_words_of_large_forms_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_forms, "wants_secret", None)
    with pytest.raises(NoResultError, match="at most 100000"):
        read(form("x" * 100_000, seat={"type": "string"}))


def test_a_field_without_free_text_is_no_secret() -> None:
    made = read(form("Reset it?", reset_password={"type": "boolean"}))
    assert "reset_password" in made.forms["r0"].fields["properties"]
