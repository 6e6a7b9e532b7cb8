"""Budgets: what is counted, what a limit leads to, and what people may decide on one."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.schemas.base import parse_duration
from holdfast.schemas.budget import Budget, BudgetLimits
from holdfast.schemas.internal.solution import Solution, Usage
from holdfast.workflows.engine.budget.meter import Meter
from holdfast.workflows.engine.phases import AskModel, AskPeople
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


def test_costs_are_added_as_decimals() -> None:
    count = meter(maxCost=0.3)
    for _ in range(3):
        count.charge(used(cost=0.1), turns=1)

    assert count.usage().cost == 0.3
    assert count.limit_reached() == "maxCost"
    assert used(cost=0.3).minus(used(cost=0.1)).cost == 0.2


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


# In a run; see `tests/engine/plays/run` and `delegates`.


def loops(turns: int) -> list[Solution]:
    """A model that calls the same tool again and again."""
    return [reply("", call("look"))] * turns


def test_the_final_answer_is_asked_for_without_calls() -> None:
    play = Play(tool(), model=[*loops(6), reply("done")])
    choices = []
    while play.run.phases.end is None:
        step = play.next()
        if isinstance(step, AskModel):
            choices.append(play.run.settings.ask().tool_choice)
        play.take(step)

    assert choices == [*["auto"] * 6, "none"]
    assert play.engine_messages() == ["iteration limit reached; finalise your answer"]


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
        model=[*loops(1), reply("that is all")],
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


def test_people_are_asked_for_more() -> None:
    definition = {"on_limit": {"maxTurns": "ask"}}
    play = Play(tool(), model=loops(2), definition=definition, budget={"maxTurns": 2})
    while not isinstance(step := play.next(), AskPeople):
        play.take(step)
    waiting = step.question.to_pending_approval()

    assert (waiting.kind, waiting.call_id, waiting.tool) == ("budget", "t2-maxTurns", "maxTurns")
    assert waiting.arguments == {"maxTurns": 2}
    assert "has used up its maxTurns of 2" in waiting.question
    assert play.run.status == "awaiting_approval"
