"""Summaries of conversations that are drawn, whatever their text and whatever the model refuses."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.log_entry import MessageEntry, NoticeEntry, TurnEndEntry, TurnStartEntry
from holdfast.schemas.message import AskedCall, ChatMessage
from holdfast.workflows.engine.conversation.summaries import MAX_REQUESTS_PER_TURN, pieces
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.phases import AskModel, Fail, Finish
from tests.engine.driver import Play, call, noon, reply, tool
from tests.engine.windowed import Windowed, check_calls

LARGE = {"max_turns": 200, "max_iterations": 200, "max_calls": 1_000}
SIZES = st.sampled_from([0, 1, 100, 3_000])
# A turn: what the results of its calls take. Or a message beside turns.
TURNS = st.lists(st.lists(SIZES, max_size=3) | SIZES, max_size=12)


def log_of(turns: list[list[int] | int]) -> Log:
    """A log with these messages, and what is between them."""
    log = Log(noon)
    for number, turn in enumerate(turns, start=1):
        log.append(NoticeEntry(text="beside"))
        if isinstance(turn, int):
            log.append(_message("user", turn))
            continue
        log.append(TurnStartEntry(turn=number))
        ids = [f"t{number}c{index}" for index in range(len(turn))]
        asked = [AskedCall(id=one, provider_id=one, tool="look", arguments={}) for one in ids]
        log.append(MessageEntry(message=ChatMessage(role="assistant", calls=asked)))
        for one, size in zip(ids, turn, strict=True):
            log.append(_message("tool", size, call_id=one, provider_id=one, tool="look"))
        log.append(TurnEndEntry(turn=number))
    return log


def _message(role: Any, size: int, **more: Any) -> MessageEntry:
    return MessageEntry(message=ChatMessage(role=role, content="x" * size, **more))


@given(TURNS, st.integers(0, 12))
def test_pieces_are_the_whole_conversation_and_separate_no_call_from_its_result(
    turns: list[list[int] | int], after: int
) -> None:
    log = log_of(turns)
    found = list(pieces(log, 0))
    assert len(found) == len(turns)
    for begin, end in zip([0, *(one.upto for one in found)], found, strict=False):
        records = [record for record in log.records_after(begin) if record["n"] <= end.upto]
        check_calls([one["message"] for one in records if one["type"] == "message"])
    # From any of their ends on, they are the same.
    for one in found[after:]:
        rest = [other for other in found if other.upto > one.upto]
        assert list(pieces(log, one.upto)) == rest


@given(TURNS, SIZES)
def test_a_turn_that_is_not_over_is_no_piece(turns: list[list[int] | int], size: int) -> None:
    log = log_of(turns)
    whole = list(pieces(log, 0))
    log.append(TurnStartEntry(turn=99))
    assert list(pieces(log, 0)) == whole
    asked = AskedCall(id="t99c0", provider_id="a", tool="look", arguments={})
    log.append(MessageEntry(message=ChatMessage(role="assistant", calls=[asked])))
    log.append(_message("tool", size, call_id="t99c0", provider_id="a"))
    assert list(pieces(log, 0)) == whole


def test_a_turn_in_whose_middle_a_summary_ended_is_one_piece_all_the_same() -> None:
    log = Log(noon)
    log.append(TurnStartEntry(turn=1))
    log.append(_message("user", 10))
    asked = AskedCall(id="t1c1", provider_id="a", tool="look", arguments={})
    log.append(MessageEntry(message=ChatMessage(role="assistant", calls=[asked])))
    log.append(_message("tool", 10, call_id="t1c1", provider_id="a"))

    assert [one.upto for one in pieces(log, 0)] == [2]
    assert [one.upto for one in pieces(log, 2)] == [4]


REFUSALS = st.lists(st.sampled_from(["takes", "too long", "says nothing"]), max_size=60)
WINDOWS = st.none() | st.sampled_from([500, 2_000, 100_000])


@given(REFUSALS, WINDOWS, st.integers(0, 6))
def test_whatever_a_model_refuses_the_run_ends(
    refusals: list[str], window: int | None, turns: int
) -> None:
    answers = [reply("", call("look")) for _ in range(turns)]
    play = Play(
        tool("look"),
        context=[{"role": "user", "content": "x" * 1_000}] * 6,
        model=[*answers, reply("done")],
        outcomes={"look": "x" * 1_000},
        definition={"budget": LARGE},
    )
    steps = 0
    while not isinstance(step := play.next(), Finish | Fail):
        steps += 1
        if not isinstance(step, AskModel):
            play.take(step)
            continue
        said = refusals.pop() if refusals else "takes"
        if said == "too long":
            refused = Solution(too_long=True, window=window)
            (
                play.run.requests.summary_answered
                if step.pointer.summary
                else play.run.model_answered
            )(refused)
        elif step.pointer.summary:
            play.run.requests.summary_answered(
                reply("" if said == "says nothing" else "so", window=window)
            )
        else:
            play.run.model_answered(play.model.pop(0).model_copy(update={"window": window}))
        assert steps < 60 + 3 * turns + MAX_REQUESTS_PER_TURN
    ends = play.records("summary")
    assert [one["upto"] for one in ends] == sorted({one["upto"] for one in ends})
    assert all(one["upto"] < one["n"] for one in ends)


@given(
    st.lists(st.lists(st.integers(0, 4_000), min_size=1, max_size=3), max_size=25),
    st.integers(6_000, 20_000),
    st.booleans(),
    st.booleans(),
)
def test_what_fits_by_itself_is_never_a_models_error(
    turns: list[list[int]], window: int, says_window: bool, counted: bool
) -> None:
    sizes = {f"t{t}c{c}": n for t, turn in enumerate(turns, 1) for c, n in enumerate(turn, 1)}
    play = Windowed(
        window,
        tool("look"),
        says_window=says_window,
        counted=counted,
        model=[*(reply("", *[call("look")] * len(turn)) for turn in turns), reply("done")],
        outcomes={"look": lambda one: "x" * sizes[one.id]},
        definition={"budget": LARGE},
    ).to_end()

    assert play.result["output"] == "done"
    assert len(play.results()) == len(sizes)
    for messages in play.read:
        check_calls(messages)
