"""Events and documents are whole however the bytes of a response are cut."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.providers.bedrock import EventStreamDecoder
from holdfast.providers.transport.event_decoders import EventDecoder, LineDecoder
from tests.providers.writers.framing import event_stream, event_stream_message

SSE = (
    '\ufeff: a comment\r\n\r\nevent: message\ndata: {"t": "†"}\nid: 7\n\n'
    "data:one\ndata: two\n\n\n\nretry: 5\n\ndata: [DONE]\n\n"
).encode()
EVENTS = ['{"t": "†"}', "one\ntwo", "[DONE]"]
LINES = '\ufeff{"t":"†"}\r\n\n  {"t":2}  \n\r\n[3]\n{"t":"\u2028"}\n'.encode()
DOCUMENTS = ['{"t":"†"}', '{"t":2}', "[3]", '{"t":"\u2028"}']
SPREAD = '\ufeff\n {\n"a":\r\n\n{"b":"†"},\n"c":[\n1]}\n'.encode()
PLACES = st.lists(st.integers(0, len(SSE)), max_size=20)


def read(
    *chunks: bytes, decoder: type[EventDecoder] = LineDecoder
) -> tuple[list[str], str | None, str]:
    """What is decoded, what is left, and what is neither."""
    stream = decoder()
    decoded = [each for chunk in chunks for each in stream.feed(chunk)]
    return decoded, stream.rest(), stream.stray


def cut(text: bytes, places: list[int]) -> list[bytes]:
    return [text[start:end] for start, end in pairwise([0, *sorted(places), len(text)])]


@given(PLACES)
def test_any_cut_gives_the_same(places: list[int]) -> None:
    assert read(*cut(SSE, places))[:2] == (EVENTS, None)
    assert read(*cut(LINES, places))[:2] == (DOCUMENTS, None)
    documents, rest, _ = read(*cut(SPREAD, places))
    assert (documents, json.loads(rest or "")) == ([], {"a": {"b": "†"}, "c": [1]})


@pytest.mark.parametrize(
    ("body", "decoded", "rest", "stray"),
    [
        # Lines may end as on Windows, or with a carriage return alone.
        (SSE.replace(b"\r", b"").replace(b"\n", b"\r\n"), EVENTS, None, ""),
        (SSE.replace(b"\r", b"").replace(b"\n", b"\r"), EVENTS[:2], EVENTS[2], ""),
        (b"data: 1\n\ndata: {", ["1"], "{", ""),
        (b"data: 1\n\ndata: 2\n", ["1"], "2", ""),
        # A document in place of a stream; a bracket within one begins none.
        (b'{"a": 1}\n', ['{"a": 1}'], None, ""),
        (b'\n\n  {\n"a":\n\n1}', [], '{\n"a":\n\n1}', ""),
        (b'[{"error": 1}]', [], '[{"error": 1}]', ""),
        (b"data: 1\n\n{x\ndata: 2\n\n", ["1", "2"], None, "{x"),
        (b"\n\n", [], None, ""),
        (b": hm\nid: 1\nHello\nthere\n\n", [], None, "Hello"),
        # The last document needs no end of its line, and may be without its own.
        (b'{"a":1}\n{"b":2}', ['{"a":1}'], '{"b":2}', ""),
        (b'{"a":1}\r', [], '{"a":1}', ""),
        (b'{"a":1}\n{"b"', ['{"a":1}'], '{"b"', ""),
        (b'{\n"a":\n', [], '{\n"a":', ""),
        # A broken line is a document once the stream has started.
        (b'{"a":1}\n{"b\n{"c":3}\n', ['{"a":1}', '{"b', '{"c":3}'], None, ""),
        (b"\r\n\n  ", [], None, ""),
        (b'data: {}\nthere\n{"a":1}\n', [], "{}", "there"),
        (b'<html>\nthere\n{"a":1}\n', ['{"a":1}'], None, "<html>"),
        (b'Hello\nthere\n{"a":1}\n', ['{"a":1}'], None, "Hello"),
        (b'{"a":"\xc3"}\n', ['{"a":"\ufffd"}'], None, ""),
    ],
)
def test_what_is_no_good_stream(
    body: bytes, decoded: list[str], rest: str | None, stray: str
) -> None:
    assert read(body[:4], body[4:]) == (decoded, rest, stray)


@pytest.mark.parametrize("size", [1, 100])
def test_a_byte_order_mark_is_one_at_the_very_beginning_alone(size: int) -> None:
    body = '\ufeff{"a":1}\n\ufeff{"b":2}\n{"c":3}\n'.encode()
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    assert read(*chunks)[:2] == (['{"a":1}', '{"c":3}'], None)


def test_a_name_of_an_event_is_its_type_where_the_data_has_none() -> None:
    named = b'event: ping\ndata: {}\n\nevent: a\ndata: {"type": "b"}\n\nevent: c\ndata: x\n\n'
    events, _, _ = read(named)
    assert [json.loads(each) for each in events[:2]] == [{"type": "ping"}, {"type": "b"}]
    assert events[2] == "x"


# Amazon's event stream.


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_messages_are_the_same_however_their_bytes_are_cut(size: int) -> None:
    body = event_stream([{"messageStart": {}}, {"delta": "Zoë 😀" * 100}, {"messageStop": {}}])
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    found, rest, stray = read(*chunks, decoder=EventStreamDecoder)
    kinds = ["messageStart", "delta", "messageStop"]
    assert [next(iter(json.loads(event))) for event in found] == kinds
    assert (rest, stray) == (None, "")


def test_a_long_message_in_many_pieces_takes_linear_time() -> None:
    headers = {"event-type": "x", "message-type": "event"}
    body = event_stream_message(json.dumps("x" * 4_000_000).encode(), headers)
    # By the square of its length, this would take minutes.
    chunks = [body[at : at + 100] for at in range(0, len(body), 100)]
    assert len(read(*chunks, decoder=EventStreamDecoder)[0]) == 1


def test_nothing_behind_a_broken_message_is_read() -> None:
    whole, broken = event_stream([{"a": 1}]), bytearray(event_stream([{"b": 2}]))
    broken[40] ^= 1
    assert read(whole, bytes(broken), whole, decoder=EventStreamDecoder) == (['{"a": 1}'], None, "")
