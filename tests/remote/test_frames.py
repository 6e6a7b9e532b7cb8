"""A stream of a run's frames, by looks and answers that fall as they may (§11)."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.client.command_errors import (
    NO_SUCH,
    UNREACHABLE,
    CommandError,
    EncryptedError,
    NoWorkerError,
)
from holdfast.client.result import RunEnding
from holdfast.client.run_handle import AnswerProgress, Entry, RunDescription, RunHandle
from holdfast.client.stream import frames as stream
from holdfast.client.stream.deltas import Frame, StreamCursor
from holdfast.client.stream.frames import PollInterval, StreamNotice, frames
from holdfast.schemas import names

TURN: Entry = {"type": "turn_start", "turn": 1}
CALL: Entry = {"type": "tool_call", "callId": "t1c1"}
NEXT: Entry = {"type": "turn_start", "turn": 2}
DONE: Entry = {"type": "done", "status": "completed"}
AWAY = CommandError("Temporal does not answer", "check it", UNREACHABLE)


def said(text: str, **more: Any) -> Entry:
    """The entry of a model's answer."""
    return {"type": "message", "message": {"role": "assistant", "content": text}, **more}


@dataclass
class Step:
    """How the run is when it is looked at: what is in its log by then, and what is being said.
    `lost`: what comes of the look itself; `silent`: what comes of asking the run."""

    log: Sequence[Entry] = ()
    saying: str = ""
    lost: CommandError | None = None
    silent: CommandError | None = None
    closed: bool = False


@dataclass
class Told(RunHandle):
    """A run that is looked at step by step; the last is seen again and again."""

    steps: list[Step]
    now: Step = field(default_factory=Step)
    looks: int = 0

    async def observe(self) -> RunDescription:
        at = min(self.looks, len(self.steps) - 1)
        self.now, self.looks = self.steps[at], self.looks + 1
        if self.now.lost is not None:
            raise self.now.lost
        saying = AnswerProgress("1/1", 1, self.now.saying, 0, []) if self.now.saying else None
        return RunDescription(("r", at), self.now.closed, busy=False, streaming=saying)

    async def entries(self, log: str, after: int = 0) -> AsyncIterator[Entry]:
        if self.now.silent is not None:
            raise self.now.silent
        kept = [one for one in self.now.log if log == names.CONTEXT or one["type"] != "message"]
        for n, entry in enumerate(kept, start=1):
            if n > after:
                yield {"n": n, **entry}

    async def ending(self, *, whole: bool = True) -> RunEnding:
        return RunEnding("terminated", "terminated", "the run was terminated")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No look waits for the next."""
    monkeypatch.setattr(PollInterval, "next", lambda *_, **__: 0)
    monkeypatch.setattr(stream, "SLOWEST_SECONDS", 0)


async def told(*steps: Step, after: str = "0") -> list[str]:
    """What somebody is told who begins after a frame: the types, of tokens the text as well."""
    found = []
    async for one in frames(Told(list(steps)), StreamCursor.read(after)):
        match one:
            case StreamNotice(text):
                found.append(f"({text.partition(';')[0]})")
            case Frame(type="token", data={"text": text}):
                found.append(f"token {text}")
            case Frame():
                found.append(one.type)
    return found


async def test_an_answer_is_told_before_what_it_led_to() -> None:
    log = [TURN, said("I will."), CALL, DONE]
    steps = [Step(log[:1]), Step(log[:1], "I w"), Step(log[:1], "I wil"), Step(log, closed=True)]
    assert await told(*steps) == [
        *("turn_start", "token I w", "token il", "token l."),
        *("tool_call", "done"),
    ]


async def test_why_nothing_comes_is_told_once_and_again_when_it_comes_anew() -> None:
    silent, end = Step(silent=NoWorkerError("desk")), Step([TURN, DONE], closed=True)
    no_worker = "(no worker answers queries on task queue desk)"
    assert await told(silent, silent, Step([TURN]), silent, end) == [
        *(no_worker, "turn_start", no_worker, "done"),
    ]
    lost = Step(lost=AWAY)
    assert await told(lost, lost, end) == ["(Temporal does not answer)", "turn_start", "done"]


@pytest.mark.parametrize(
    "error", [CommandError("no run", "see", NO_SUCH), EncryptedError("no key", "name one")]
)
async def test_what_no_time_mends_ends_it(error: CommandError) -> None:
    for step in (Step(lost=error), Step(silent=error)):
        with pytest.raises(CommandError, match=str(error)):
            await told(Step([TURN]), step)


async def test_what_is_said_is_of_no_turn_that_was_not_told_yet() -> None:
    log = [TURN, said("One."), NEXT, said("Two."), DONE]
    # The heartbeat was seen before the log was read, or the log could not be read.
    looks = [Step(log[:1]), Step(log[:3], "One"), Step(log[:3], "Tw"), Step(log, closed=True)]
    assert await told(*looks) == [
        *("turn_start", "token One.", "turn_start", "token Tw", "token o.", "done"),
    ]
    unread = Step(log[:1], "Tw", silent=NoWorkerError("desk"))
    assert [one for one in await told(looks[0], unread, looks[-1]) if one[0] != "("] == [
        *("turn_start", "token One.", "turn_start", "token Two.", "done"),
    ]


async def test_an_answer_that_is_too_large_for_a_page_is_not_told_in_part() -> None:
    log = [TURN, said("I will", cut=True), CALL, DONE]
    assert await told(Step(log, closed=True)) == ["turn_start", "tool_call", "done"]


async def test_whoever_comes_back_is_told_the_rest_and_nothing_twice() -> None:
    log = [TURN, said("I will."), CALL, DONE]
    middle = StreamCursor(1).in_attempt(1).advanced("I w")
    assert await told(Step(log, closed=True), after=str(middle)) == [
        *("token ill.", "tool_call", "done"),
    ]
    assert await told(Step(log, closed=True), after="2") == ["done"]
    assert await told(Step(log, closed=True), after="3") == []
    assert await told(Step(log[:3]), after="3.end") == []


async def test_an_end_that_the_run_could_not_write_is_told_and_is_the_last() -> None:
    ended = frames(Told([Step([TURN], closed=True)]), StreamCursor())
    found = [one async for one in ended if isinstance(one, Frame)]
    assert [one.type for one in found] == ["turn_start", "error"]
    assert str(found[-1].position) == "1.end"
