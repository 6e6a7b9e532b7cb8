"""Runs that continue as new: nothing of a run depends on it, and what is taken along is bounded."""

import os
from typing import Any

import pytest
from hypothesis import given

from holdfast.schemas.log_entry import (
    MessageEntry,
    NoticeEntry,
    ToolEndEntry,
    ToolStartEntry,
    TurnEndEntry,
)
from holdfast.schemas.message import ChatMessage
from holdfast.workflows.engine import continue_as_new
from holdfast.workflows.engine.continue_as_new import (
    LAST_EVENTS,
    MAX_CARRIED_BYTES,
    MAX_VALUE_BYTES,
    PRESSING_EVENTS,
    WORTH,
    HistoryLength,
    WorkflowSnapshot,
    is_due,
    read_start_arguments,
    start_arguments,
    stay_in_history,
)
from holdfast.workflows.engine.log import log as run_log
from holdfast.workflows.engine.log.log import SMALL_BYTES, Log
from holdfast.workflows.engine.phases import AskModel
from tests.engine.driver import NOON, Play, call, everything, noon, read_again, reply, tool
from tests.engine.generated import RUNS, Anything, Drawn

MEGABYTE = 1_000_000


class Chained(Anything):
    """The same run, which continues as new after every turn."""

    chained = True


@given(RUNS)
def test_a_run_that_continues_as_new_comes_to_what_it_comes_to_in_one_piece(drawn: Drawn) -> None:
    whole, chained = Anything(drawn).play(), Chained(drawn).play()

    assert chained.run.phases.end == whole.run.phases.end
    assert chained.records() == whole.records()
    assert chained.events() == whole.events()
    assert chained.log.digest == whole.log.digest


# The log, in pages.


