"""What a reader of an answer receives, however the looks at it fall: the parts add up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.stream.heartbeats import AnswerProgress
from holdfast.client.stream.text_reader import StreamCursor, TextDelta, TextReader

WINDOW_CHARS = 8


def written(text: str, attempt: int = 1, request: str = "7", **more: Any) -> AnswerProgress:
    """The heartbeat of a model that has written so much: the end of it alone."""
    offset = max(len(text) - WINDOW_CHARS, 0)
    calls = more.pop("calls", [])
    return AnswerProgress(f"{request}/{attempt}", attempt, text[offset:], offset, calls, **more)


def delta(part: TextDelta | None) -> tuple[int, int, str] | None:
    return None if part is None else (part.at.attempt, part.at.sent_chars, part.text)


def joined(parts: list[TextDelta | None]) -> str:
    last, text = 0, ""
    for attempt, offset, piece in filter(None, map(delta, parts)):
        assert attempt >= last
        text = text if attempt == last else ""
        assert offset == len(text)
        last, text = attempt, text + piece
    return text


def test_new_text_is_sent_once_and_a_new_attempt_or_request_starts_again() -> None:
    reader = TextReader(StreamCursor(12))

    assert delta(reader.read(written("I will"))) == (1, 0, "I will")
    assert reader.read(written("I will")) is None
    assert delta(reader.read(written("I will look"))) == (1, 6, " look")
    assert delta(reader.read(written("So", attempt=2))) == (2, 0, "So")
    assert delta(reader.read(written("Well", attempt=1, request="9"))) == (3, 0, "Well")
    assert delta(reader.finish("Well, yes.")) == (3, 4, ", yes.")


def test_a_new_attempt_voids_the_one_before_even_without_text() -> None:
    reader = TextReader(StreamCursor(1))
    reader.read(written("I will"))

    assert reader.read(written("", attempt=2)) is None
    part = reader.read(written("", attempt=2, calls=[{"tool": "pay", "arguments": ""}]))
    assert (delta(part), part and part.is_void) == ((2, 0, ""), True)
    assert reader.finish("") is None


def test_an_answer_without_text_takes_back_the_streamed_text() -> None:
    reader = TextReader(StreamCursor(1))
    reader.read(written("I will"))

    assert delta(reader.finish("")) == (2, 0, "")
    assert TextReader(StreamCursor(1)).finish("") is None


def test_calls_being_written_are_sent_whole_whenever_they_have_grown() -> None:
    reader = TextReader(StreamCursor(1))
    started, more = [{"tool": "pay", "arguments": "{"}], [{"tool": "pay", "arguments": '{"a": 1}'}]

    parts = [reader.read(written("", calls=calls)) for calls in (started, started, more)]

    assert [part and part.calls for part in parts] == [started, None, more]


def test_another_process_continues_in_the_middle_of_an_answer() -> None:
    first = TextReader(StreamCursor(1))
    first.read(written("I will"))
    there = StreamCursor.read(str(first.cursor))

    assert delta(TextReader(there).read(written("I will look"))) == (1, 6, " look")
    assert delta(TextReader(there).finish("I will look")) == (1, 6, " look")
    assert delta(TextReader(there).read(written("Another", attempt=1))) == (2, 0, "Another")
    assert delta(TextReader(there).read(written("I wi", attempt=2))) == (2, 0, "I wi")


def test_a_reader_waits_for_the_text_before_the_end_that_is_known() -> None:
    reader = TextReader(StreamCursor(1))
    assert reader.read(written("I will look at it")) is None
    reader.read(written("I will"))
    assert reader.read(written("I will look at it, and write")) is None
    assert reader.read(written("Well, I will look", attempt=2)) is None
    assert delta(reader.finish("I will look at it.")) == (1, 6, " look at it.")


ANSWER = st.text(max_size=30)


@given(ANSWER, ANSWER, st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.booleans())))
def test_the_parts_add_up_whatever_was_seen_and_whichever_process_sends_them(
    before: str, answer: str, looks: list[tuple[int, bool, bool]]
) -> None:
    """An attempt writes `before` and dies, a second one `answer`; after any look the stream may
    break off and be taken up by another process."""
    reader, parts, again = TextReader(StreamCursor(4)), list[TextDelta | None](), False
    for chars, dies, breaks in looks:
        again = again or dies
        shown = written(answer[:chars], attempt=2) if again else written(before[:chars])
        parts.append(reader.read(shown))
        if breaks:
            reader = TextReader(StreamCursor.read(str(reader.cursor)))
    parts.append(reader.finish(answer))

    assert joined(parts) == answer


def test_a_reader_that_skips_receives_the_end_and_later_all_of_it() -> None:
    reader, start = TextReader(), "x" * 500
    looks = [("in the middle", 100), ("dle, and on", 110), ("late", 500), (f"{start}late", 0)]

    parts = []
    for text, offset in [*looks, (f"{start}later", 0)]:
        progress = AnswerProgress("1/1", 1, text, offset, [])
        assert not reader.is_over(progress)
        parts.append(reader.read(progress, skips=True))

    assert [part and (part.text, part.has_gap, part.fills_gap) for part in parts] == [
        ("in the middle", True, False),
        (", and on", False, False),
        ("late", True, False),
        ("", False, True),
        ("r", False, False),
    ]


def test_an_answer_is_over_once() -> None:
    reader = TextReader()
    assert not reader.is_over(None)
    assert not reader.is_over(written("Good"))
    assert delta(reader.read(written("Good"))) == (0, 0, "Good")
    assert not reader.is_over(written("Good day"))
    assert reader.is_over(written("Bad", attempt=2))
    assert delta(reader.read(written("Bad", attempt=2))) == (0, 0, "Bad")
    assert reader.is_over(None)
    assert not reader.is_over(None)


@given(st.builds(StreamCursor, st.integers(0, 10**9), st.integers(1, 9), st.integers(0, 10**6)))
def test_an_id_is_the_position_of_its_reader(position: StreamCursor) -> None:
    assert StreamCursor.read(str(position)) == position


@pytest.mark.parametrize(
    "text",
    ["", "x", "-1", "1.2", "1.1.1.zz", "1.end.1", "9" * 13, "1\n", "١", "1.1.1.00000000.end"],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no frame has this id"):
        StreamCursor.read(text)
