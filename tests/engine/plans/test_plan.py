"""§8: a plan is checked whole, approved once with calls edited or struck out, and then executed.

What becomes of a plan while it runs is in `test_plan_left.py`.
"""

from typing import Any

import pytest

from holdfast.schemas.tool import CallLimits
from holdfast.workflows.engine.call.outcomes import Refused
from tests.engine.driver import Play, call, reply, tool

TEXT = {"type": "string"}
AMOUNT = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "note": TEXT},
    "required": ["amount"],
    "additionalProperties": False,
}
QUOTE = tool("quote", output_path="†state.price", label="Get a price")
PAY = tool("pay", AMOUNT, side_effects=True, output_path="†state.paid")
LOOK = tool("look", chosen={"_outputPath": TEXT})
PLAN = "t1-plan"


def lazy(*calls: Any, tools: Any = (QUOTE, PAY, LOOK), **more: Any) -> Play:
    """A run of a lazy agent whose first answer makes these calls."""
    definition = {"plan": "lazy", **more.pop("definition", {})}
    model = [reply("", *calls), *more.pop("then", [reply("done")])]
    return Play(*tools, model=model, definition=definition, **more)


def refund(**more: Any) -> Play:
    """A plan of three calls: the second waits for the first, the third for none."""
    return lazy(
        call("quote", {"item": 7}),
        call("pay", {"amount": "†state.price", "_reasoningForCall": "they asked"}),
        call("look", {"at": 1, "_outputPath": "†state.seen"}),
        outcomes={"quote": 40, "pay": lambda one: one.arguments, "look": "seen"},
        **more,
    )


def asked(play: Play) -> list[dict[str, Any]]:
    """What people were asked, in order."""
    return [entry["approval"] for entry in play.records("confirmation_required")]


def started(play: Play) -> list[str]:
    return [entry["callId"] for entry in play.records("tool_start")]


def edit(*calls: Any, **more: Any) -> dict[str, Any]:
    """A person's edit: calls by id, or with what they change."""
    entries = [{"id": one} if isinstance(one, str) else one for one in calls]
    return {"decision": "edit", "arguments": {"calls": entries}, "by": "ann", **more}


# What is asked.


def test_a_plan_is_one_question_that_shows_the_whole_graph_before_anything_starts() -> None:
    play = refund().to_end()
    question, own = asked(play)

    assert (own["callId"], own["arguments"]) == ("t1c2", {"amount": 40})
    assert (question["callId"], question["kind"]) == (PLAN, "plan")
    assert (question["tool"], question["label"]) == ("plan", "plan of 3 calls")
    quote, pay, look = question["arguments"]["calls"]
    assert quote == {
        "id": "t1c1",
        "tool": "quote",
        "label": "Get a price",
        "arguments": {"item": 7},
        "reasoning": None,
        "waitsFor": [],
        "writes": "†state.price",
        "instance": None,
    }
    assert pay["arguments"] == {"amount": "†state.price"}
    assert (pay["reasoning"], pay["waitsFor"]) == ("they asked", ["t1c1"])
    assert (look["waitsFor"], look["writes"]) == ([], "†state.seen")
    told = play.event_lines()
    assert told.index(f"confirmation_required {PLAN}") < told.index("tool_start t1c1")


def test_only_a_call_that_is_a_run_of_another_agent_is_marked_as_one() -> None:
    ask = tool("ask").model_copy(update={"activity": None, "delegate": "helper"})
    [question] = asked(lazy(call("ask", {}), call("look", {}), tools=(ask, LOOK)).to_end())

    first, second = question["arguments"]["calls"]
    assert first["delegate"] == "helper"
    assert "delegate" not in second


def test_what_is_refused_in_the_check_is_no_part_of_the_plan() -> None:
    play = lazy(
        call("nothing"),
        call("pay", {"amount": "much"}),
        call("look", {"a": "†state.b", "_outputPath": "†state.c"}),
        call("look", {"a": "†state.c", "_outputPath": "†state.b"}),
        call("look", {"a": "†state.nowhere"}),
        call("look", {"fine": True}),
    ).to_end()
    [question] = asked(play)

    assert [one["id"] for one in question["arguments"]["calls"]] == ["t1c6"]
    assert "no part of it: t1c1, t1c2, t1c3, t1c4, t1c5." in question["question"]
    assert list(play.errors().values()) == [
        *("tool_not_allowed", "invalid_arguments"),
        *("unresolved_reference", "unresolved_reference", "unresolved_reference", None),
    ]


