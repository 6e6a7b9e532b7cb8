"""Hooks: what they receive, and how often; what they may return is in `tests/attacks/inputs/calls`,
and what becomes of it in `tests/engine/plays/calls`."""

import json
from typing import Any

import pytest

from holdfast.schemas.names import STOP_RUN, ErrorCode
from holdfast.schemas.tool import ActivityBinding, AgentHooks, RepairAgent
from holdfast.workflows.engine.call.activities import advance
from holdfast.workflows.engine.call.outcomes import Failure, fail
from holdfast.workflows.engine.execution import results
from tests.engine.driver import Play, call, reply, runner, tool

ORDER = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}
PROBLEM = 'id: "x" is not of type "integer"'


def hooks(**names: str) -> AgentHooks:
    return AgentHooks(**{name: ActivityBinding(type=type_) for name, type_ in names.items()})


def one(
    given: Any = None,
    *,
    answers: dict[str, Any],
    own: AgentHooks | None = None,
    agents: AgentHooks | None = None,
    **more: Any,
) -> Play:
    """A run with one call of `look`, whose hooks answer so."""
    look = tool("look", ORDER, hooks=own or AgentHooks())
    return Play(
        look,
        model=[reply("", call("look", {"id": 7} if given is None else given)), reply("done")],
        hooks=answers,
        definition={"hooks": agents or AgentHooks()},
        **{"outcomes": {"look": lambda each: each.arguments}, **more},
    ).to_end()


def asked(play: Play) -> list[tuple[str, list[Any]]]:
    return [(runner(hook), hook.arguments) for hook in play.hook_calls]


def error(play: Play) -> tuple[str | None, str]:
    return play.errors()["t1c1"], str(play.results()["t1c1"])


# What they receive.


def test_prepare_is_given_references_as_they_are_written() -> None:
    play = one(
        {"id": "†state.id"},
        own=hooks(prepare="tidy"),
        answers={"tidy": lambda said: {**said, "note": "†{state.id}!"}},
        state={"id": 5},
    )

    assert asked(play) == [("tidy", [{"id": "†state.id"}])]
    assert play.results() == {"t1c1": '{"id": 5, "note": "5!"}'}


def test_repair_receives_the_problems_before_the_call_and_after_the_result() -> None:
    play = one(
        {"id": "x"},
        own=hooks(repair="mend", before="guard", after="review"),
        answers={"mend": {"id": 1}},
        outcomes={"look": fail(ErrorCode.TOOL_ERROR, "no")},
    )

    result = {"code": "tool_error", "message": "no"}
    called = {"id": "t1c1", "tool": "look", "arguments": {"id": 1}, "reasoning": None}
    assert asked(play) == [
        ("mend", [{"id": "x"}, [PROBLEM]]),
        ("guard", [called]),
        (
            "review",
            [called, {"content": None, "details": None, "error": result, "terminate": False}],
        ),
    ]


# How often.


def test_repair_is_asked_eight_times_at_most() -> None:
    play = one(
        {"id": "x"},
        own=hooks(repair="mend"),
        answers={"mend": lambda said, _: {"id": said["id"] * 2}},
    )

    assert [hook.n for hook in play.hook_calls] == list(range(1, 9))
    assert error(play)[0] == "invalid_arguments"


def test_repair_ends_once_it_changes_nothing() -> None:
    def play(**answers: Any) -> Play:
        own, agents = hooks(repair="b"), hooks(repair="a")
        return one({"id": "x"}, own=own, agents=agents, answers=answers)

    def same(said: Any, _: Any) -> Any:
        return said

    assert [name for name, _ in asked(play(a=same, b=same))] == ["a", "b"]
    assert [name for name, _ in asked(play(a={"id": "y"}, b=same))] == ["a", "b", "a"]
    told = {"error": {"code": "invalid_arguments", "message": PROBLEM}}
    assert error(play(a=same, b=same)) == ("invalid_arguments", json.dumps(told))
    assert play(a=same, b={"id": 1}).results() == {"t1c1": '{"id": 1}'}