def entries(turns: int, size: int = 100) -> list[Any]:
    found: list[Any] = []
    for turn in range(1, turns + 1):
        id = f"t{turn}c1"
        text = os.urandom(size // 2).hex()
        said = ChatMessage(role="tool", call_id=id, provider_id=id, tool="look", content=text)
        found += [
            ToolStartEntry(turn=turn, call_id=id, tool="look"),
            ToolEndEntry(turn=turn, call_id=id, tool="look"),
            MessageEntry(message=said),
            NoticeEntry(text=f"notice {turn}"),
            TurnEndEntry(turn=turn),
        ]
    return found


def logs(turns: int, size: int = 100) -> tuple[Log, Log]:
    """The same log at hand as a whole, and sealed after every third turn."""
    whole, sealed = Log(noon), Log(noon)
    for position, entry in enumerate(entries(turns, size), start=1):
        whole.append(entry)
        sealed.append(entry)
        if position % 15 == 0:
            sealed.seal()
    return whole, sealed


def test_a_log_reads_the_same_whatever_of_it_is_sealed() -> None:
    whole, sealed = logs(7)

    assert len(sealed.pages) == 2
    assert len(sealed) == len(whole) == 35
    assert sealed.digest == whole.digest
    for after in range(36):
        assert sealed.records(after, 4) == whole.records(after, 4)
        assert sealed.events(after, 4) == whole.events(after, 4)
        assert sealed.digest_at(after) == whole.digest_at(after)
    assert [event["n"] for event in sealed.events(0, 100)] == list(range(1, 29))
    assert sealed.messages() == whole.messages()
    assert read_again(sealed) == read_again(whole)


def test_little_pages_are_merged_when_a_run_continues_as_new() -> None:
    whole, log = Log(noon), Log(noon)
    for entry in entries(40, size=10_000):
        whole.append(entry)
        log.append(entry)
        if isinstance(entry, TurnEndEntry):
            log.seal_all()
            log = Log(noon, log.snapshot(), [page.data for page in log.pages])

    sizes = [page.size_bytes for page in log.pages]
    assert len(sizes) in (3, 4)
    assert all(size >= SMALL_BYTES for size in sizes[:-1])
    assert log.records(0, 500) == whole.records(0, 500)
    assert log.events(0, 500) == whole.events(0, 500)
    assert log.digest == whole.digest
    assert log.digest_at(77) == whole.digest_at(77)
    log.seal_all()
    assert len(log.pages) == len(sizes)


# When it is due.


@pytest.mark.parametrize(
    ("length", "stored", "due"),
    [
        (HistoryLength(100, 50_000), False, False),
        (HistoryLength(4_096, 4_000_000), False, False),
        (HistoryLength(4_096, 4_000_000, is_suggested=True), True, True),
        (HistoryLength(100, 50_000, bound_events=101), False, False),
        (HistoryLength(101, 50_000, bound_events=101), False, True),
        (HistoryLength(PRESSING_EVENTS, 1_000_000), False, True),
        (HistoryLength(500, 20_000_000), False, True),
    ],
)
def test_when_a_run_continues_as_new(length: HistoryLength, stored: bool, due: bool) -> None:
    assert is_due(length, Play().run, stored=stored) is due


def test_without_a_store_what_is_left_is_much_more_than_what_is_taken_along() -> None:
    run = Play().run
    log = run.state.log = logs(30, size=40_000)[1]
    log.seal()
    taken = sum(len(page.data) for page in log.pages)
    worth, less = (
        HistoryLength(4_096, taken * WORTH + more, is_suggested=True) for more in (0, -1)
    )

    assert is_due(worth, run, stored=False)
    assert not is_due(less, run, stored=False)
    assert is_due(less, run, stored=True)


# What is taken along.


def carried(log: Log, **state: Any) -> WorkflowSnapshot:
    play = Play(model=[reply("done")], state=state).to_end()
    play.run.state.log = log
    return play.snapshot()


def test_each_value_that_is_taken_along_is_under_a_megabyte() -> None:
    _, log = logs(3, size=3 * MEGABYTE)
    log.seal()
    values = start_arguments(carried(log), log, stored=True, forgettable=0)

    assert values is not None
    assert max(len(value) for value in values[1:]) == MAX_VALUE_BYTES
    again, pages = read_start_arguments(values)
    assert pages == [page.data for page in log.pages]
    assert Log(noon, again.run.kept.log, pages).records(0, 100) == log.records(0, 100)


def test_what_is_summarised_is_left_out_where_there_is_no_room() -> None:
    whole, log = logs(30, size=200_000)
    log.seal()
    values = start_arguments(carried(log), log, stored=False, forgettable=100)

    assert values is not None
    assert sum(map(len, values[1:])) <= MAX_CARRIED_BYTES
    again, pages = read_start_arguments(values)
    left = Log(noon, again.run.kept.log, pages)
    assert (len(left), left.digest) == (len(whole), whole.digest)
    missing = sum(1 for page in left.pages if page.is_left_out) * 15
    assert 0 < missing <= 100
    assert left.records(missing, 100) == whole.records(missing, 100)
    gone = everything(left.records, missing)[:missing]
    assert [one["n"] for one in gone] == list(range(1, missing + 1))
    assert {one["type"] for one in gone} == {"left_out"}
    gone_events = missing * 4 // 5
    assert left.events(gone_events, 10) == whole.events(gone_events, 10)
    gone = everything(left.events, gone_events)[:gone_events]
    assert [one["n"] for one in gone] == list(range(1, gone_events + 1))
    assert {one["type"] for one in gone} == {"left_out"}
    assert left.digest_at(missing) == whole.digest_at(missing)


def test_what_cannot_be_taken_along_is_summarised_although_the_model_could_read_it() -> None:
    look = tool("look")
    play = Play(
        look,
        model=[*[reply("", call("look"))] * 4, reply("done")],
        summaries=[reply("we looked three times")],
        budget={"maxTurns": 20},
    )
    while play.run.state.meter.turns < 4:
        play.take(play.next())
    play.to_rest()
    play.run.summaries.make_room()
    play.to_end()

    [summary] = play.records("summary")
    starts = [each["n"] for each in play.records("turn_start")]
    assert summary["upto"] == play.run.summaries.progress.since
    assert starts[3] > summary["upto"] > starts[2]
    assert play.result["output"] == "done"


def test_as_little_is_left_out_as_there_is_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    _, log = logs(9)
    one = carried(log)
    whole = start_arguments(one, log, stored=True, forgettable=0)
    assert whole is not None

    def left_out(room: int, forgettable: int) -> list[bool] | None:
        monkeypatch.setattr(continue_as_new, "MAX_CARRIED_BYTES", room)
        values = start_arguments(one, log, stored=False, forgettable=forgettable)
        return None if values is None else [not page for page in read_start_arguments(values)[1]]

    exact = sum(map(len, whole[1:]))
    assert left_out(exact, 45) == [False, False, False]
    assert left_out(exact - 1, 45) == [True, False, False]
    assert left_out(exact - 1, 15) == [True, False, False]
    assert left_out(exact - 1, 14) is None


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([], "has passed on"),
        ([{"agent": "a", "turns": 1, "entries": 1, "body": 0}], "has passed on"),
        (["go", "on"], "has passed on"),
        ([{"agent": "a", "turns": 1, "entries": 1, "body": 1}, b"broken"], "cannot be read"),
        (
            [{"agent": "a", "turns": 1, "entries": 1, "body": 2, "pages": [1]}, b"x", b"y"],
            "2 of its 3 parts are present",
        ),
        ([{"agent": "a"}, b"x"], "turns"),
    ],
)
def test_nothing_else_is_taken_for_what_a_run_has_left(values: list[Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_start_arguments(values)


def test_nothing_that_was_left_is_decompressed_beyond_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, log = logs(3)
    log.seal()
    values = start_arguments(carried(log), log, stored=False, forgettable=0)
    assert values is not None
    monkeypatch.setattr(run_log, "MAX_INFLATED_BYTES", 100)

    with pytest.raises(ValueError, match="more than 100 bytes"):
        read_start_arguments(values)
    with pytest.raises(ValueError, match="more than 100 bytes"):
        log.pages[0].records()


def test_a_run_moves_to_another_build_once_it_has_taken_a_turn_on_this_one() -> None:
    play = Play(tool("look"), model=[reply("", call("look"))] * 2).to_rest()
    assert is_due(HistoryLength(30, 0, build_changed=True), play.run, stored=False)
    assert not is_due(HistoryLength(30, 0), play.run, stored=False)

    play.continue_as_new()
    assert not is_due(HistoryLength(3, 0, build_changed=True), play.run, stored=False)
    play.take(play.next())
    play.to_rest()
    assert is_due(HistoryLength(30, 0, build_changed=True), play.run, stored=False)


def test_continuing_as_new_is_urgent_at_five_times_the_bound() -> None:
    assert HistoryLength(500, 0, bound_events=100).is_pressing
    assert not HistoryLength(499, 0, bound_events=100).is_pressing
    assert not HistoryLength(PRESSING_EVENTS - 1, 0).is_pressing
    assert HistoryLength(PRESSING_EVENTS, 0, bound_events=PRESSING_EVENTS).is_pressing


def test_a_run_that_can_neither_stay_nor_continue_ends_with_what_to_do() -> None:
    play = Play(tool("look"), model=[reply("", call("look"))]).to_rest()
    play.run.state.log = logs(30, size=200_000)[1]
    stay_in_history(play.run, HistoryLength(LAST_EVENTS - 1, 0))
    assert play.run.phases.end is None
    stay_in_history(play.run, HistoryLength(LAST_EVENTS, 0))

    assert play.failure.code == "blocked"
    assert "start the run again on a worker with a `--store`" in play.failure.message


@pytest.mark.parametrize(("size", "summarised"), [(500_000, True), (500, False)])
def test_one_that_may_stay_has_its_log_summarised_where_that_helps(
    size: int, summarised: bool
) -> None:
    look, seen = tool("look"), os.urandom(size).hex()
    play = Play(look, model=[reply("", call("look"))] * 2, outcomes={"look": seen}).to_rest()
    play.take(play.next())
    play.to_rest()
    play.run.state.log.seal()
    stay_in_history(play.run, HistoryLength(PRESSING_EVENTS, 0))

    step = play.next()
    assert isinstance(step, AskModel)
    assert step.pointer.summary is summarised


def test_the_request_is_carried_without_what_its_log_holds() -> None:
    look = tool("look")
    play = Play(look, model=[reply("", call("look"))], input="x" * 10_000).to_rest()
    values = start_arguments(play.snapshot(), play.log, stored=False, forgettable=0)

    assert values is not None
    request = play.snapshot().request
    assert (request.agent, request.input, request.context) == ("tester", None, [])
    assert values[0] == {
        "note": "Continues the previous run. Its state follows, compressed.",
        "agent": "tester",
        "task": "x" * 200,
        "turns": 1,
        "entries": len(play.log),
        "body": 1,
        "pages": [1],
    }
    assert NOON.isoformat()[:10] in play.log.pages[0].at
