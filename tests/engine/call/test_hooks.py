"""Hooks: what activities may change of a call before it is checked, executed and reported."""

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
BROKEN = fail(ErrorCode.TOOL_ERROR, "no")


def hooks(**names: str) -> AgentHooks:
    return AgentHooks(**{name: ActivityBinding(type=type_) for name, type_ in names.items()})


def one(
    given: Any = None,
    *,
    answers: dict[str, Any],
    own: dict[str, str] | None = None,
    agents: dict[str, str] | None = None,
    **more: Any,
) -> Play:
    """A run with one call of `look`, whose hooks answer so."""
    look = tool("look", ORDER, **{"hooks": hooks(**(own or {})), **more.pop("of", {})})
    written = call("look", {"id": 7} if given is None else given)
    play = Play(
        look,
        model=[reply("", written), reply("done")],
        hooks=answers,
        definition={"hooks": hooks(**(agents or {}))},
        **{"outcomes": {"look": lambda each: each.arguments}, **more},
    )
    return play.to_end()


def asked(play: Play) -> list[tuple[str, list[Any]]]:
    return [(runner(hook), hook.arguments) for hook in play.hook_calls]


def error(play: Play) -> tuple[str | None, str]:
    return play.errors()["t1c1"], str(play.results()["t1c1"])


# Before the arguments are checked.


def test_prepare_is_given_references_as_they_are_written() -> None:
    play = one(
        {"id": "†state.id"},
        own={"prepare": "tidy"},
        answers={"tidy": lambda said: {**said, "note": "†{state.id}!"}},
        state={"id": 5},
    )

    assert asked(play) == [("tidy", [{"id": "†state.id"}])]
    assert play.results() == {"t1c1": '{"id": 5, "note": "5!"}'}


def test_repair_fixes_what_does_not_fit_and_receives_the_problems() -> None:
    play = one({"id": "x"}, own={"repair": "mend"}, answers={"mend": {"id": 1}})

    [(_, [arguments, errors])] = asked(play)
    assert arguments == {"id": "x"}
    assert errors == ['id: "x" is not of type "integer"']
    assert play.results() == {"t1c1": '{"id": 1}'}


def test_repair_is_asked_eight_times_at_most() -> None:
    play = one(
        {"id": "x"},
        own={"repair": "mend"},
        answers={"mend": lambda said, _: {"id": said["id"] * 2}},
    )

    assert len(play.hook_calls) == 8
    assert [hook.n for hook in play.hook_calls] == list(range(1, 9))
    assert error(play)[0] == "invalid_arguments"


def test_repair_ends_once_it_changes_nothing() -> None:
    def play(**answers: Any) -> Play:
        return one({"id": "x"}, own={"repair": "b"}, agents={"repair": "a"}, answers=answers)

    def same(said: Any, _: Any) -> Any:
        return said

    assert [name for name, _ in asked(play(a=same, b=same))] == ["a", "b"]
    assert [name for name, _ in asked(play(a={"id": "y"}, b=same))] == ["a", "b", "a"]
    message = 'id: "x" is not of type "integer"'
    told = {"error": {"code": "invalid_arguments", "message": message}}
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
    play = one({"id": "x"}, of={"hooks": agent}, answers={"fixer": said})

    [(_, [task])] = asked(play)
    errors = ['id: "x" is not of type "integer"']
    assert task == {"tool": "look", "arguments": {"id": "x"}, "errors": errors, "schema": ORDER}
    assert error(play)[0] == code
    assert result in error(play)[1]


# Before the call is executed.


@pytest.mark.parametrize(
    ("said", "code", "result"),
    [
        (None, None, '{"id": 7}'),
        ({}, None, '{"id": 7}'),
        ({"arguments": {"id": 8}}, None, '{"id": 8}'),
        ({"result": {"cached": True}}, None, '{"cached": true}'),
        ({"result": None}, None, "null"),
        ({"block": "not on Sundays"}, "blocked", "not on Sundays"),
        ({"block": ""}, "blocked", "a rule of this agent blocks the call"),
        ({"arguments": {"id": "x"}}, "blocked", "its arguments do not fit: id: "),
        ({"arguments": 5}, "blocked", "it has to return null"),
        ({"result": 1, "block": "x"}, "blocked", "it has to return null"),
        ({"result": {"_message": 5}}, "blocked", "failed: its `_message` is no message: "),
        ("no", "blocked", "it has to return null"),
        (Failure("other", "it is down"), "blocked", "the hook `_before` failed: it is down"),
    ],
)
def test_before_allows_changes_answers_or_blocks_a_call(
    said: Any, code: str | None, result: str
) -> None:
    play = one(own={"before": "guard"}, answers={"guard": said})

    assert asked(play) == [
        ("guard", [{"id": "t1c1", "tool": "look", "arguments": {"id": 7}, "reasoning": None}])
    ]
    assert error(play)[0] == code
    assert result in error(play)[1]
    executed = code is None and not (isinstance(said, dict) and "result" in said)
    assert ("tool_start t1c1" in play.event_lines()) == executed


@pytest.mark.parametrize("said", [{"stop": "enough"}, Failure("application", "enough", STOP_RUN)])
@pytest.mark.parametrize("hook", ["before", "after"])
def test_a_hook_stops_the_run(said: Any, hook: str) -> None:
    play = one(own={hook: "guard"}, answers={"guard": said})

    assert play.result["status"] == "stopped"
    assert play.result["output"] == "enough"


