"""Budgets: what is counted, what a limit leads to, and what people may decide on one."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.schemas.base import parse_duration
from holdfast.schemas.budget import Budget, BudgetLimits
from holdfast.schemas.decision import Decision
from holdfast.schemas.internal.model_request import ConversationPageRequest
from holdfast.schemas.internal.solution import Solution, Usage
from holdfast.workflows.engine.approvals.verdicts import DecisionRejected
from holdfast.workflows.engine.budget.meter import Meter
from holdfast.workflows.engine.model.prompt import FINALIZE
from holdfast.workflows.engine.phases import AskPeople
from tests.engine.driver import NOON, Play, call, reply, tool

SECOND = timedelta(seconds=1)


def meter(**budget: Any) -> Meter:
    return Meter.of(Budget.model_validate(budget))


def used(**tokens: Any) -> Usage:
    return Usage(**tokens)


# Counting.


@pytest.mark.parametrize(
    ("name", "spend"),
    [
        ("maxTurns", lambda m: m.charge(used(), turns=1)),
        ("maxIterations", lambda m: setattr(m, "iterations", m.iterations + 1)),
        ("maxTokens", lambda m: m.charge(used(input_tokens=1, output_tokens=0), turns=1)),
        ("maxCost", lambda m: m.charge(used(cost=1.0), turns=1)),
    ],
)
def test_a_limit_is_reached_when_all_of_it_is_used(name: Any, spend: Any) -> None:
    count = meter(**{name: 2})
    reached = [count.limit_reached()]
    for _ in range(2):
        spend(count)
        reached.append(count.limit_reached())

    assert reached == [None, None, name]


def test_calls_run_up_to_the_limit_and_one_more_reaches_it() -> None:
    count = meter(maxCalls=2)

    assert [count.refuse_call("a") for _ in range(2)] == [None, None]
    assert count.limit_reached() is None, "the model may still answer"
    assert count.refuse_call("a") == "the run's limit of 2 calls is reached"
    assert count.limit_reached() == "maxCalls"


def test_calls_of_one_tool_in_a_row_are_counted() -> None:
    count = meter(maxSameTool=2)

    assert [count.refuse_call(name) for name in "aabab"] == [None] * 5
    assert [count.refuse_call("b"), count.limit_reached()] == [None, None]
    assert count.refuse_call("b") == "`b` was called 2 times in a row, which is the run's limit"
    assert count.limit_reached() == "maxSameTool"


def test_the_clock_stands_while_nothing_is_at_work() -> None:
    count = meter(maxDuration="10s")
    count.begin_work(NOON)
    count.begin_work(NOON + 2 * SECOND)
    count.end_work(NOON + 3 * SECOND)
    assert count.time_at_work(NOON + 4 * SECOND) == 4 * SECOND
    count.end_work(NOON + 5 * SECOND)

    assert count.time_at_work(NOON + 500 * SECOND) == 5 * SECOND
    assert count.remaining(NOON + 500 * SECOND) == 5 * SECOND


def test_what_is_left_of_the_time_is_never_less_than_a_second() -> None:
    count = meter(maxDuration="10s")
    count.begin_work(NOON)
    count.end_work(NOON + 30 * SECOND)

    assert count.remaining(NOON) == SECOND


def test_the_time_is_used_up_when_its_timer_fires() -> None:
    count = meter(maxDuration="10s")
    assert count.limit_reached() is None
    count.out_of_time = True

    assert count.limit_reached() == "maxDuration"
    count.extend("maxDuration")
    assert count.limit_reached() is None
    assert count.budget.max_duration == parse_duration("20s")


def test_usage_that_is_not_reported_is_unknown_and_not_zero() -> None:
    count = meter(maxTokens=100, maxCost=1)
    count.charge(used(input_tokens=5, output_tokens=1, cost=0.1), turns=1)
    assert count.usage().input_tokens == 5
    assert count.unmetered_budget() is None

    count.charge(used(), turns=1)
    assert (count.usage().input_tokens, count.usage().cost) == (None, None)
    assert count.view(NOON)["maxTokens"] == {"used": None, "limit": 100}
    assert count.unmetered_budget() == "maxTokens"


def test_what_is_used_and_granted_is_shown_by_budget() -> None:
    count = meter(maxTurns=8, maxDuration="1m")
    count.charge(used(input_tokens=3, output_tokens=2), turns=1)
    count.refuse_call("a")
    count.begin_work(NOON)

    assert count.view(NOON + 1.5 * SECOND) == {
        "maxIterations": {"used": 0, "limit": None},
        "maxTurns": {"used": 1, "limit": 8},
        "maxCalls": {"used": 1, "limit": None},
        "maxDuration": {"used": "1500ms", "limit": "1m"},
        "maxTokens": {"used": 5, "limit": None},
        "maxCost": {"used": None, "limit": None},
        "maxSameTool": {"used": 1, "limit": None},
    }


def test_a_runs_own_budget_can_only_be_tighter_than_its_agents() -> None:
    bounds = Budget(max_turns=8, max_calls=32)
    own = Budget(max_turns=100, max_calls=2, max_tokens=5)

    assert own.within(bounds) == BudgetLimits(max_turns=8, max_calls=2, max_tokens=5)


def test_an_extension_continues_the_run_however_much_was_used_beyond_the_limit() -> None:
    count = meter(maxTokens=100, maxCalls=2)
    count.charge(used(input_tokens=5_000, output_tokens=0), turns=1)
    for _ in range(50):
        count.refuse_call("a")
    count.extend("maxTokens")
    count.extend("maxCalls")

    assert count.limit_reached() is None
    assert (count.budget.max_tokens, count.budget.max_calls) == (5_100, 52)


# In a run.


def loops(turns: int = 50, **more: Any) -> list[Solution]:
    """A model that calls the same tool for ever."""
    return [reply("", call("look"), **more) for _ in range(turns)]


def test_the_final_answer_is_asked_for_without_calls() -> None:
    play = Play(tool(), model=loops(6))
    while play.run.state.meter.turns < 6:
        play.take(play.next())
        assert play.run.settings.page(ConversationPageRequest(upto=0)).ask.tool_choice == "auto"  # type: ignore[union-attr]  # the first page has it
    play.take(play.next())
    play.next()

    assert play.engine_messages() == ["iteration limit reached; finalise your answer"]
    assert play.run.settings.page(ConversationPageRequest(upto=0)).ask.tool_choice == "none"  # type: ignore[union-attr]  # the first page has it


def test_a_final_answer_that_does_not_fit_may_be_fixed_within_the_other_limits() -> None:
    schema = {"type": "object", "required": ["x"]}
    fixed = Play(
        tool(),
        model=[*loops(6), reply("no JSON"), reply('{"x": 1}')],
        definition={"output": schema},
    ).to_end()
    assert fixed.result["output"] == {"x": 1}

    never = Play(
        tool(), model=[*loops(6), *[reply("no JSON")] * 50], definition={"output": schema}
    ).to_end()
    assert never.result["status"] == "budget_exceeded"
    assert never.result["turns"] == 8


@pytest.mark.parametrize(
    ("budget", "turns"),
    [
        ({"maxTokens": 25}, 3),
        ({"maxCost": 0.5}, 2),
        ({"maxSameTool": 2}, 3),
        ({"maxCalls": 2}, 3),
    ],
)
def test_each_limit_ends_a_run_that_would_not_end(budget: Any, turns: int) -> None:
    spent = used(input_tokens=8, output_tokens=2, cost=0.25)
    play = Play(tool(), model=loops(usage=spent), budget=budget).to_end()

    assert (play.result["status"], play.result["turns"]) == ("budget_exceeded", turns)


@pytest.mark.parametrize(
    ("on_limit", "status", "output"),
    [
        ({}, "completed", "that is all"),
        ({"maxDepth": "finalize"}, "completed", "that is all"),
        ({"maxDepth": "fail"}, "budget_exceeded", None),
        ({"maxDepth": "ask"}, "completed", "that is all"),
    ],
)
def test_a_delegate_too_deep_is_a_limit_for_the_run_where_its_agent_is_set_to(
    on_limit: Any, status: str, output: Any
) -> None:
    def too_deep(_: Any) -> str:
        play.run.state.meter.too_deep = True
        return "refused"

    play = Play(
        tool(),
        model=[reply("", call("look")), reply("that is all")],
        budget={"maxDepth": 0},
        outcomes={"look": too_deep},
        definition={"on_limit": on_limit},
    )
    play.to_end()

    assert (play.result["status"], play.result["output"]) == (status, output)
    asked = [one["approval"]["tool"] for one in play.records("confirmation_required")]
    assert asked == (["maxDepth"] if "ask" in on_limit.values() else [])
    told = "iteration limit reached" in str(play.engine_messages())
    assert told == ("finalize" in on_limit.values())
    assert play.run.state.meter.budget.max_depth == (1 if asked else 0)


def test_a_run_reports_once_that_a_budget_cannot_be_enforced() -> None:
    play = Play(tool(), model=[*loops(2), reply("x")], budget={"maxTokens": 100}).to_end()

    assert [entry["text"] for entry in play.records("notice")] == [
        "the provider does not report its usage: the budget maxTokens cannot be enforced"
    ]
    assert play.result["usage"]["inputTokens"] is None


# Asking people.

ASK: dict[str, Any] = {"definition": {"on_limit": {"maxTurns": "ask"}}, "budget": {"maxTurns": 2}}


def asking(**more: Any) -> tuple[Play, Any]:
    """A run that asks for more turns, and its question."""
    play = Play(tool(), model=[*loops(2), *more.pop("then", [reply("done")])], **{**ASK, **more})
    while not isinstance(step := play.next(), AskPeople):
        play.take(step)
    return play, step.question


def test_people_are_asked_for_more() -> None:
    play, question = asking()
    waiting = question.to_pending_approval()

    assert (waiting.kind, waiting.call_id, waiting.tool) == ("budget", "t2-maxTurns", "maxTurns")
    assert waiting.arguments == {"maxTurns": 2}
    assert "has used up its maxTurns of 2" in waiting.question
    assert play.run.status == "awaiting_approval"
    assert play.event_lines()[-1] == "confirmation_required t2-maxTurns"


def test_an_edit_sets_the_limit() -> None:
    play, _ = asking(then=[reply("", call("look")), reply("done")])
    play.decisions = {"t2-maxTurns": [{"decision": "edit", "arguments": {"maxTurns": 4}}]}
    play.to_end()

    assert (play.result["status"], play.result["output"]) == ("completed", "done")
    assert play.run.state.meter.budget.max_turns == 4


def test_an_approval_grants_as_much_again() -> None:
    play, _ = asking(then=[*loops(2), reply("no more")])
    play.decisions = {"t2-maxTurns": ["approve"], "t4-maxTurns": ["deny"]}
    play.to_end()

    assert (play.result["status"], play.result["turns"]) == ("budget_exceeded", 4)


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        ({"decision": "respond", "result": 1}, "decide on a budget with approve, edit or deny"),
        ({"decision": "happened", "result": 1}, "is for calls whose outcome is unknown"),
        ({"decision": "edit", "arguments": {}}, "write the new `maxTurns`, and nothing else"),
        ({"decision": "edit", "arguments": {"maxCalls": 9}}, "write the new `maxTurns`"),
        ({"decision": "edit", "arguments": {"maxTurns": 9, "maxCalls": 9}}, "and nothing else"),
        ({"decision": "edit", "arguments": {"maxTurns": 2}}, "more than the run has used already"),
        ({"decision": "edit", "arguments": {"maxTurns": "many"}}, "write a whole number"),
        ({"decision": "edit", "arguments": {"maxTurns": None}}, "write the new `maxTurns`"),
        ({"decision": "edit", "arguments": {"turns": 5}}, "unknown field"),
    ],
)
def test_what_makes_no_budget_is_refused_in_one_line(decision: Any, why: str) -> None:
    play, _ = asking()
    with pytest.raises(DecisionRejected) as refused:
        play.run.questions.count(Decision.model_validate({"callId": "t2-maxTurns", **decision}))

    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_second_approval_does_not_grant_twice() -> None:
    play, question = asking()
    for _ in range(2):
        play.run.questions.count_or_log(Decision(call_id=question.call_id, decision="approve"))
    step = play.next()
    assert isinstance(step, AskPeople)
    play.run.budget_decided(step)

    assert play.run.state.meter.budget.max_turns == 4
    assert "is decided already" in play.records("decision")[1]["ignored"]


# Shares of delegates.


def delegate(*model: Any, agent: Any = None, **budget: Any) -> Play:
    """A run that runs a call of another run, with a share of that one's budget."""
    play = Play(tool(), model=model, definition=agent, budget=budget)
    play.run.state.is_delegate = True
    return play


