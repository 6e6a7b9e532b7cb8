"""The context of a call, as an activity with `input: call` receives it: whose run, who approved."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.schemas.run import CallContext, Principal
from holdfast.schemas.tool import ActivityBinding
from holdfast.workflows.commands.activity_options import activity_arguments
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.call.outcomes import Unknown
from holdfast.workflows.engine.call.states import ToolCall
from tests.engine.asking import approve, asks, edit
from tests.engine.driver import Play, PlayCall, Playing, call, noon, reply, run_again, tool
from tests.engine.plans.test_plan import CHAIN, LOOK, QUOTE, lazy

LOST = Unknown("the outcome of `pay` is unknown: it did not finish in time")
ADA, EVE = {"by": "ada", "groups": ["desk"]}, {"by": "eve"}
KEPT = approve(remember=True, **ADA)
WHOLE = ActivityBinding(type="pay", input="call")


def passed(play: Playing[Any], one: ToolCall) -> Any:
    """The third value that the activity of a call receives."""
    return activity_arguments(one, WHOLE, play.run, "order-7")[2]


def contexts(play: Any, *ends: Any, of: str = "pay") -> dict[str, CallContext]:
    """Play it; the contexts of the calls of a tool, by their ids. They end by `ends`."""
    found, later = dict[str, CallContext](), list(ends)

    def record(one: ToolCall) -> Any:
        data = passed(play, one)
        found[one.id] = CallContext.model_validate({**data.pop("_call"), "data": data})
        return later.pop(0) if later else "ok"

    play.outcomes[of] = record
    play.to_end()
    return found


def approvers(play: Any, *ends: Any, of: str = "pay") -> dict[str, str | None]:
    """Who approved each call of a tool."""
    found = {one: each.approver for one, each in contexts(play, *ends, of=of).items()}
    return {one: None if by is None else by.by for one, by in found.items()}


def test_a_call_has_its_run_its_principal_and_its_approver() -> None:
    held = {"id": "ann", "scopes": ["orders", "admin"]}
    bound = {"principal_scopes": ["orders"]}
    found = contexts(asks(approve(**ADA), definition=bound, principal=held))

    assert found["t1c1"].to_json() == {
        "runId": "order-7",
        "callId": "t1c1",
        "idempotencyKey": "order-7/t1c1",
        "agent": "tester",
        "instance": None,
        "principal": {"id": "ann", "scopes": ["orders"]},
        "approver": {**ADA, "at": "2026-03-01T12:00:00Z", "signed": False},
    }


def test_data_of_its_scopes_takes_no_place_of_the_context() -> None:
    data = {"type": "data", "kind": "principal", "data": {"id": "anybody"}, "_instance": "ada"}
    play = Play(
        tool("pay", scopes=["state", "principal"]),
        model=[reply("", call("pay", {"_instance": "ada"})), reply("done")],
        state={"paid": 1},
        context=[{"content": [data]}],
        principal={"id": "ann"},
    )
    context = contexts(play)["t1c1"]

    assert context.data == {"state": {"paid": 1}, "principal": {"id": "anybody"}}
    assert context.principal is not None
    assert (context.principal.id, context.instance) == ("ann", "ada")


def test_a_single_call_has_no_agent() -> None:
    play = PlayCall(tool("pay", side_effects=True), decisions=[approve(**ADA)])
    context = contexts(play)["t1c1"]

    assert (context.agent, context.principal) == (None, None)
    assert context.approver is not None


def again(question: Question) -> dict[str, Any]:
    return run_again(question) | EVE


CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], dict[str, str | None]]] = [
    ("approved", (approve(**ADA),), {}, {"t1c1": "ada"}),
    ("edited", (edit(3, **ADA),), {}, {"t1c1": "ada"}),
    ("quorum", (approve(**ADA), approve(**EVE)), {"policy": {"quorum": 2}}, {"t1c1": "eve"}),
    ("timeout", ("expire",), {"policy": {"on_timeout": "approve"}}, {"t1c1": None}),
    ("needs none", (), {"policy": {"require": "never"}}, {"t1c1": None}),
    ("auto", (), {"definition": {"approval": {"auto": ["pay"]}}}, {"t1c1": None}),
    ("remembered", (KEPT,), {"turns": 2}, {"t1c1": "ada", "t2c1": "ada"}),
]


@pytest.mark.parametrize(
    ("decisions", "more", "expected"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_the_approver_is_who_decided_last_that_it_runs(
    decisions: tuple[Any, ...], more: dict[str, Any], expected: dict[str, str | None]
) -> None:
    assert approvers(asks(*decisions, **more)) == expected


def test_a_call_that_runs_again_has_the_approver_of_that() -> None:
    play = asks(approve(**ADA), again, of={"idempotent": False})

    assert approvers(play, LOST, "ok") == {"t1c1": "eve"}


def test_a_call_that_was_released_has_the_approver_of_the_other_one() -> None:
    play = Play(
        tool("pay", side_effects=True),
        model=[reply("", call("pay", {"amount": 1}), call("pay", {"amount": 2})), reply("done")],
        decisions={"t1c1": [KEPT]},
    )

    assert approvers(play) == {"t1c1": "ada", "t1c2": "ada"}


def test_who_approved_further_calls_is_kept_when_the_run_continues_as_new() -> None:
    play = asks(KEPT, turns=2)
    play.chained = True
    found = contexts(play)

    assert found["t2c1"].approver == found["t1c1"].approver


def test_a_new_token_of_the_principal_approves_nothing() -> None:
    expired = {"id": "ann", "expiresAt": noon().isoformat()}
    until = noon() + timedelta(minutes=1)

    def renew(_: Question) -> Any:
        play.run.questions.renew(Principal(id="ann", expires_at=until))
        return approve(**EVE)  # comes too late

    play: Play = asks(approve(**ADA), renew, principal=expired)

    assert approvers(play) == {"t1c1": "ada"}
    assert len(play.refusals) == 1


def test_a_call_of_a_plan_has_its_approver_unless_its_arguments_were_not_seen() -> None:
    unseen, seen = call("look", {"at": "†state.price"}), call("look", {"at": 1})
    play = lazy(CHAIN[0], unseen, seen, decisions={"t1-plan": [approve(**ADA)]})

    assert approvers(play, of="look") == {"t1c2": None, "t1c3": "ada"}


def test_the_rest_of_a_plan_keeps_its_approver() -> None:
    look = call("look", {"at": 1})
    play = lazy(
        *(CHAIN[0], look),
        then=[reply("", look), reply("done")],
        tools=(QUOTE.model_copy(update={"sequential": True}), LOOK),
        outcomes={"quote": lambda one: play.receive("wait")},
        decisions={"t1-plan": [approve(**ADA)]},
    )
    play.chained = True

    assert approvers(play, of="look") == {"t2c1": "ada"}


def test_arguments_that_a_hook_has_changed_have_no_approver() -> None:
    amounts = iter((5, 4))
    play = asks(
        edit(3, **ADA),
        "expire",
        policy={"on_timeout": "approve"},
        definition={"hooks": {"before": ActivityBinding(type="guard")}},
        hooks={"guard": lambda _: {"arguments": {"amount": next(amounts)}}},
    )

    assert approvers(play) == {"t1c1": None}