@pytest.mark.parametrize("hook", ["prepare", "repair", "before"])
def test_an_answer_that_the_model_gave_is_none_to_other_arguments(hook: str) -> None:
    changed: dict[str, Any] = {"id": 8}
    guess = tool("guess", ORDER, hooks=hooks(**{hook: "change"}))
    play = Play(
        guess.model_copy(update={"activity": None}),
        model=[reply("", call("guess", {"id": "x", "_output": "of x"})), reply("done")],
        hooks={"change": {"arguments": changed} if hook == "before" else changed},
        outcomes={"guess": "of 8"},
    )
    if hook == "before":
        play.model[0] = reply("", call("guess", {"id": 7, "_output": "of 7"}))
    play.to_end()

    assert play.results() == {"t1c1": "of 8"}


# After the call was executed.


@pytest.mark.parametrize(
    ("said", "code", "result"),
    [
        (None, None, "secret"),
        ({}, None, "secret"),
        ({"content": "***"}, None, "***"),
        ({"details": {"by": "guard"}}, None, "secret"),
        ({"error": "nothing of this leaves the house"}, "tool_error", "nothing of this leaves"),
        ({"contents": 1}, "blocked", "it has to return null, some of"),
        ({"terminate": "yes"}, "blocked", "it has to return null, some of"),
        (
            Failure("other", "it is down"),
            "blocked",
            "its result is withheld: the hook `_after` failed: it",
        ),
    ],
)
def test_after_replaces_parts_of_a_result(said: Any, code: str | None, result: str) -> None:
    play = one(own={"after": "review"}, answers={"review": said}, outcomes={"look": "secret"})

    given = {"content": "secret", "details": None, "error": None, "terminate": False}
    assert asked(play)[0][1][1] == given
    assert error(play)[0] == code
    assert result in error(play)[1]


def test_what_after_withholds_stands_nowhere_in_the_log() -> None:
    play = one(
        own={"after": "review"},
        answers={"review": {"content": "***"}},
        outcomes={"look": "secret"},
        of={"output_path": "†state.found"},
    )

    assert "secret" not in str(play.records())
    assert play.result["state"] == {"found": "***"}


@pytest.mark.parametrize("is_asked", [False, True], ids=["not asked yet", "asked"])
def test_what_after_has_not_seen_is_withheld_where_the_run_is_cancelled(*, is_asked: bool) -> None:
    look = tool("look", hooks=hooks(after="review"), output_path="†state.found")
    play = Play(look, model=[reply("", call("look"))], outcomes={"look": "secret"})
    play.take(play.next())
    turn: Any = play.next()
    play.begin(turn.turn)
    play.advance(play.calls[0])
    if is_asked:
        assert (
            advance(results.finish(1, turn.turn.calls, play.run.state), play.run.state.limits)
            is not None
        )
    play.run.cancel()

    assert "secret" not in str(play.records())
    assert error(play)[0] == "cancelled"
    assert "its result is withheld: the run was cancelled" in error(play)[1]


def test_after_sees_an_error_and_may_take_it_away() -> None:
    play = one(
        own={"after": "review"},
        answers={"review": {"content": "a default", "error": None}},
        outcomes={"look": BROKEN},
    )

    assert asked(play)[0][1][1]["error"] == {"code": "tool_error", "message": "no"}
    assert error(play) == (None, "a default")


def test_after_may_have_the_run_end_and_details_kept() -> None:
    play = one(
        own={"after": "review"},
        answers={"review": {"terminate": True, "details": {"by": "guard"}}},
        outcomes={"look": "found"},
    )

    assert play.result["status"] == "stopped"
    assert play.records("tool_end")[0]["details"] == {"by": "guard"}


@pytest.mark.parametrize(
    "more",
    [{"given": {"id": "x"}}, {"of": {"side_effects": True}, "decisions": {"t1c1": ["deny"]}}],
)
def test_after_is_not_asked_about_a_call_that_was_refused(more: Any) -> None:
    assert one(own={"after": "review"}, answers={}, **more).hook_calls == []


def test_a_result_that_others_wait_for_is_reviewed_before_they_read_it() -> None:
    play = Play(
        tool("look", output_path="†state.found", hooks=hooks(after="review")),
        tool("use"),
        model=[reply("", call("look"), call("use", {"a": "†state.found"})), reply("done")],
        outcomes={"look": "secret", "use": lambda each: each.arguments},
        hooks={"review": {"content": "***"}},
    ).to_end()

    assert play.results()["t1c2"] == '{"a": "***"}'
    assert len(play.hook_calls) == 1, "a result is reviewed once"


# Whose they are, and their order.


def test_an_agents_hooks_come_first_on_the_way_in_and_last_on_the_way_out() -> None:
    names = ("prepare", "before", "after")
    play = one(
        own={name: f"tools_{name}" for name in names},
        agents={name: f"agents_{name}" for name in names},
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


@pytest.mark.parametrize("said", [5, None, "text", [1], {"id": float("nan")}])
@pytest.mark.parametrize("hook", ["prepare", "repair"])
def test_arguments_that_are_none_block_the_call(hook: str, said: Any) -> None:
    play = one({"id": "x"}, own={hook: "wild"}, answers={"wild": said})

    assert error(play)[0] == "blocked"
    assert f"the hook `_{hook}` failed" in error(play)[1]
