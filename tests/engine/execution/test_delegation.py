"""§8: a delegate is asked for its work with the call's scopes and no more, within a part of the
budget; what becomes of it is the call's result, and is charged to its parent."""

import json
from typing import Any

import pytest

from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.run import DelegateNews, DelegatePending, RunRequest, RunResult, Spent
from holdfast.schemas.tool import ResolvedTool
from holdfast.validation.schema_node import WorkBudget
from holdfast.workflows.engine.call.activities import CallRefused
from holdfast.workflows.engine.call.outcomes import Failed, Outcome, Refused, Succeeded, Unknown
from holdfast.workflows.engine.call.states import ToolCall, Turn
from holdfast.workflows.engine.delegation import (
    Delegate,
    DelegateEnd,
    DelegateFailed,
    Delegates,
    build_delegate,
    charge,
    delegate_outcome,
)
from holdfast.workflows.engine.phases import RunCalls
from tests.engine.driver import Play, PlayCall, call, reply
from tests.engine.plays.playing import Transcript, play
from tests.support.text_files import compare, text_files, write_again

OUTPUT = {"type": "object", "required": ["text"]}
SPENT = Spent(turns=2, calls=3, usage=Usage(input_tokens=9, output_tokens=1, cost=0.5))


def helper(**more: Any) -> ResolvedTool:
    return ResolvedTool(name="ask", parameters={"type": "object"}, **{"delegate": "helper", **more})


def asks(ask: ResolvedTool, **request: Any) -> Delegate:
    """What a run's delegate is asked."""
    found: list[Delegate] = []

    def delegate(one: ToolCall) -> Outcome:
        agent = parent.run.agent
        found.append(build_delegate(one, Turn(1, [one]), parent.run.state, agent, "run-1"))
        return Succeeded("done")

    model = [reply("", call("ask", {"text": "hello"})), reply("done")]
    parent = Play(ask, model=model, outcomes={"ask": delegate}, **request)
    parent.to_end()
    return found[0]


def the_call(play: PlayCall) -> ToolCall:
    """The one call of a workflow that has no agent."""
    step = play.next()
    assert isinstance(step, RunCalls)
    return step.turn.calls[0]


def refusal(ask: ResolvedTool, **request: Any) -> tuple[str, str]:
    with pytest.raises(CallRefused) as refused:
        asks(ask, **request)
    return refused.value.error.code, refused.value.error.message


# What a delegate is asked.

PLAYS = text_files(__file__, ".play")


class Requested(Transcript):
    """A play with one more input: the line after `> request: CALL` is the request of its delegate.

    `python -m tests.engine.execution.test_delegation` writes all again: read the difference.
    """

    request_line: tuple[str, ...] = ()

    def input(self, key: str, value: Any) -> None:
        if key != "request":
            super().input(key, value)
            return
        turn = self.run.phases.turn
        assert turn is not None
        [one] = [each for each in turn.calls if each.id == value]
        try:
            delegate = build_delegate(one, turn, self.run.state, self.run.agent, "run-1")
        except CallRefused as refused:
            self.request_line = (f"{refused.error.code}: {refused.error.message}",)
        else:
            assert delegate.workflow_id == f"run-1.{value}"
            RunRequest.model_validate(delegate.request)
            self.request_line = (json.dumps(delegate.request, ensure_ascii=False),)

    def new_lines(self) -> list[str]:
        lines, self.request_line = [*self.request_line], ()
        return lines


@pytest.mark.parametrize("name", PLAYS)
def test_a_delegate_receives_the_request_that_is_written(name: str) -> None:
    compare(PLAYS[name], play(PLAYS[name].read_text(encoding="utf-8"), Requested))


def test_what_is_too_large_to_be_sent_is_refused() -> None:
    code, message = refusal(
        helper(scopes=["state", "notes"]),
        state={"text": "x" * 800_000},
        context=[
            {"content": [{"type": "data", "kind": "notes", "data": "x" * 800_000}]},
        ],
    )

    assert code == "invalid_arguments"
    assert message.endswith("at most 1500000 can be sent")


def test_an_id_that_no_server_takes_is_refused() -> None:
    play = PlayCall(helper())
    one = the_call(play)

    with pytest.raises(CallRefused, match="1000 bytes"):
        build_delegate(one, Turn(0, [one]), play.run.state, None, "é" * 499)


# What becomes of it.


def ended(status: Any, output: Any = None) -> RunResult:
    return RunResult(status=status, output=output, turns=2, calls=3, usage=SPENT.usage)


def became(end: DelegateEnd, **more: Any) -> Outcome:
    return delegate_outcome(helper(**more), end, WorkBudget())


