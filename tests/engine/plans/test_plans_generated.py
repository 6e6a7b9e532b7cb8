"""Whatever a plan is, and whatever is struck, edited or sent meanwhile: what always holds of it."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.message import Delivered
from holdfast.schemas.names import ErrorCode
from holdfast.workflows.engine.call.outcomes import fail
from tests.engine.driver import Play, reply, tool
from tests.engine.execution.test_graph_generated import STATES, TURNS, WRITER, Planned
from tests.engine.plans.test_plan import asked, started

BROKEN = fail(ErrorCode.TOOL_ERROR, "no")


class Lazy:
    """A plan with these calls; the first decision strikes some and edits some of the others.

    `approved` is whether the plan was approved when a call was started.
    """

    def __init__(self, calls: list[Planned], state: dict[str, Any], seed: int, **more: Any) -> None:
        self.chance = random.Random(seed)
        self.struck: list[str] = []
        self.edited: dict[str, Any] = {}
        self.given: dict[str, Any] = {}
        self.approved_at_start: list[bool] = []
        ids = [f"t1c{n}" for n in range(1, len(calls) + 1)]
        steer = more.pop("steer", None)
        self.play = Play(
            tool("do", chosen=WRITER),
            tool("pay", chosen=WRITER, side_effects=True),
            model=[reply("", *[each.written() for each in calls]), reply("done")],
            outcomes={
                id: self._ending(each, steer == n)
                for n, (id, each) in enumerate(zip(ids, calls, strict=True))
            },
            pick=self.chance.randrange,
            state=state,
            definition={"plan": more.pop("plan", "lazy")},
            **more,
        )
        append = self.play.log.append

        def watched(entry: Any) -> Any:
            if entry.type == "tool_start":
                decided = self.play.records("decision")
                self.approved_at_start.append(any(one.get("outcome") for one in decided))
            return append(entry)

        self.play.log.append = watched  # type: ignore[method-assign]  # to see when each starts

    def _ending(self, each: Planned, steers: bool) -> Any:
        def ended(one: Any) -> Any:
            self.given[one.id] = one.arguments
            if steers:
                self.play.mailbox.put(Delivered(content="wait"))
            return BROKEN if each.fails else each.value

        return ended

    def an_edit(self, question: Any) -> Any:
        """Strike some calls and give some that wait for nothing other arguments."""
        calls = question.arguments["calls"]
        kept = [one for one in calls if self.chance.random() < 0.7] or calls[:1]
        self.struck = [one["id"] for one in calls if one not in kept]
        self.edited = {
            one["id"]: {"reads": ["other"]} for one in kept if self.chance.random() < 0.3
        }
        given = {id: {"arguments": arguments} for id, arguments in self.edited.items()}
        entries = [{"id": one["id"], **given.get(one["id"], {})} for one in kept]
        return {"decision": "edit", "arguments": {"calls": entries}}

    @property
    def codes(self) -> dict[str, str | None]:
        return self.play.errors()


@given(TURNS, STATES, st.integers(0, 999))
def test_an_approved_plan_comes_to_what_the_same_calls_come_to_one_by_one(
    calls: list[Planned], state: dict[str, Any], seed: int
) -> None:
    plan, eager = Lazy(calls, state, seed), Lazy(calls, state, seed + 1, plan="eager")
    plan.play.to_end()
    eager.play.to_end()

    assert plan.codes == eager.codes
    assert plan.given == eager.given
    assert plan.play.result["state"] == eager.play.result["state"]
    assert all(plan.approved_at_start)


@given(TURNS, STATES, st.integers(0, 999))
def test_whatever_is_struck_or_edited(
    calls: list[Planned], state: dict[str, Any], seed: int
) -> None:
    lazy_ = Lazy(calls, state, seed)
    lazy_.play.decisions["t1-plan"] = [lazy_.an_edit, {"decision": "deny"}]
    lazy_.play.to_end()
    edited = not lazy_.play.refusals and bool(asked(lazy_.play))
    executed = started(lazy_.play)

    assert all(lazy_.approved_at_start)
    if not edited:
        assert executed == []
        return
    assert not set(lazy_.struck) & set(executed)
    assert all(lazy_.codes[id] == "denied" for id in lazy_.struck)
    assert {id: lazy_.given[id] for id in lazy_.edited if id in executed} == {
        id: lazy_.edited[id] for id in lazy_.edited if id in executed
    }
    for one in asked(lazy_.play)[0]["arguments"]["calls"]:
        free = lazy_.codes[one["id"]] not in ("denied", "unresolved_reference")
        assert (one["id"] in executed) is free
    assert set(lazy_.edited) <= set(executed)


@given(TURNS, STATES, st.integers(0, 999), st.integers(0, 6))
def test_whenever_a_message_comes_nothing_is_lost_or_done_twice(
    calls: list[Planned], state: dict[str, Any], seed: int, at: int
) -> None:
    lazy_ = Lazy(calls, state, seed, steer=at)
    lazy_.play.model[1:] = [
        reply("", *[each.written() for each in calls]),
        reply("", *[each.written() for each in calls]),
        reply("done"),
    ]
    lazy_.play.decisions["t2-plan"] = ["deny"]
    lazy_.play.decisions["t3-plan"] = ["deny"]
    lazy_.play.to_end()

    executed = started(lazy_.play)
    assert len(executed) == len(set(executed))
    assert lazy_.play.desk.list_open() == []
    for id, code in lazy_.codes.items():
        if code == "cancelled":
            assert id not in executed
    later = [id for id in executed if not id.startswith("t1")]
    assert not later or not asked(lazy_.play)[1:], "what was denied has started"
