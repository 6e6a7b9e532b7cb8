"""What of a log becomes spans: each wait with its length, each thing once."""

from datetime import UTC, datetime, timedelta
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
    ErrorEntry,
    MessageEntry,
    ToolCallEntry,
    ToolEndEntry,
    ToolStartEntry,
    TurnEndEntry,
)
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.names import CallError, ErrorCode
from holdfast.schemas.run import Spent
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.log.spans import (
    MAX_ASKED_MESSAGES,
    MAX_CONTENT_CHARACTERS,
    Spans,
    SpansProgress,
    Subject,
)

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ORIGIN = TraceOrigin("default", "run-1", "first")
SPENT = Spent(turns=2, calls=1, usage=Usage(input_tokens=30, output_tokens=7, cost=0.5))


class GrowingLog:
    """A log that grows as the clock is set, and the spans of it."""

    def __init__(self, **subject: Any) -> None:
        self.now = BEGAN
        self.log = Log(lambda: self.now)
        self.spans = Spans(Subject(ORIGIN, agent="desk", **subject), SpansProgress(began=at(BEGAN)))

    def later(self, by: timedelta, *entries: Entry) -> None:
        """Time passes, and then this happens."""
        self.now += by
        for entry in entries:
            self.log.append(entry)

    def take(self) -> list[SpanRecord]:
        """The spans of now."""
        return self.spans.take(self.log, lambda: SPENT)