def test_its_output_is_never_taken_apart() -> None:
    said = {"_result": {"content": "x", "terminate": True}}

    assert became(ended("completed", said)) == Succeeded(said)


def test_an_output_that_does_not_fit_is_invalid() -> None:
    outcome = became(ended("completed", "bonjour"), output=OUTPUT)

    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.value) == ("invalid_output", "bonjour")


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (ended("budget_exceeded"), "`ask` used up its budget before its end."),
        (DelegateFailed("failed", "the model is gone"), "the model is gone"),
        (DelegateFailed("failed", "`ask` was cancelled"), "`ask` was cancelled"),
        (DelegateFailed("lost", "`ask` was terminated"), "`ask` was terminated"),
        (DelegateFailed("not_started", "it is there already"), "it is there already"),
    ],
)
def test_an_end_without_a_result_is_a_failure_in_its_own_words(
    end: DelegateEnd, message: str
) -> None:
    outcome = became(end)

    assert isinstance(outcome, Failed | Refused)
    assert (outcome.error.code, outcome.error.message) == ("delegate_failed", message)
    assert isinstance(outcome, Refused) == (getattr(end, "kind", None) == "not_started")


def test_a_delegate_that_may_act_once_and_was_lost_is_asked_about() -> None:
    once = {"side_effects": True, "idempotent": False, "approval": {"require": "never"}}

    assert isinstance(became(DelegateFailed("lost", "it was terminated"), **once), Unknown)
    assert isinstance(became(DelegateFailed("failed", "no"), **once), Failed)


@pytest.mark.parametrize(("once", "code"), [(False, "cancelled"), (True, "outcome_unknown")])
def test_a_delegate_that_was_not_waited_for_is_cancelled_or_unknown(once: bool, code: str) -> None:
    more = {"side_effects": once, "idempotent": not once, "approval": {"require": "never"}}
    outcome = became(DelegateFailed("abandoned", "the run ended"), **more)

    assert isinstance(outcome, Failed)
    assert outcome.error.code == code


@pytest.mark.parametrize(
    ("end", "requests", "calls", "tokens"),
    [
        (ended("completed"), 2, 3, 9),
        (ended("budget_exceeded"), 2, 3, 9),
        (DelegateFailed("failed", "no", SPENT), 2, 3, 9),
        (DelegateFailed("lost", "no"), 0, 0, None),
        (DelegateFailed("failed", "no"), 0, 0, None),
        (DelegateFailed("abandoned", "no"), 0, 0, None),
        (DelegateFailed("not_started", "no"), 0, 0, 0),
    ],
)
def test_what_it_used_is_charged_to_its_parent_and_its_part_is_free_again(
    end: DelegateEnd, requests: int, calls: int, tokens: int | None
) -> None:
    delegate = asks(helper())
    meter = Play().run.state.meter
    meter.held[delegate.call_id] = delegate.share
    charge(meter, delegate, end)

    assert (meter.requests, meter.calls) == (requests, calls)
    assert meter.usage().input_tokens == tokens
    assert meter.held == {}


# The pending approvals in them.


def waits(workflow_id: str, call_id: str = "t1c1") -> DelegatePending:
    return DelegatePending(
        workflow_id=workflow_id, call_id=call_id, kind="call", tool="pay", label="Pay"
    )


def running() -> Delegates:
    delegates = Delegates()
    delegates.add(asks(helper()))
    return delegates


def test_the_pending_approvals_of_nested_delegates_are_shown_until_they_end() -> None:
    delegates = running()
    delegates.update_pending(
        DelegateNews(call_id="t1c1", pending=[waits("run-1.t1c1"), waits("run-1.t1c1.t2c1")])
    )
    [shown] = delegates.to_views()

    assert shown.to_json() == {
        "callId": "t1c1",
        "tool": "ask",
        "agent": "helper",
        "workflowId": "run-1.t1c1",
        "status": "awaiting_approval",
        "pending": [one.to_json() for one in delegates.list_pending()],
    }
    assert [one.workflow_id for one in delegates.list_pending()] == [
        "run-1.t1c1",
        "run-1.t1c1.t2c1",
    ]
    delegates.update_pending(DelegateNews(call_id="t1c1"))
    assert delegates.to_views()[0].status == "running"
    delegates.remove("t1c1")
    assert delegates.to_views() == []


def test_a_delegate_reports_no_pending_approval_of_another_run() -> None:
    delegates = running()
    delegates.update_pending(
        DelegateNews(call_id="t1c1", pending=[waits("run-1"), waits("run-1.t1c10"), waits("x")])
    )

    assert delegates.list_pending() == []


if __name__ == "__main__":
    write_again(__file__)