@pytest.mark.parametrize(
    ("said", "code", "result"),
    [
        ({"id": 1}, None, '{"id": 1}'),
        ('```json\n{"id": 1}\n```', None, '{"id": 1}'),
        ("I give up.", "blocked", "failed: agent `fixer` has to return an object, the arguments: "),
        ([{"id": 1}], "blocked", "failed: agent `fixer` has to return an object, the arguments: "),
        (Failure("other", "it is down"), "blocked", "the hook `_repair` failed: it is down"),
    ],
)
def test_an_agent_repairs_from_the_call_its_errors_and_the_schema(
    said: Any, code: str | None, result: str
) -> None:
    agent = AgentHooks(repair=RepairAgent(agent="fixer"))
    play = one({"id": "x"}, own=agent, answers={"fixer": said})

    [(_, [task])] = asked(play)
    assert task == {"tool": "look", "arguments": {"id": "x"}, "errors": [PROBLEM], "schema": ORDER}
    assert error(play)[0] == code
    assert result in error(play)[1]


@pytest.mark.parametrize("hook", ["prepare", "repair", "before"])
def test_an_answer_that_the_model_gave_is_none_to_other_arguments(hook: str) -> None:
    changed: dict[str, Any] = {"id": 8}
    guess = tool("guess", ORDER, hooks=hooks(**{hook: "change"}))
    sent = {"id": 7 if hook == "before" else "x", "_output": "of 7"}
    play = Play(
        guess.model_copy(update={"activity": None}),
        model=[reply("", call("guess", sent)), reply("done")],
        hooks={"change": {"arguments": changed} if hook == "before" else changed},
        outcomes={"guess": "of 8"},
    ).to_end()

    assert play.results() == {"t1c1": "of 8"}


@pytest.mark.parametrize("hook", ["before", "after"])
def test_a_hook_stops_the_run_by_an_error_of_that_type(hook: str) -> None:
    stops = Failure("application", "enough", STOP_RUN)
    play = one(own=hooks(**{hook: "guard"}), answers={"guard": stops})

    assert (play.result["status"], play.result["output"]) == ("stopped", "enough")


def test_what_a_pending_hook_has_not_reviewed_is_withheld_where_the_run_is_cancelled() -> None:
    look = tool("look", hooks=hooks(after="review"), output_path="†state.found")
    play = Play(look, model=[reply("", call("look"))], outcomes={"look": "secret"})
    play.take(play.next())
    turn: Any = play.next()
    play.begin(turn.turn)
    play.advance(play.calls[0])
    finishing = results.finish(1, turn.turn.calls, play.run.state)
    assert advance(finishing, play.run.state.limits) is not None
    play.run.cancel()

    assert "secret" not in str(play.records())
    assert error(play)[0] == "cancelled"


# Their order.


def test_an_agents_hooks_come_first_on_the_way_in_and_last_on_the_way_out() -> None:
    names = ("prepare", "before", "after")
    play = one(
        own=hooks(**{name: f"tools_{name}" for name in names}),
        agents=hooks(**{name: f"agents_{name}" for name in names}),
        answers={"agents_prepare": lambda said: said, "tools_prepare": lambda said: said},
    )

    assert [runner(hook) for hook in play.hook_calls] == [
        *("agents_prepare", "tools_prepare", "agents_before", "tools_before"),
        *("tools_after", "agents_after"),
    ]


def test_hooks_are_asked_in_source_order_whichever_call_ends_first() -> None:
    play = Play(
        tool("look", hooks=hooks(prepare="p", before="b", after="a")),
        model=[reply("", *[call("look")] * 3), reply("done")],
        hooks={"p": lambda said: said},
        pick=lambda count: count - 1,
    ).to_end()

    order = [f"{hook.name[0]}{hook.call_id[-1]}" for hook in play.hook_calls]
    assert order == ["p1", "p2", "p3", "b1", "b2", "b3", "a1", "a2", "a3"]
