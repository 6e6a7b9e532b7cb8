"""Documents are whole however the bytes of a response are cut, and however many lines they fill."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.providers.transport.event_decoders import JsonLinesDecoder

STREAM = '\ufeff{"t":"†"}\r\n\n  {"t":2}  \n\r\n[3]\n{"t":"\u2028"}\n'.encode()
DOCUMENTS = ['{"t":"†"}', '{"t":2}', "[3]", '{"t":"\u2028"}']
SPREAD = '\ufeff\n {\n"a":\r\n\n{"b":"†"},\n"c":[\n1]}\n'.encode()


def read(*chunks: bytes) -> tuple[list[str], str | None]:
    """The documents of these chunks, and what is left."""
    stream = JsonLinesDecoder()
    return [each for chunk in chunks for each in stream.feed(chunk)], stream.rest()


def cut(text: bytes, places: list[int]) -> list[bytes]:
    """The text in pieces."""
    return [text[start:end] for start, end in pairwise([0, *sorted(places), len(text)])]


@settings(deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_any_cut_gives_the_same_documents(places: list[int]) -> None:
    assert read(*cut(STREAM, places)) == (DOCUMENTS, None)


@settings(deadline=None)
@given(st.lists(st.integers(0, len(SPREAD)), max_size=20))
def test_one_document_may_fill_several_lines(places: list[int]) -> None:
    documents, rest = read(*cut(SPREAD, places))
    assert documents == []
    assert json.loads(rest or "") == {"a": {"b": "†"}, "c": [1]}


def test_the_last_document_needs_no_end_of_line() -> None:
    assert read(b'{"a":1}\n{"b":2}') == (['{"a":1}'], '{"b":2}')
    assert read(b'{"a":1}\r') == ([], '{"a":1}')


def test_a_document_without_its_end_is_what_is_left() -> None:
    assert read(b'{"a":1}\n{"b"') == (['{"a":1}'], '{"b"')
    assert read(b'{\n"a":\n') == ([], '{\n"a":')


def test_a_line_that_is_broken_is_a_document_once_the_stream_has_begun() -> None:
    assert read(b'{"a":1}\n{"b\n{"c":3}\n') == (['{"a":1}', '{"b', '{"c":3}'], None)


@pytest.mark.parametrize("size", [1, 100])
def test_a_byte_order_mark_is_one_at_the_very_beginning_alone(size: int) -> None:
    body = '\ufeff{"a":1}\n\ufeff{"b":2}\n{"c":3}\n'.encode()
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    assert read(*chunks) == (['{"a":1}', '{"c":3}'], None)


def test_nothing_is_nothing() -> None:
    assert read(b"", b"\r\n\n", b"  ") == ([], None)


@pytest.mark.parametrize("first", ["data: {}", "<html>", "Hello"])
def test_what_is_no_document_is_noticed(first: str) -> None:
    stream = JsonLinesDecoder()
    assert stream.feed(f'{first}\nthere\n{{"a":1}}\n'.encode()) == ['{"a":1}']
    assert stream.stray == first


def test_half_a_character_is_replaced() -> None:
    assert read(b'{"a":"\xc3"}\n')[0] == ['{"a":"�"}']