@pytest.mark.parametrize("share", [1, 2, 6])
def test_a_delegate_finishes_with_the_last_request_of_its_share(share: int) -> None:
    looks = [reply("", call("look"))] * (share - 1)
    play = delegate(*looks, reply("So far.", call("look")), maxTurns=share).to_end()

    assert (play.result["status"], play.result["output"]) == ("completed", "So far.")
    assert (play.result["turns"], play.engine_messages()) == (share, [FINALIZE])


@pytest.mark.parametrize(
    ("budget", "used"),
    [
        ({"maxCalls": 1}, {}),
        ({"maxTokens": 10}, {"usage": Usage(input_tokens=9, output_tokens=1)}),
        ({"maxCost": 0.5}, {"usage": Usage(cost=0.5)}),
    ],
)
def test_a_delegate_finishes_after_another_share_is_used_up(budget: Any, used: Any) -> None:
    look = reply("", call("look"), call("look"), **used)
    play = delegate(look, reply("So far."), **budget).to_end()

    assert (play.result["status"], play.engine_messages()) == ("completed", [FINALIZE])


def test_a_delegate_fails_where_its_agent_is_set_to() -> None:
    agent = {"on_limit": {"maxTurns": "fail"}}
    play = delegate(*[reply("", call("look"))] * 2, agent=agent, maxTurns=2).to_end()
    assert (play.result["status"], play.engine_messages()) == ("budget_exceeded", [])


def finishing(*model: Any) -> Play:
    """A run that may make one round of calls, and then has to finish."""
    return Play(tool(), model=[reply("", call("look")), *model], budget={"maxIterations": 1})


@pytest.mark.parametrize("last", [reply("", call("look")), reply(" ")])
def test_a_final_answer_without_a_text_is_none(last: Any) -> None:
    play = finishing(last).to_end()
    assert (play.result["status"], play.result.get("output")) == ("budget_exceeded", None)
    assert play.records("notice")[-1]["text"] == (
        "the budget maxIterations is used up. Answers without an output in a row: 1."
        " The last: the final answer has no text"
    )


def test_a_final_answer_with_calls_and_a_text_is_its_text() -> None:
    play = finishing(reply("So far.", call("look"))).to_end()
    assert (play.result["status"], play.result["output"]) == ("completed", "So far.")
    assert play.errors()["t2c1"] == "blocked"