SCOPED = tool("export", requires=["orders:read"])
CAPPED = tool("ship", limits=CallLimits(per_run=1, after=["quote"]))


def paid(**arguments: Any) -> list[Any]:
    """A quote, and a payment that may refer to it."""
    return [call("quote"), call("pay", arguments)]


@pytest.mark.parametrize(
    ("calls", "codes"),
    [
        ([call("export")], ["token_scope_insufficient"]),
        (
            [call("export", {"_outputPath": "†state.x"}), call("look", {"a": "†state.x"})],
            ["token_scope_insufficient", "unresolved_reference"],
        ),
        (
            [call("look", {"a": "†state.x"}), call("export", {"_outputPath": "†state.x"})],
            ["unresolved_reference", "token_scope_insufficient"],
        ),
        ([call("ship", {"to": "here"})], ["blocked"]),
        ([call("quote"), call("ship", {"for": "†state.price"})], [None, None]),
        (
            [call("look", {"_outputPath": "†state.x"}), call("ship", {"a": "†state.x"})],
            [None, "blocked"],
        ),
        (paid(amount="†state.price", to=1), [None, "invalid_arguments"]),
        (paid(note="†state.price"), [None, "invalid_arguments"]),
        (paid(amount=1, note="†state.price"), [None, None]),
        (paid(amount="x", note="†state.price"), [None, "invalid_arguments"]),
    ],
)
def test_the_check_knows_what_can_be_known(calls: list[Any], codes: list[Any]) -> None:
    scoped = SCOPED.model_copy(update={"chosen": {"_outputPath": TEXT}})
    play = lazy(*calls, tools=(QUOTE, PAY, LOOK, scoped, CAPPED), outcomes={"quote": "40"})
    play.take(play.next())
    step: Any = play.next()
    play.decided(play.run.planning.check(step.turn))
    found = [each.outcome for each in step.turn.calls]
    play.run.planning.ask(step.turn)

    assert [one.error.code if isinstance(one, Refused) else None for one in found] == codes
    assert len(asked(play)) == (None in codes)


def test_a_run_that_does_not_wait_has_its_plans_denied() -> None:
    play = refund(approvals="deny").to_end()

    assert set(play.errors().values()) == {"denied"}
    assert [*asked(play), *started(play)] == []


# Sequential turns.

STEP = tool("step", chosen={"_outputPath": TEXT}, sequential=True)


def in_steps(*calls: dict[str, Any], **more: Any) -> Play:
    return lazy(
        *[call("step", each) for each in calls],
        tools=(STEP,),
        outcomes=more.pop("outcomes", {"step": lambda one: one.arguments.get("n")}),
        **more,
    )


def test_a_sequential_turn_is_one_question_and_then_one_call_after_the_other() -> None:
    play = in_steps(
        {"n": 1, "_outputPath": "†state.a"}, {"n": "†state.a", "_outputPath": "†state.b"}, {"n": 3}
    ).to_end()
    told = [each for each in play.event_lines() if "c" in each.partition(" ")[2] or "plan" in each]

    assert told == [
        *("tool_call t1c1", "tool_call t1c2", "tool_call t1c3", f"confirmation_required {PLAN}"),
        *("tool_start t1c1", "tool_end t1c1", "tool_start t1c2", "tool_end t1c2"),
        *("tool_start t1c3", "tool_end t1c3"),
    ]
    waits = [one["waitsFor"] for one in asked(play)[0]["arguments"]["calls"]]
    assert waits == [[], ["t1c1"], ["t1c2"]]
    assert play.result["state"] == {"a": 1, "b": 1}


def test_in_a_sequential_turn_nothing_refers_to_what_comes_later() -> None:
    play = in_steps({"n": "†state.a"}, {"n": 1, "_outputPath": "†state.a"}).to_end()

    assert play.errors() == {"t1c1": "unresolved_reference", "t1c2": None}
    assert [one["id"] for one in asked(play)[0]["arguments"]["calls"]] == ["t1c2"]


def test_in_a_sequential_plan_hooks_are_asked_when_it_is_a_calls_turn() -> None:
    hooks = STEP.hooks.model_copy(update={"before": tool("hook").activity})
    seen: list[list[str]] = []
    play = lazy(call("step"), call("step"), tools=(STEP.model_copy(update={"hooks": hooks}),))
    play.hooks["hook"] = lambda one: seen.append(started(play))
    play.to_end()

    assert seen == [[], ["t1c1"]]
