"""Which addresses an operator's prefixes let through: compared as parsed, with no tricks."""

import pytest

from holdfast.runtime.addresses import AddressError, AddressPrefix, allowed_address, display_address

DOCS = [
    AddressPrefix.read("https://docs.acme.org/guide/"),
    AddressPrefix.read("http://localhost:8080"),
]


@pytest.mark.parametrize(
    "url",
    [
        "https://docs.acme.org/guide/returns.md",
        "https://docs.acme.org/guide",
        "HTTPS://DOCS.ACME.ORG:443/guide/a/b?page=2#top",
        "https://docs.acme.org/other/../guide/x",
        "http://localhost:8080",
        "http://localhost:8080/anything",
    ],
)
def test_what_begins_with_a_prefix_is_allowed(url: str) -> None:
    assert str(allowed_address(url, DOCS)).lower().startswith(url.partition("://")[0].lower())


@pytest.mark.parametrize(
    "url",
    [
        "http://docs.acme.org:443/guide/x",  # another scheme
        "https://docs.acme.org:8443/guide/x",  # another port
        "https://docs.acme.org.evil.net/guide/x",  # another host
        "https://docs.acme.org/guidebook",  # a string's prefix, and no step of a path
        "https://docs.acme.org/",
        "https://docs.acme.org/guide/../secrets",
        "http://localhost/anything",
        "http://127.0.0.1:8080/anything",
        "http://[::ffff:127.0.0.1]:8080/anything",
        "http://2130706433:8080/anything",
        "http://localhost.:8080/anything",
        "http://localhost:80800/anything",
        "https://docs.acme.org./guide/x",  # another name, for servers and certificates
        "https://docs.acme.org%2eevil.net/guide/x",
        "https://dócs.acme.org/guide/x",  # in Punycode, xn--dcs-gna
        "https://docs.аcme.org/guide/x",  # with a Cyrillic a
        "https://docs.acme.org/GUIDE/x",
        "https://docs.acme.org/guide%2fx",
        "https://docs.acme.org//guide/x",
        "https://docs.acme.org/%67uide/x",
    ],
)
def test_what_does_not_is_refused_with_what_to_do(url: str) -> None:
    with pytest.raises(AddressError, match=r"the worker does not allow .*`--knowledge-url`"):
        allowed_address(url, DOCS)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://docs.acme.org@evil.net/guide/x", "a user's name or password"),
        ("https://docs.acme.org%40evil.net@x/guide/x", "a user's name or password"),
        ("https://docs.acme.org\\@evil.net/guide/x", "no address|a user's name|no web address"),
        ("https://docs.acme.org/guide/x%2f..%2f..%2fsecrets", "as a part of its path"),
        ("http://0177.0.0.1:8080/x", "no address"),
        ("http://[::1", "no address"),
        ("https://docs.acme.org/guide\r\nhost: evil.net", "no address"),
        ("//docs.acme.org/guide/x", "no web address"),
        ("https://ann:secret@docs.acme.org/guide/x", "a user's name or password"),
        ("https://docs.acme.org/guide/%2e%2e/secrets", "as a part of its path"),
        ("https://docs.acme.org/guide/..%2fsecrets", "as a part of its path"),
        ("https://docs.acme.org/guide/..;/secrets", "as a part of its path"),
        ("https://docs.acme.org/guide/..\\secrets", "as a part of its path"),
        ("https://docs.acme.org/guide/%5c..", "as a part of its path"),
        ("file:///etc/passwd", "no web address"),
        ("docs.acme.org/guide/x", "no web address"),
        ("https:///guide/x", "no web address"),
        ("https://docs.acme.org/\x00", "no address"),
        ("https://docs.acme.org:port/", "no address"),
        ("https://docs.acme.org/" + "x" * 2_000, "the address has 2022 characters"),
        ("", "no web address"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(url: str, reason: str) -> None:
    with pytest.raises(AddressError, match=reason) as refused:
        allowed_address(url, DOCS)
    assert "secret@" not in str(refused.value)


def test_without_a_prefix_nothing_is_allowed() -> None:
    with pytest.raises(AddressError):
        allowed_address("https://docs.acme.org/guide", [])


@pytest.mark.parametrize("text", ["acme", "https://a.org/?x=1", "https://a.org/#x", "ftp://a.org"])
def test_a_prefix_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(AddressError):
        AddressPrefix.read(text)


def test_an_address_is_shown_without_its_query() -> None:
    assert (
        display_address(allowed_address("http://localhost:8080/a?token=x#y", DOCS))
        == "http://localhost:8080/a"
    )
