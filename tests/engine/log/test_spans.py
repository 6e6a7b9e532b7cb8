"""What of a log becomes spans: each wait with its length, each thing once.

A file of `spans` is a play (see `tests.engine.plays.playing`) with one more input: the lines after
`> spans:` are those that are new, each with its beginning, its end and its parent; the log is left
out. `content: true` has contents reported. `python -m tests.engine.log.test_spans` writes all
again: read the difference.
"""

from datetime import datetime, timedelta
from typing import Any

import pytest

from holdfast.schemas.decision import Decided, PendingApproval
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.internal.tracing import SpanRecord, TraceOrigin
from holdfast.schemas.log_entry import (
    ConfirmationRequiredEntry,
    DecisionEntry,
    DoneEntry,
    Entry,
    ToolCallEntry,
    ToolEndEntry,
    ToolStartEntry,
)
from holdfast.schemas.run import Spent
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.log.spans import (
    MAX_ASKED_MESSAGES,
    MAX_CONTENT_CHARACTERS,
    Spans,
    SpansProgress,
    Subject,
)
from tests.engine.driver import NOON, Play, reply
from tests.engine.plays.playing import Transcript, flow, play
from tests.support.text_files import compare, text_files, write_again

PLAYS = text_files(__file__, ".play")
ORIGIN = TraceOrigin("default", "run-1", "first")
SPENT = Spent(turns=2, calls=1, usage=Usage(input_tokens=30, output_tokens=7, cost=0.5))
HOUR = timedelta(hours=1)


def at(moment: datetime) -> str:
    """As the log writes it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Traced(Transcript):
    """A play whose only lines are its spans."""

    def __init__(self, said: dict[str, Any]) -> None:
        agent = None if "call" in said else "tester"
        parent = said.pop("parent", None)
        self.subject = Subject(ORIGIN, parent, agent, content=said.pop("content", False))
        self.spans = Spans(self.subject, SpansProgress(began=at(NOON)))
        self.reported: list[str] = []
        self.lines: list[str] = []
        super().__init__(said)

    def input(self, key: str, value: Any) -> None:
        if key == "spans":
            self.report()
            self.lines, self.reported = self.reported, []
        else:
            super().input(key, value)

    def report(self) -> None:
        """Report what is new, as a run does after each of its steps."""
        self.reported += [line(span) for span in self.spans.take(self.log, lambda: SPENT)]

    def continue_as_new(self) -> None:
        self.report()
        super().continue_as_new()
        self.spans = Spans(self.subject, SpansProgress.read(self.spans.progress.to_json()))

    def new_lines(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


def line(span: SpanRecord) -> str:
    """Return a span as a line; its beginning and its end are hours of the run."""
    hours = [(datetime.fromisoformat(each) - NOON) / HOUR for each in (span.start, span.end)]
    parents = {ORIGIN.span_id(own): own or "the run" for own in ("", "t1c1", "t1c2")}
    shown: dict[str, Any] = {
        "error": span.error,
        "in": parents.get(span.parent_id or "", span.parent_id),
    }
    shown |= {name.removeprefix("holdfast."): value for name, value in span.attributes.items()}
    assert shown.pop("gen_ai.conversation.id") == "run-1"
    fields = [f"{name}: {flow(value)}" for name, value in shown.items() if value is not None]
    return "  ".join([span.name, f"{hours[0]:g} to {hours[1]:g}", *fields])


@pytest.mark.parametrize("name", PLAYS)
def test_a_run_has_the_spans_that_are_written(name: str) -> None:
    compare(PLAYS[name], play(PLAYS[name].read_text(encoding="utf-8"), Traced))


# Of entries that no play has.


def spans_of(*entries: tuple[timedelta, Entry], **subject: Any) -> tuple[Spans, Log]:
    """A log with these entries, each at its time, and its spans."""
    now = NOON
    log = Log(lambda: now)
    for by, entry in entries:
        now = NOON + by
        log.append(entry)
    return Spans(Subject(ORIGIN, agent="desk", **subject), SpansProgress(began=at(NOON))), log


CALLED = ToolCallEntry(turn=1, call_id="t1c1", tool="pay")
STARTED = ToolStartEntry(turn=1, call_id="t1c1", tool="pay")
ENDED = ToolEndEntry(turn=1, call_id="t1c1", tool="pay")
ASKED = ConfirmationRequiredEntry(
    turn=1,
    call_id="t1c1",
    approval=PendingApproval(
        call_id="t1c1",
        kind="call",
        tool="pay",
        label="Pay",
        arguments={"n": 7},
        digest="d",
        quorum=2,
        requested_at=at(NOON),
        expires_at=at(NOON + HOUR),
    ),
)


def decided(*, counts: bool = True, signed: bool = False) -> DecisionEntry:
    said = Decided(decision="approve", by="ada", at=at(NOON), digest="d", signed=signed)
    return DecisionEntry(call_id="t1c1", decided=said, outcome="decided" if counts else None)


def test_a_call_ends_when_it_ended_and_not_with_its_turn() -> None:
    spans, log = spans_of((HOUR, STARTED), (25 * HOUR, ENDED))
    spans.ended["t1c1"] = at(NOON + 2 * HOUR)
    [span] = spans.take(log, lambda: SPENT)
    assert (span.start, span.end) == (at(NOON + HOUR), at(NOON + 2 * HOUR))


def test_a_wait_records_whether_it_was_signed() -> None:
    none = timedelta()
    votes = (none, decided(counts=False)), (none, decided(signed=True))
    spans, log = spans_of((none, ASKED), *votes)
    [wait] = spans.take(log, lambda: SPENT)
    assert wait.attributes["holdfast.approval.signed"] is True


def test_nothing_ends_before_it_begins_when_a_servers_clock_is_set_back() -> None:
    done = DoneEntry(status="completed")
    entries: list[Entry] = [CALLED, ASKED, decided(), STARTED, ENDED, done]
    hours = (0, 0, -1, 0, -2, -2)
    spans, log = spans_of(*[(n * HOUR, each) for n, each in zip(hours, entries, strict=True)])
    assert all(span.start <= span.end for span in spans.take(log, lambda: SPENT))


def test_contents_are_bounded() -> None:
    long = "z" * 2 * MAX_CONTENT_CHARACTERS
    run = Play(model=[reply(long)], context=[{"content": f"said {n}"} for n in range(20)]).to_end()
    spans = Spans(Subject(ORIGIN, content=True), SpansProgress(began=at(NOON)))
    [span] = spans.take(run.log, lambda: SPENT)
    asked, answered = (
        str(span.attributes[f"gen_ai.{way}.messages"]) for way in ("input", "output")
    )
    assert asked.count("said ") == MAX_ASKED_MESSAGES
    assert answered.count("z") == MAX_CONTENT_CHARACTERS


if __name__ == "__main__":
    write_again(__file__)
