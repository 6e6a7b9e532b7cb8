"""Events are whole however the bytes of a stream are cut."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.providers.transport.event_decoders import SseDecoder

STREAM = (
    '\ufeff: a comment\r\n\r\nevent: message\ndata: {"t": "†"}\nid: 7\n\n'
    "data:one\ndata: two\n\n\n\nretry: 5\n\ndata: [DONE]\n\n"
).encode()
EVENTS = ['{"t": "†"}', "one\ntwo", "[DONE]"]


def read(*chunks: bytes) -> tuple[list[str], str | None]:
    """The events of these chunks, and what is left."""
    stream = SseDecoder()
    return [event for chunk in chunks for event in stream.feed(chunk)], stream.rest()


@settings(deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_any_cut_gives_the_same_events(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in pairwise(places)]
    assert read(*chunks) == (EVENTS, None)


def test_lines_may_end_as_on_windows() -> None:
    stream = SseDecoder()
    assert stream.feed(STREAM.replace(b"\r", b"").replace(b"\n", b"\r\n")) == EVENTS
    assert stream.stray == ""


def test_an_event_without_its_end_is_what_is_left() -> None:
    assert read(b"data: 1\n\ndata: {") == (["1"], "{")
    assert read(b"data: 1\n\ndata: 2\n") == (["1"], "2")


@pytest.mark.parametrize("document", [b'{"a": 1}\n', b'\n\n  {\n"a":\n\n1}', b'[{"error": 1}]'])
def test_a_json_document_in_place_of_a_stream_is_left_whole(document: bytes) -> None:
    events, rest = read(document[:4], document[4:])
    assert events == []
    assert rest == document.decode().lstrip()


def test_a_bracket_within_a_stream_begins_no_document() -> None:
    stream = SseDecoder()
    assert stream.feed(b"data: 1\n\n{x\ndata: 2\n\n") == ["1", "2"]
    assert (stream.rest(), stream.stray) == (None, "{x")


def test_nothing_is_nothing() -> None:
    assert read(b"", b"\n\n") == ([], None)


def test_what_is_no_event_stream_is_noticed() -> None:
    stream = SseDecoder()
    assert stream.feed(b": hm\nid: 1\nHello\nthere\n\n") == []
    assert stream.stray == "Hello"
