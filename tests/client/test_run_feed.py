"""A stream of a run's frames, by looks and answers that fall as they may (§11)."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pytest
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.contrib.pydantic import pydantic_data_converter

from holdfast.client.connection import ReportingCodec
from holdfast.client.errors import (
    NO_SUCH,
    UNREACHABLE,
    EncryptedError,
    HoldfastError,
    NoWorkerError,
)
from holdfast.client.remote_run import Entry
from holdfast.client.result import RunEnding
from holdfast.client.run import Run
from holdfast.client.stream import run_watch
from holdfast.client.stream.heartbeats import (
    MAX_UPDATE_BYTES,
    AnswerProgress,
    CallProgress,
    read_answer_progress,
    update_in,
)
from holdfast.client.stream.run_feed import MAX_TOKEN_CHARS, Frame, RunFeed
from holdfast.client.stream.run_watch import RunDescription, RunWatches
from holdfast.client.stream.text_reader import StreamCursor
from holdfast.runtime.data_converter import data_converter
from holdfast.runtime.encryption.codec import EncryptionCodec
from holdfast.schemas import names
from tests.encryption.keys import NEW, ring
from tests.support.inbox import watches

TURN: Entry = {"type": "turn_start", "turn": 1}
CALL: Entry = {"type": "tool_call", "callId": "t1c1"}
NEXT: Entry = {"type": "turn_start", "turn": 2}
DONE: Entry = {"type": "done", "status": "completed"}
AWAY = HoldfastError("Temporal does not answer", "check it", UNREACHABLE)


def message(text: str, **more: Any) -> Entry:
    return {"type": "message", "message": {"role": "assistant", "content": text}, **more}


@dataclass
class Step:
    """How the run is when it is looked at: what is in its log by then, and what is being written.
    `lost`: what comes of the look itself; `silent`: what comes of asking the run."""

    log: Sequence[Entry] = ()
    saying: str = ""
    answer: AnswerProgress | None = None
    lost: HoldfastError | None = None
    silent: HoldfastError | None = None
    closed: bool = False


@dataclass
class StepwiseRun(Run):
    """A run that is looked at step by step; the last is seen again and again."""

    steps: list[Step]
    now: Step = field(default_factory=Step)
    observed: int = 0
    id: str = "run-1"
    _watches: RunWatches = field(default_factory=watches)

    async def observe(self) -> RunDescription:
        at = min(self.observed, len(self.steps) - 1)
        self.now, self.observed = self.steps[at], self.observed + 1
        if self.now.lost is not None:
            raise self.now.lost
        saying = self.now.answer
        if self.now.saying:
            saying = AnswerProgress("1/1", 1, self.now.saying, 0, [])
        return RunDescription(("r", at), self.now.closed, streaming=saying)

    async def entries(self, log: str, after: int = 0, last: float = inf) -> AsyncIterator[Entry]:
        if self.now.silent is not None:
            raise self.now.silent
        kept = [one for one in self.now.log if log == names.CONTEXT or one["type"] != "message"]
        for n, entry in enumerate(kept, start=1):
            if n > after:
                yield {"n": n, **entry}

    async def page(self, log: str, after: int, limit: int) -> list[Entry]:
        return [entry async for entry in self.entries(log, after)][:limit]

    async def ending(self, *, unread: str = "", execution: str = "") -> RunEnding:
        return RunEnding("terminated", "terminated", "the run was terminated")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_watch, "FASTEST_SECONDS", 0)
    monkeypatch.setattr(run_watch, "SLOWEST_SECONDS", 0)


async def received(*steps: Step, after: str = "0") -> list[str]:
    """What a client receives from a frame on: the types, of tokens the text as well."""
    found = []
    async for one in RunFeed(StepwiseRun(list(steps)), StreamCursor.read(after)).frames():
        match one:
            case str(text):
                found.append(f"({text.partition(';')[0]})")
            case Frame(type="token", data={"text": text}):
                found.append(f"token {text}")
            case Frame():
                found.append(one.type)
    return found


async def test_the_frames_between_events_are_those_of_the_turn() -> None:
    turn, more = Step([TURN]), AnswerProgress("1/1", 1, "I will", 0, [], turn=2)
    again = replace(more, key="1/2", attempt=2, text="", calls=[{"tool": "pay"}], turn=1)
    own = replace(more, turn=1)
    steps = [
        replace(turn, answer=one) for one in (replace(more, text="Else", key="2/1"), own, again)
    ]
    assert await received(turn, *steps, Step([TURN, DONE], closed=True)) == [
        *("turn_start", "token I will", "token ", "tool_call_delta", "done"),
    ]


class MovingRun(StepwiseRun):
    """A run with a position at each look."""

    async def observe(self) -> RunDescription:
        self.observed += 1
        return RunDescription(("r", (1, 1, 2, 2, 3)[self.observed - 1]), False, None)


async def test_a_step_of_a_run_is_shown_until_it_was_read() -> None:
    feed, found = RunFeed(MovingRun([])), list[int]()
    async with aclosing(feed.moves()) as moves:
        while found[-1:] != [3]:
            look = await anext(moves)
            found.append(look.position[1])
            if found != [1]:  # the first cannot be read
                feed.has_read(look)
    assert found == [1, 1, 2, 3]


async def test_an_answer_is_sent_before_its_calls() -> None:
    log = [TURN, message("I will."), CALL, DONE]
    steps = [Step(log[:1]), Step(log[:1], "I w"), Step(log[:1], "I wil"), Step(log, closed=True)]
    assert await received(*steps) == [
        *("turn_start", "token I w", "token il", "token l."),
        *("tool_call", "done"),
    ]


async def test_a_long_text_is_sent_in_several_frames() -> None:
    log = [TURN, message("x" * (2 * MAX_TOKEN_CHARS + 1)), DONE]
    tokens = [one[6:] for one in await received(Step(log, closed=True)) if one[:5] == "token"]
    assert [len(text) for text in tokens] == [MAX_TOKEN_CHARS, MAX_TOKEN_CHARS, 1]


@pytest.mark.parametrize("more", [{"turn": 2}, {"turn": 1, "call": "t1c1"}, {"summary": True}])
def test_an_answer_of_another_turn_is_none_of_a_turn(more: dict[str, Any]) -> None:
    assert not AnswerProgress("1/1", 1, "I will", 0, [], **more).is_of_turn(1)
    assert AnswerProgress("1/1", 1, "I will", 0, [], turn=1).is_of_turn(1)


def test_the_progress_of_a_call_is_sent_when_it_has_changed() -> None:
    feed, other = RunFeed(StepwiseRun([])), CallProgress("t2c2", 1, {"done": 1})
    half, whole = (CallProgress("t2c1", 1, {"done": done}) for done in (1, 2))

    def new(*updates: CallProgress) -> list[CallProgress]:
        return feed.new_updates(RunDescription(("r", 1), False, None, updates=updates))

    assert new(half) == [half]
    assert new(half, other) == [other]
    assert new(whole, other) == [whole]


async def test_the_reason_of_a_silence_is_sent_once_and_again_when_it_recurs() -> None:
    silent, end = Step(silent=NoWorkerError("desk")), Step([TURN, DONE], closed=True)
    no_worker = "(no worker answers queries on task queue desk)"
    assert await received(silent, silent, Step([TURN]), silent, end) == [
        *(no_worker, "turn_start", no_worker, "done"),
    ]
    lost = Step(lost=AWAY)
    assert await received(lost, lost, end) == ["(Temporal does not answer)", "turn_start", "done"]


@pytest.mark.parametrize(
    "error", [HoldfastError("no run", "see", NO_SUCH), EncryptedError("no key", "name one")]
)
async def test_a_lasting_error_ends_it(error: HoldfastError) -> None:
    for step in (Step(lost=error), Step(silent=error)):
        with pytest.raises(HoldfastError, match=str(error)):
            await received(Step([TURN]), step)


async def test_a_reader_may_give_temporal_up() -> None:
    lost = Step(lost=AWAY)
    for steps in ([lost], [lost, Step([TURN]), lost]):
        run = StepwiseRun(steps)
        with pytest.raises(HoldfastError, match="does not answer"):
            [each async for each in RunFeed(run, most_lost=2).frames()]
        assert run.observed == len(steps) + 1


async def test_text_is_sent_after_the_start_of_its_turn() -> None:
    log = [TURN, message("One."), NEXT, message("Two."), DONE]
    # The heartbeat was seen before the log was read, or the log could not be read.
    looks = [Step(log[:1]), Step(log[:3], "One"), Step(log[:3], "Tw"), Step(log, closed=True)]
    assert await received(*looks) == [
        *("turn_start", "token One.", "turn_start", "token Tw", "token o.", "done"),
    ]
    unread = Step(log[:1], "Tw", silent=NoWorkerError("desk"))
    assert [one for one in await received(looks[0], unread, looks[-1]) if one[0] != "("] == [
        *("turn_start", "token One.", "turn_start", "token Two.", "done"),
    ]


async def test_an_answer_that_is_too_large_for_a_page_is_not_sent_in_part() -> None:
    log = [TURN, message("I will", cut=True), CALL, DONE]
    assert await received(Step(log, closed=True)) == ["turn_start", "tool_call", "done"]


async def test_a_returning_client_receives_the_rest_and_nothing_twice() -> None:
    log = [TURN, message("I will."), CALL, DONE]
    middle = replace(StreamCursor(1), attempt=1).advanced("I w")
    assert await received(Step(log, closed=True), after=str(middle)) == [
        *("token ill.", "tool_call", "done"),
    ]
    assert await received(Step(log, closed=True), after="2") == ["done"]
    assert await received(Step(log, closed=True), after="3") == []
    assert await received(Step(log[:3]), after="3.end") == []


@pytest.mark.parametrize("kind", ["remark", "notice"])
async def test_an_event_within_an_answer_cuts_nothing_off(kind: str) -> None:
    event: Entry = {"type": kind}
    log = [TURN, event, message("I will."), event, CALL, DONE]
    whole = Step(log, closed=True)
    steps = [Step(log[:1]), Step(log[:1], "I w"), Step(log[:2], "I wil"), Step(log[:2], "I wil")]
    assert await received(*steps, whole) == [
        *("turn_start", "token I w", kind, "token il", kind, "token l."),
        *("tool_call", "done"),
    ]
    after_events = replace(StreamCursor(3), attempt=1).advanced("I w")
    assert await received(whole, after=str(after_events)) == ["token ill.", "tool_call", "done"]


async def test_an_end_that_the_run_could_not_write_is_sent_last() -> None:
    ended = RunFeed(StepwiseRun([Step([TURN], closed=True)])).frames()
    found = [one async for one in ended if isinstance(one, Frame)]
    assert [one.type for one in found] == ["turn_start", "error"]
    assert str(found[-1].position) == "1.end"


CONVERTER = pydantic_data_converter


async def activity(activity_id: str, *details: Any, of: str = "pay") -> PendingActivityInfo:
    """An activity in its second attempt that has reported this last."""
    made = PendingActivityInfo(activity_id=activity_id, attempt=2)
    made.activity_type.name = of
    made.heartbeat_details.payloads.extend(await CONVERTER.encode(details))
    return made


@pytest.mark.parametrize("activity_id", ["t1c2", "t1c2-again", "t1c2-again3"])
async def test_a_call_keeps_its_id_when_it_is_executed_again(
    activity_id: str,
) -> None:
    told = await update_in(await activity(activity_id, {"step": 1}), CONVERTER)
    assert told == CallProgress("t1c2", 2, {"step": 1})


@pytest.mark.parametrize("activity_id", ["t1", "t1c2-before", "1", "notify-t1c2"])
async def test_an_activity_that_executes_no_call_reports_none(activity_id: str) -> None:
    assert await update_in(await activity(activity_id, "here"), CONVERTER) is None


async def test_progress_that_is_too_long_to_be_sent_is_left_out() -> None:
    long = await activity("t1c1", "x" * MAX_UPDATE_BYTES)
    assert await update_in(long, CONVERTER) is None
    assert await update_in(await activity("t1c1"), CONVERTER) is None


async def test_of_a_call_that_the_model_answers_only_the_text_is_sent() -> None:
    said = {"text": "I thi", "offset": 3, "attempt": 4, "turn": 1, "call": "t1c1", "calls": []}
    told = await update_in(await activity("t1c1", said, of=names.GENERATE), CONVERTER)
    assert told == CallProgress("t1c1", 4, {"text": "I thi", "offset": 3})
    other = await activity("t1c1", {"tokens": 3}, of=names.GENERATE)
    assert await update_in(other, CONVERTER) is None


async def test_details_in_another_encoding_are_ignored() -> None:
    strange = await activity("t1c1", "here")
    strange.heartbeat_details.payloads[0].metadata["encoding"] = b"others/own"
    assert await update_in(strange, CONVERTER) is None


async def test_what_cannot_be_read_without_a_key_is_no_silence() -> None:
    secret = await activity("t1c1", "here")
    sealed = await EncryptionCodec(ring(NEW)).encode(secret.heartbeat_details.payloads)
    secret.heartbeat_details.payloads[0].CopyFrom(sealed[0])
    with pytest.raises(EncryptedError, match="no keys are set here"):
        await update_in(secret, replace(CONVERTER, payload_codec=ReportingCodec(data_converter)))


SAID = {"text": "Hi", "offset": 3, "attempt": 2}


async def test_a_heartbeat_names_the_request_of_its_answer() -> None:
    brief = await activity("7", SAID, of=names.GENERATE)
    others = [await activity("t1c1", SAID), await activity("8", "here", of=names.GENERATE)]
    assert await read_answer_progress([brief, *others], CONVERTER) == AnswerProgress(
        "7/2", 2, "Hi", 3, []
    )
    calls = [{"tool": "pay"}]
    more = {"calls": calls, "composed": True, "turn": 4, "call": "t4c1", "summary": True}
    whole = await activity("7", {**SAID, **more}, of=names.GENERATE)
    told = AnswerProgress("7/2", 2, "Hi", 3, calls, True, 4, "t4c1", True)
    assert await read_answer_progress([others[0], whole], CONVERTER) == told


@pytest.mark.parametrize("details", ["Hi", {}, {**SAID, "offset": "3"}, {"text": "Hi"}])
async def test_the_heartbeat_of_another_version_is_no_answer(details: Any) -> None:
    assert await read_answer_progress([], CONVERTER) is None
    silent = await activity("7", of=names.GENERATE)
    assert await read_answer_progress([silent], CONVERTER) is None
    other = await activity("7", details, of=names.GENERATE)
    assert await read_answer_progress([other], CONVERTER) is None
