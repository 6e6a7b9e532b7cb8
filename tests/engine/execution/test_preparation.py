"""From a call as a model wrote it to a call that could be executed, or to why it cannot."""

import json
from typing import Any

import pytest

from holdfast.schemas.internal.solution import Solution, WrittenCall
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import RunRequest
from holdfast.schemas.tool import ActivityBinding, CallLimits, Hooks
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.budget.meter import Meter
from holdfast.workflows.engine.call.activities import CallRefused, advance
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.execution import loops
from holdfast.workflows.engine.execution.preparation import (
    MAX_ARGUMENT_BYTES,
    prepare,
    resolve_arguments,
)
from holdfast.workflows.engine.model.answer import propose_calls
from holdfast.workflows.engine.run_state import RunState, RunStateSnapshot
from holdfast.workflows.engine.state.data import VisibleData
from tests.engine.driver import Play, agent, call, noon, reply, tool

ORDER = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}
LOOK, PAY = tool("look", ORDER), tool("pay")


def proposed(written: WrittenCall, *tools: Any, state: Any = None) -> ToolCall:
    owner = agent(*(tools or (LOOK, PAY)))
    request = RunRequest(agent="tester", input="go")
    snapshot = RunStateSnapshot(meter=Meter.of(owner.budget), desk=PendingApprovals())
    run_state = RunState(request, owner, snapshot, noon)
    run_state.data.set("state", state or {})
    [one] = propose_calls(Solution(calls=[written]), 1, owner.tools, {})
    assert advance(prepare(one, run_state, 0), run_state.limits) is None
    resolving = resolve_arguments(one, run_state, VisibleData(run_state.data))
    assert advance(resolving, run_state.limits) is None
    return one


def refusal(written: WrittenCall, *tools: Any) -> tuple[str, str]:
    with pytest.raises(CallRefused) as refused:
        proposed(written, *tools)
    return refused.value.error.code, refused.value.error.message


def test_a_parameter_may_begin_with_an_underscore() -> None:
    schema = {"type": "object", "properties": {"_meta": {"type": "integer"}}}
    one = proposed(call("find", {"_meta": "5", "_other": 1}), tool("find", schema))
    assert one.arguments == {"_meta": 5}


def test_arguments_are_coerced_and_the_call_as_the_model_wrote_it_is_kept() -> None:
    one = proposed(call("look", '{"id": "7",}'))

    assert one.arguments == {"id": 7}
    assert one.proposed.proposal.arguments == {"id": "7"}
    assert one.proposed.proposal.written is None


def test_a_text_that_is_no_json_is_kept_for_people_and_never_sent_again() -> None:
    written = call("look", '{"id": 7, "note": "cut o')
    [one] = propose_calls(Solution(calls=[written]), 1, [LOOK], {})

    assert one.proposed.proposal.arguments == {}
    assert one.proposed.proposal.written == written.arguments
    assert refusal(written)[1].startswith("the arguments are no JSON")


def test_a_call_inside_of_its_arguments_is_the_call() -> None:
    written = call("look", {"_reasoningForCall": "so", "arguments": {"id": 7}})

    assert proposed(written).arguments == {"id": 7}
    assert proposed(written).meta.reasoning == "so"
    assert refusal(call("look", {"arguments": {"nr": 7}})) == (
        "invalid_arguments",
        "`arguments` is no parameter; write the parameters themselves",
    )


def test_a_number_for_a_text_keeps_its_digits_past_a_hook_that_changes_nothing() -> None:
    play = Play(
        tool("look", ORDER, hooks=Hooks(prepare=ActivityBinding(type="tidy"))),
        model=[reply("", call("look", '{"id": 1, "note": 3.10}')), reply("done")],
        hooks={"tidy": lambda arguments: json.loads(json.dumps(arguments))},
    ).to_end()

    [made] = play.records("tool_call")
    assert made["arguments"] == {"id": 1, "note": "3.10"}


@pytest.mark.parametrize("reasoning", [5, None, ["a"], {}])
def test_a_reasoning_that_is_no_text_is_left_out(reasoning: Any) -> None:
    assert proposed(call("look", {"id": 7, "_reasoningForCall": reasoning})).meta.reasoning is None


def test_a_reasoning_is_bounded() -> None:
    one = proposed(call("look", {"id": 7, "_reasoningForCall": "x" * 10_000}))

    assert len(one.meta.reasoning or "") == 4_000


def test_what_the_model_may_choose_of_the_meta_properties_is_checked() -> None:
    free = tool(
        "look",
        chosen={
            "_outputMethod": {"enum": ["push", "set"]},
            "_scopes": {"type": "array", "items": {"enum": ["state"]}},
        },
    )
    chosen = {"_outputMethod": "push", "_scopes": "state"}

    one = proposed(call("look", chosen), free)
    assert (one.meta.output_method, one.meta.scopes) == ("push", ["state"])

    code, message = refusal(call("look", {"_scopes": ["context"]}), free)
    assert code == ErrorCode.INVALID_ARGUMENTS
    assert message.startswith('_scopes: 0: "context" is not one of ["state"]')
    assert "_outputMethod" in refusal(call("look", {"_outputMethod": "drop"}), free)[1]


