"""What is sent between events, however the looks at it fall: the tokens of an answer add up."""

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


def written(text: str, attempt: int = 1, request: str = "7", **more: Any) -> AnswerProgress:
    """The heartbeat of a model that has written so much: the end of it alone."""
    offset = max(len(text) - WINDOW_CHARS, 0)
    calls = more.pop("calls", [])
    return AnswerProgress(f"{request}/{attempt}", attempt, text[offset:], offset, calls, **more)


def deltas(frames: list[Frame]) -> list[tuple[int, int, str]]:
    return [(one.data["attempt"], one.data["offset"], one.data["text"]) for one in frames]


def joined(frames: list[Frame]) -> str:
    last, text = 0, ""
    for attempt, offset, piece in deltas(frames):
        assert attempt >= last
        text = text if attempt == last else ""
        assert offset == len(text)
        last, text = attempt, text + piece
    return text


def test_new_text_is_sent_once_and_a_new_attempt_or_request_starts_again() -> None:
    answering = AnswerStream(3, StreamCursor(12))

    assert deltas([*answering.update(written("I will"))]) == [(1, 0, "I will")]
    assert deltas([*answering.update(written("I will"))]) == []
    assert deltas([*answering.update(written("I will look"))]) == [(1, 6, " look")]
    assert deltas([*answering.update(written("So", attempt=2))]) == [(2, 0, "So")]
    assert deltas([*answering.update(written("Well", attempt=1, request="9"))]) == [(3, 0, "Well")]
    long = [*answering.finish("Well" + "x" * (2 * MAX_TOKEN_CHARS + 1))]
    assert [len(text) for _, _, text in deltas(long)] == [MAX_TOKEN_CHARS, MAX_TOKEN_CHARS, 1]


def test_a_new_attempt_voids_the_one_before_even_without_text() -> None:
    answering = AnswerStream(1, StreamCursor(1))
    [*answering.update(written("I will"))]

    assert [*answering.update(written("", attempt=2))] == []
    frames = [*answering.update(written("", attempt=2, calls=[{"tool": "pay", "arguments": ""}]))]
    assert [frame.type for frame in frames] == ["token", "tool_call_delta"]
    assert deltas(frames[:1]) == [(2, 0, "")]
    assert [*answering.finish("")] == []


def test_an_answer_without_text_takes_back_the_streamed_text() -> None:
    answering = AnswerStream(1, StreamCursor(1))
    [*answering.update(written("I will"))]

    assert deltas([*answering.finish("")]) == [(2, 0, "")]
    assert deltas([*AnswerStream(1, StreamCursor(1)).finish("")]) == []


@pytest.mark.parametrize("more", [{"turn": 2}, {"turn": 1, "call": "t1c1"}, {"summary": True}])
def test_an_answer_of_another_turn_is_not_sent_as_one(more: dict[str, Any]) -> None:
    assert [*AnswerStream(1, StreamCursor(1)).update(written("I will", **more))] == []
    assert [*AnswerStream(1, StreamCursor(1)).update(written("I will", turn=1))] != []


def test_calls_being_written_are_sent_whole_whenever_they_have_grown() -> None:
    answering = AnswerStream(1, StreamCursor(1))
    started, more = [{"tool": "pay", "arguments": "{"}], [{"tool": "pay", "arguments": '{"a": 1}'}]

    frames = [
        frame
        for calls in (started, started, more)
        for frame in answering.update(written("", calls=calls))
    ]

    assert [frame.data["calls"] for frame in frames] == [started, more]
    assert {frame.type for frame in frames} == {"tool_call_delta"}


def test_another_process_continues_in_the_middle_of_an_answer() -> None:
    first = AnswerStream(1, StreamCursor(1))
    [*first.update(written("I will"))]
    there = StreamCursor.read(str(first.position))

    assert deltas([*AnswerStream(1, there).update(written("I will look"))]) == [(1, 6, " look")]
    assert deltas([*AnswerStream(1, there).finish("I will look")]) == [(1, 6, " look")]
    assert deltas([*AnswerStream(1, there).update(written("Another", attempt=1))]) == [
        (2, 0, "Another")
    ]
    assert deltas([*AnswerStream(1, there).update(written("I wi", attempt=2))]) == [(2, 0, "I wi")]


ANSWER = st.text(max_size=30)


@given(ANSWER, ANSWER, st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.booleans())))
def test_the_tokens_add_up_whatever_was_seen_and_whichever_process_sends_them(
    before: str, answer: str, looks: list[tuple[int, bool, bool]]
) -> None:
    """An attempt writes `before` and dies, a second one `answer`; after any look the stream may
    break off and be taken up by another process."""
    answering, frames, again = AnswerStream(1, StreamCursor(4)), list[Frame](), False
    for chars, dies, breaks in looks:
        again = again or dies
        shown = written(answer[:chars], attempt=2) if again else written(before[:chars])
        frames += answering.update(shown)
        if breaks:
            last = frames[-1].position if frames else StreamCursor(4)
            answering = AnswerStream(1, StreamCursor.read(str(last)))
    frames += answering.finish(answer)

    assert joined(frames) == answer


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


def test_the_progress_of_a_call_is_sent_when_it_has_changed() -> None:
    updates, other = CallUpdates(), CallProgress("t2c2", 1, {"done": 1})
    half, whole = (CallProgress("t2c1", 1, {"done": done}) for done in (1, 2))

    assert updates.new([half]) == [half]
    assert updates.new([half, other]) == [other]
    assert updates.new([whole, other]) == [whole]
