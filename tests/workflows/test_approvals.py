"""Calls that wait for a person, on a real server with the workflow cache off."""

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from tests.support import tools
from tests.support.backend import Launch, Run
from tests.support.model_server import Answer, call

PENDING_TOOLS = SearchAttributeKey.for_keyword_list("PendingTools")
PAYS = [Answer(calls=[call("pay", amount=5, _reasoningForCall="they asked")]), Answer("paid")]


async def refusal(run: Run, call_id: str, decision: str, **more: object) -> ApplicationError:
    """Why the update refuses a decision."""
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await run.decide(call_id, decision, **more)
    assert isinstance(refused.value.cause, ApplicationError)
    return refused.value.cause


async def test_a_call_with_side_effects_waits_and_shows_what_it_would_do(
    launch: Launch,
) -> None:
    run = await (await launch(PAYS)).start(["pay"])
    [waiting] = await run.waiting()
    assert waiting["kind"] == "call"
    assert waiting["tool"] == "pay"
    assert waiting["label"] == "Pay"
    assert waiting["arguments"] == {"amount": 5}
    assert waiting["reasoning"] == "they asked"
    assert waiting["quorum"] == 1
    assert waiting["expiresAt"] > waiting["requestedAt"]
    assert tools.read() == []
    assert (await run.status())["status"] == "awaiting_approval"
    assert list((await run.handle.describe()).raw_description.pending_activities) == []

    receipt = await run.decide("t1c1", "approve", by="ada", digest=waiting["digest"])
    assert receipt == {"callId": "t1c1", "decision": "approve", "decided": True, "missing": 0}
    assert (await run.result())["output"] == "paid"
    assert tools.read() == [f"pay 5 {run.id}/t1c1"]
    told = await run.told()
    assert told == [
        "turn_start",
        "tool_call t1c1",
        "confirmation_required t1c1",
        "tool_start t1c1",
        "tool_end t1c1",
        "turn_end",
        "turn_start",
        "turn_end",
        "done",
    ]


async def test_decide_refuses_what_fails_and_history_does_not_grow(launch: Launch) -> None:
    run = await (await launch(PAYS)).start(["pay"])
    await run.waiting()
    before = (await run.handle.describe()).history_length
    assert (await refusal(run, "t9c9", "approve")).type == "no_such_call"
    assert (await refusal(run, "t1c1", "approve", digest="0" * 64)).type == "invalid_decision"
    assert (await refusal(run, "t1c1", "edit")).type == "invalid_decision"
    assert (await refusal(run, "t1c1", "perhaps")).type == "invalid_decision"
    assert (await refusal(run, "t1c1", "approve", nonsense=1)).type == "invalid_decision"
    assert (await run.handle.describe()).history_length == before
    await run.decide("t1c1", "approve")
    await run.result()


async def test_the_signal_records_what_it_ignores(launch: Launch) -> None:
    run = await (await launch(PAYS)).start(["pay"])
    await run.waiting()
    await run.handle.signal("approve", "nonsense")
    await run.signal("t1c1", "approve", digest="0" * 64)
    await run.signal("t1c1", "approve")
    await run.result()
    context = await run.context()
    assert any("a decision was ignored" in entry.get("text", "") for entry in context)
    assert any("digest" in entry.get("ignored", "") for entry in context)
    assert tools.read() == [f"pay 5 {run.id}/t1c1"]


async def test_an_update_sent_twice_under_one_id_counts_once(launch: Launch) -> None:
    answers = [Answer(calls=[call("pay", amount=1), call("pay", amount=2)]), Answer("paid")]
    run = await (await launch(answers)).start(["pay"])
    await run.waiting(2)
    decision = {"callId": "t1c1", "decision": "approve"}
    first = await run.handle.execute_update("decide", decision, id="click-1")
    assert await run.handle.execute_update("decide", decision, id="click-1") == first
    await run.decide("t1c2", "deny")
    await run.result()
    assert tools.read() == [f"pay 1 {run.id}/t1c1"]


async def test_a_decision_that_comes_before_its_call_is_kept(launch: Launch) -> None:
    run = await (await launch(PAYS)).start(["pay"])
    await run.signal("t1c1", "approve", by="ada")
    assert (await run.result())["output"] == "paid"
    assert tools.read() == [f"pay 5 {run.id}/t1c1"]


async def test_a_decision_on_an_ended_run_is_refused(launch: Launch) -> None:
    run = await (await launch([Answer("hello")])).start()
    await run.result()
    with pytest.raises(RPCError):
        await run.signal("t1c1", "approve")
    with pytest.raises(RPCError):
        await run.decide("t1c1", "approve")


@pytest.mark.parametrize(
    ("on_timeout", "paid"), [("deny", False), ("approve", True), ("fail", False)]
)
async def test_a_wait_that_nobody_ends(launch: Launch, on_timeout: str, paid: bool) -> None:
    policy = {"timeout": "100ms", "onTimeout": on_timeout}
    run = await (await launch(PAYS)).start(["pay"], agent={"approval": policy})
    if on_timeout == "fail":
        assert (await run.failure()).type == "approval_timeout"
    else:
        await run.result()
    if on_timeout == "deny":
        assert (await run.error())["code"] == "approval_timeout"
    assert bool(tools.read()) is paid


async def test_a_call_of_unknown_end_is_asked_about_and_never_repeated(
    launch: Launch,
) -> None:
    answers = [Answer(calls=[call("held_payment", name="rent")]), Answer("done")]
    run = await (await launch(answers)).start(["held_payment"])
    [waiting] = await run.waiting()
    assert waiting["kind"] == "reconcile"
    error = await refusal(run, "t1c1", "approve")
    assert "did_not_happen" in error.message
    await run.decide("t1c1", "happened", result="paid after all")
    await run.result()
    assert tools.read() == [f"paid rent {run.id}/t1c1"]
    assert (await run.results())["t1c1"] == "paid after all"


async def test_waiting_calls_with_large_arguments_can_be_listed_and_decided(
    launch: Launch,
) -> None:
    blob = {"text": "x" * 250_000}
    tool = {
        "_tool": "send",
        "properties": {"text": {"type": "string"}},
        "_activity": {"type": "echo"},
        "_sideEffects": True,
    }
    answers = [Answer(calls=[("send", blob)] * 4), Answer("sent")]
    run = await (await launch(answers)).start([tool])
    waiting = await run.waiting(4)
    assert {one["cut"] for one in waiting} == {250_011}
    for one in waiting:
        await run.decide(one["callId"], "deny", digest=one["digest"])
    await run.result()


async def test_many_waiting_tools_with_long_names_do_not_end_the_run(
    launch: Launch,
) -> None:
    names = [f"pay_{'x' * 100}_{n}" for n in range(24)]  # more than a search attribute holds
    tools_ = [{"_tool": name, "_activity": "pay", "_sideEffects": True} for name in names]
    backend = await launch([Answer(calls=[call(name) for name in names]), Answer("done")])
    run = await backend.start(tools_)
    await run.waiting(len(names))
    described = await run.handle.describe()
    found = described.typed_search_attributes[PENDING_TOOLS]
    assert list(found) == names[: len(found)]
    assert len(found) > 10
    await run.signal("t1c1", "deny")
    assert (await run.status())["status"] == "awaiting_approval"