@pytest.mark.parametrize("value", ["drop", 5, None, [5]])
def test_a_choice_is_checked_although_its_schema_allows_anything(value: Any) -> None:
    free = tool("look", chosen={"_outputMethod": True, "_scopes": True})
    method = refusal(call("look", {"_outputMethod": value}), free)[1]
    scopes = refusal(call("look", {"_scopes": value}), free)[1]

    assert method == "_outputMethod: one of set, merge, assign, push, concat"
    assert scopes == "_scopes: a list of names"


def test_arguments_too_large_to_be_sent_are_refused() -> None:
    code, message = refusal(call("pay", {"note": "x" * MAX_ARGUMENT_BYTES}))

    assert code == ErrorCode.INVALID_ARGUMENTS
    assert message == f"{MAX_ARGUMENT_BYTES + 11} bytes in all; at most 1000000"
    unread = WrittenCall(tool="pay", oversize_bytes=5_000_000)
    assert refusal(unread)[1].startswith("5000000 bytes")


def test_arguments_that_grew_too_deep_by_their_references_are_refused() -> None:
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    with pytest.raises(CallRefused, match="nested deeper than 64 levels"):
        proposed(call("pay", {"a": {"b": {"c": {"d": {"e": "†state"}}}}}), state=deep)


# Ids.


def ids_of(*given: str | None, turn: int = 1, seen: dict[str, None] | None = None) -> list[str]:
    written = [call("look", provider_id=one) for one in given]
    calls = propose_calls(Solution(calls=written), turn, [LOOK], {} if seen is None else seen)
    assert [one.id for one in calls] == [f"t{turn}c{n + 1}" for n in range(len(given))]
    return [one.proposed.proposal.provider_id for one in calls]


NOTHING = ['""', " null ", "None", "undefined"]
REFUND = tool("refund", {"type": "object", "properties": {"order": {"default": "latest"}}})


def unreadable(one: Any, sent: Any, **answer: Any) -> str | None:
    """Why the only call of an answer cannot be read; its arguments are empty."""
    solution = Solution(calls=[WrittenCall(tool=one.name, arguments=sent)], **answer)
    [proposal] = propose_calls(solution, 1, [one], {})
    assert proposal.proposed.proposal.arguments == {}
    return None if proposal.proposed.unreadable is None else str(proposal.proposed.unreadable)


@pytest.mark.parametrize("sent", [None, "", " ", *NOTHING])
def test_nothing_is_an_empty_object_for_a_tool_without_parameters(sent: str | None) -> None:
    assert unreadable(PAY, sent) is None


@pytest.mark.parametrize("sent", [None, *NOTHING])
def test_nothing_is_an_error_for_a_tool_with_parameters(sent: str | None) -> None:
    why = "no arguments arrived" if sent is None else "the arguments are no JSON"
    assert (unreadable(REFUND, sent) or "").startswith(why)


@pytest.mark.parametrize("sent", [None, "", {}])
def test_a_call_that_is_only_opened_in_an_answer_that_was_cut_off_is_not_run(sent: Any) -> None:
    assert "was cut off" in (unreadable(REFUND, sent, stop_reason="length") or "")


def test_an_id_that_is_missing_repeated_or_absurd_is_replaced() -> None:
    assert ids_of(None, "", "a", "a", "x" * 4_097) == ["t1c1", "t1c2", "a", "t1c4", "t1c5"]


def test_an_id_that_looks_like_ours_makes_no_two_alike() -> None:
    found = ids_of("t1c2", None, "t1c2", "t1c2x", "t1c3")

    assert len(set(found)) == len(found)


def test_a_refused_loop_uses_nothing_of_the_limit_of_its_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loops, "MAX_ARGUMENT_BYTES", 40)
    find = tool("find", output_path="†state.lines")
    pay = tool("pay", each=True, limits=CallLimits(per_run=2))
    loop = call("pay", {"_each": "†state.lines", "note": "†item"})
    play = Play(
        *(find, pay),
        model=[reply("", call("find"), loop), reply("", *[call("pay")] * 3), reply("Done.")],
        outcomes={"find": ["x" * 30, "y" * 30]},
    )
    errors = play.to_end().errors()
    assert errors["t1c2"] == "invalid_arguments"
    assert [errors[each] for each in ("t2c1", "t2c2", "t2c3")] == [None, None, "blocked"]


def test_items_of_a_loop_that_is_too_large_with_its_defaults_are_not_counted() -> None:
    text = {"type": "string", "default": "x" * 600_000}
    order = {"type": "object", "properties": {"text": text}}
    parameters = {"type": "object", "properties": {"order": order}}
    pay = tool("pay", parameters, each=True, limits=CallLimits(per_run=2))
    loop, own = [call("pay", {"_each": [{}, {}], "order": "†item"})], [call("pay")] * 2
    play = Play(pay, model=[reply("", *loop), reply("", *own), reply("done")])
    play.to_end()
    assert play.errors() == {"t1c1": "invalid_arguments", "t2c1": None, "t2c2": None}
