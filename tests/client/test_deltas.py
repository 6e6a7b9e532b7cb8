"""What is told between events, however the looks at it fall: the tokens of an answer add up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.stream.deltas import (
    MAX_TOKEN_CHARS,
    AnswerStream,
    CallUpdates,
    Frame,
    StreamCursor,
)
from holdfast.client.stream.heartbeats import AnswerProgress, CallProgress

WINDOW_CHARS = 8


def said(text: str, attempt: int = 1, request: str = "7", **more: Any) -> AnswerProgress:
    """The heartbeat of a model that has said so much: the end of it alone."""
    offset = max(len(text) - WINDOW_CHARS, 0)
    calls = more.pop("calls", [])
    return AnswerProgress(f"{request}/{attempt}", attempt, text[offset:], offset, calls, **more)


def told(frames: list[Frame]) -> list[tuple[int, int, str]]:
    return [(one.data["attempt"], one.data["offset"], one.data["text"]) for one in frames]


def joined(frames: list[Frame]) -> str:
    last, text = 0, ""
    for attempt, offset, piece in told(frames):
        assert attempt >= last
        text = text if attempt == last else ""
        assert offset == len(text)
        last, text = attempt, text + piece
    return text


def test_what_is_new_is_told_once_and_a_new_attempt_or_request_starts_anew() -> None:
    answering = AnswerStream(3, StreamCursor(12))

    assert told([*answering.update(said("I will"))]) == [(1, 0, "I will")]
    assert told([*answering.update(said("I will"))]) == []
    assert told([*answering.update(said("I will look"))]) == [(1, 6, " look")]
    assert told([*answering.update(said("So", attempt=2))]) == [(2, 0, "So")]
    assert told([*answering.update(said("Well", attempt=1, request="9"))]) == [(3, 0, "Well")]
    long = [*answering.finish("Well" + "x" * (2 * MAX_TOKEN_CHARS + 1))]
    assert [len(text) for _, _, text in told(long)] == [MAX_TOKEN_CHARS, MAX_TOKEN_CHARS, 1]


def test_a_new_attempt_voids_the_one_before_even_where_it_says_nothing() -> None:
    answering = AnswerStream(1, StreamCursor(1))
    [*answering.update(said("I will"))]

    assert [*answering.update(said("", attempt=2))] == []
    frames = [*answering.update(said("", attempt=2, calls=[{"tool": "pay", "arguments": ""}]))]
    assert [frame.type for frame in frames] == ["token", "tool_call_delta"]
    assert told(frames[:1]) == [(2, 0, "")]
    assert [*answering.finish("")] == []


def test_an_answer_without_text_takes_back_what_was_told_of_it() -> None:
    answering = AnswerStream(1, StreamCursor(1))
    [*answering.update(said("I will"))]

    assert told([*answering.finish("")]) == [(2, 0, "")]
    assert told([*AnswerStream(1, StreamCursor(1)).finish("")]) == []


@pytest.mark.parametrize("more", [{"turn": 2}, {"turn": 1, "call": "t1c1"}, {"summary": True}])
def test_what_is_no_answer_of_this_turn_is_not_told_as_one(more: dict[str, Any]) -> None:
    assert [*AnswerStream(1, StreamCursor(1)).update(said("I will", **more))] == []
    assert [*AnswerStream(1, StreamCursor(1)).update(said("I will", turn=1))] != []


def test_calls_on_their_way_are_told_whole_whenever_they_have_grown() -> None:
    answering = AnswerStream(1, StreamCursor(1))
    begun, more = [{"tool": "pay", "arguments": "{"}], [{"tool": "pay", "arguments": '{"a": 1}'}]

    frames = [
        frame for calls in (begun, begun, more) for frame in answering.update(said("", calls=calls))
    ]

    assert [frame.data["calls"] for frame in frames] == [begun, more]
    assert {frame.type for frame in frames} == {"tool_call_delta"}


def test_another_process_goes_on_in_the_middle_of_an_answer() -> None:
    first = AnswerStream(1, StreamCursor(1))
    [*first.update(said("I will"))]
    there = StreamCursor.read(str(first.position))

    assert told([*AnswerStream(1, there).update(said("I will look"))]) == [(1, 6, " look")]
    assert told([*AnswerStream(1, there).finish("I will look")]) == [(1, 6, " look")]
    assert told([*AnswerStream(1, there).update(said("Another", attempt=1))]) == [(2, 0, "Another")]
    assert told([*AnswerStream(1, there).update(said("I wi", attempt=2))]) == [(2, 0, "I wi")]


ANSWER = st.text(max_size=30)


@given(ANSWER, ANSWER, st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.booleans())))
def test_the_tokens_add_up_whatever_was_seen_and_whoever_tells_it(
    before: str, answer: str, looks: list[tuple[int, bool, bool]]
) -> None:
    """An attempt says `before` and dies, a second one says `answer`; after any look the stream may
    break off and be taken up by another process."""
    answering, frames, again = AnswerStream(1, StreamCursor(4)), list[Frame](), False
    for chars, dies, breaks in looks:
        again = again or dies
        shown = said(answer[:chars], attempt=2) if again else said(before[:chars])
        frames += answering.update(shown)
        if breaks:
            last = frames[-1].position if frames else StreamCursor(4)
            answering = AnswerStream(1, StreamCursor.read(str(last)))
    frames += answering.finish(answer)

    assert joined(frames) == answer


@given(st.builds(StreamCursor, st.integers(0, 10**9), st.integers(1, 9), st.integers(0, 10**6)))
def test_an_id_says_where_its_reader_is(position: StreamCursor) -> None:
    assert StreamCursor.read(str(position)) == position


@pytest.mark.parametrize(
    "text",
    ["", "x", "-1", "1.2", "1.1.1.zz", "1.end.1", "9" * 13, "1\n", "١", "1.1.1.00000000.end"],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no frame has this id"):
        StreamCursor.read(text)


def test_what_a_call_says_of_itself_is_told_when_it_has_changed() -> None:
    updates, other = CallUpdates(), CallProgress("t2c2", 1, {"done": 1})
    half, whole = (CallProgress("t2c1", 1, {"done": done}) for done in (1, 2))

    assert updates.new([half]) == [half]
    assert updates.new([half, other]) == [other]
    assert updates.new([whole, other]) == [whole]