def at(moment: datetime) -> str:
    """As the log writes it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def asked(
    kind: Any = "call", expires: timedelta = 7 * DAY, **more: Any
) -> ConfirmationRequiredEntry:
    """A call waits for people."""
    waiting = PendingApproval(
        call_id="t1c1",
        kind=kind,
        tool="pay",
        label="Pay",
        arguments={"n": 7},
        digest="d",
        requested_at=at(BEGAN),
        expires_at=at(BEGAN + expires),
    )
    return ConfirmationRequiredEntry(turn=1, call_id="t1c1", approval=waiting, **more)


def decided(verdict: Any, *, counts: bool = True, signed: bool = False) -> DecisionEntry:
    """A person decides; where it takes more than one, it may not be the last."""
    said = Decided(decision=verdict, by="ada", at=at(BEGAN), digest="d", signed=signed)
    return DecisionEntry(call_id="t1c1", decided=said, outcome="decided" if counts else None)


def made(**more: Any) -> ToolCallEntry:
    """The model makes a call."""
    return ToolCallEntry(turn=1, call_id="t1c1", tool="pay", **more)


def started(**more: Any) -> ToolStartEntry:
    """It starts."""
    return ToolStartEntry(turn=1, call_id="t1c1", tool="pay", **more)


def ended(code: ErrorCode | None = None, **more: Any) -> ToolEndEntry:
    """It has its result."""
    error = None if code is None else CallError(code=code, message="the stock is empty")
    return ToolEndEntry(turn=1, call_id="t1c1", tool="pay", error=error, **more)


def hours(span: SpanRecord) -> float:
    """How long it was."""
    start, end = (datetime.fromisoformat(each) for each in (span.start, span.end))
    return (end - start) / HOUR


def test_a_wait_of_a_day_is_one_span_and_the_call_begins_behind_it() -> None:
    told = GrowingLog()
    told.later(HOUR, made(), asked())
    told.later(DAY, asked(reminder=1))
    told.later(HOUR, decided("approve", counts=False))
    told.later(HOUR, decided("approve"), started())
    told.later(HOUR, ended())
    wait, call = told.take()
    assert (wait.name, hours(wait)) == ("approval pay", 26)
    assert wait.attributes["holdfast.approval.verdict"] == "approve"
    assert wait.attributes["holdfast.approval.decisions"] == 2
    assert (call.name, hours(call), call.start) == ("execute_tool pay", 1, wait.end)
    assert wait.parent_id == call.parent_id == ORIGIN.span_id()
    assert call.span_id == ORIGIN.span_id("t1c1")
    assert "ada" not in wait.model_dump_json()


def test_each_entry_is_recorded_once_also_in_the_next_run_of_the_chain() -> None:
    told = GrowingLog(content=True)
    told.later(HOUR, MessageEntry(message=ChatMessage(role="user", content="hello")))
    told.later(HOUR, made(), started(), ended())
    assert [each.kind for each in told.take()] == ["tool"]
    assert told.take() == []
    left = SpansProgress.read(told.spans.progress.to_json())
    told.spans = Spans(Subject(ORIGIN, agent="desk", content=True), left)
    told.later(DAY, DoneEntry(status="completed", output="bye"))
    [run] = told.take()
    assert (run.name, hours(run)) == ("invoke_agent desk", 26)
    assert "hello" in str(run.attributes["gen_ai.input.messages"])
    assert "bye" in str(run.attributes["gen_ai.output.messages"])
    assert run.attributes["gen_ai.usage.input_tokens"] == 30
    assert "gen_ai.usage.cache_read.input_tokens" not in run.attributes, "it is not known"


def test_a_call_ends_when_it_ended_and_not_with_its_turn() -> None:
    told = GrowingLog()
    told.later(HOUR, made(), started())
    told.spans.ended["t1c1"] = at(told.now + HOUR)
    told.later(DAY, ended())
    assert [hours(each) for each in told.take()] == [1]


def test_a_call_that_was_refused_has_no_length_and_its_code() -> None:
    told = GrowingLog()
    told.later(HOUR, made(), asked())
    told.later(DAY, decided("deny"), ended(ErrorCode.DENIED))
    _, call = told.take()
    assert (hours(call), call.error) == (0, "denied")
    assert call.attributes["holdfast.carried_out"] is False
    assert "the stock is empty" not in call.model_dump_json(), "a message is content"


def test_whether_a_call_took_effect_is_asked_inside_of_it() -> None:
    told = GrowingLog()
    told.later(HOUR, made(), started())
    told.later(HOUR, asked("reconcile"))
    told.later(DAY, decided("did_not_happen"), started())
    told.later(HOUR, ended())
    wait, call = told.take()
    assert wait.parent_id == call.span_id
    assert call.start < wait.start < wait.end < call.end
    assert hours(call) == 26


@pytest.mark.parametrize(("expires", "verdict"), [(HOUR, "expired"), (DAY, "withdrawn")])
def test_a_wait_without_an_end_ends_with_its_run(expires: timedelta, verdict: str) -> None:
    told = GrowingLog()
    told.later(timedelta(), asked("budget", expires))
    told.later(2 * HOUR, ErrorEntry(code="cancelled", message="the run was cancelled"))
    wait, run = told.take()
    assert wait.attributes["holdfast.approval.verdict"] == verdict
    assert (run.error, run.attributes["holdfast.status"]) == ("cancelled", "cancelled")


def test_a_plan_that_a_message_came_before_is_waited_for_to_the_end_of_its_turn() -> None:
    told = GrowingLog()
    told.later(HOUR, asked("plan", expires=2 * DAY))
    told.later(HOUR, TurnEndEntry(turn=1))
    [wait] = told.take()
    assert (hours(wait), wait.attributes["holdfast.approval.verdict"]) == (1, "withdrawn")
    told.later(7 * DAY, DoneEntry(status="completed"))
    assert [each.kind for each in told.take()] == ["run"]


def test_an_expiry_is_a_verdict_and_a_second_question_a_second_span() -> None:
    told = GrowingLog()
    told.later(HOUR, made(), started(), asked("reconcile"))
    told.later(HOUR, decided("happened", counts=False))
    told.later(HOUR, DecisionEntry(call_id="t1c1", outcome="expired"))
    told.later(HOUR, asked("reconcile"))
    told.later(HOUR, decided("respond"), ended())
    first, second, _ = told.take()
    assert first.attributes["holdfast.approval.verdict"] == "expired"
    assert second.attributes["holdfast.approval.verdict"] == "respond"
    assert first.span_id != second.span_id


def test_content_is_recorded_where_it_is_requested_and_is_bounded() -> None:
    result = ChatMessage(role="tool", content="y" * 2 * MAX_CONTENT_CHARACTERS, call_id="t1c1")
    for content in (False, True):
        told = GrowingLog(content=content)
        told.later(HOUR, made(arguments={"n": 1}), asked(), decided("approve"), started())
        told.later(HOUR, ended(), MessageEntry(message=result))
        wait, call = told.take()
        assert ("holdfast.approval.by" in wait.attributes) is content
        assert (call.attributes.get("gen_ai.tool.call.arguments") == '{"n": 1}') is content
        assert len(str(call.attributes.get("gen_ai.tool.call.result", ""))) == (
            MAX_CONTENT_CHARACTERS if content else 0
        )


def test_recorded_content_is_the_executed_arguments_of_the_own_call() -> None:
    told = GrowingLog(content=True)
    another = MessageEntry(message=ChatMessage(role="tool", content="theirs", call_id="t1c2"))
    told.later(HOUR, made(arguments={"n": 1}), started(arguments={"n": 2}), ended(), another)
    [call] = told.take()
    assert call.attributes["gen_ai.tool.call.arguments"] == '{"n": 2}'
    assert "gen_ai.tool.call.result" not in call.attributes


def test_the_beginning_of_each_text_of_people_is_recorded() -> None:
    told = GrowingLog(content=True)
    for number in range(MAX_ASKED_MESSAGES + 2):
        said = ChatMessage(role="user", content=f"said {number}")
        told.later(HOUR, MessageEntry(message=said))
    told.later(HOUR, DoneEntry(status="completed"))
    [run] = told.take()
    assert str(run.attributes["gen_ai.input.messages"]).count("said ") == MAX_ASKED_MESSAGES


def test_a_wait_records_its_quorum_and_whether_it_was_signed() -> None:
    told, one = GrowingLog(), asked()
    two = one.model_copy(update={"approval": one.approval.model_copy(update={"quorum": 2})})
    told.later(HOUR, two, decided("approve", counts=False), decided("approve", signed=True))
    [wait] = told.take()
    assert wait.attributes["holdfast.approval.quorum"] == 2
    assert wait.attributes["holdfast.approval.signed"] is True


def test_nothing_ends_before_it_begins_when_a_servers_clock_is_set_back() -> None:
    told = GrowingLog()
    told.later(timedelta(), made(), asked())
    told.later(-HOUR, decided("approve"))
    told.later(HOUR, started())
    told.later(-2 * HOUR, ended(), DoneEntry(status="completed"))
    assert [hours(each) for each in told.take()] == [0, 0, 0]


def test_a_single_call_is_no_agent() -> None:
    told = GrowingLog()
    told.spans = Spans(Subject(ORIGIN, parent_id="a" * 16), SpansProgress(began=at(BEGAN)))
    told.later(HOUR, made(), started(delegate="helper"), ended(), DoneEntry(status="completed"))
    call, run = told.take()
    assert call.attributes["holdfast.delegate"] == "helper"
    assert (run.name, run.parent_id) == ("invoke_workflow CallWorkflow", "a" * 16)
    assert "gen_ai.agent.name" not in run.attributes
