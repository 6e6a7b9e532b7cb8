"""How the steps of a plan hang together (§6, §8): what each uses of the others, shown before."""

from typing import Any

import pytest

from holdfast.schemas.tool import ShownTool
from holdfast.web.call.plan import PlanStep, PlanSteps, describe_unusable, join_words


def call(n: int, waits: str = "", writes: str | None = None, **arguments: Any) -> dict[str, Any]:
    id, after = f"t1c{n}", [f"t1c{one}" for one in waits]
    shown = {"id": id, "tool": f"tool_{n}", "label": f"tool_{n}", "arguments": arguments}
    return {**shown, "waitsFor": after, "writes": writes}


REFUND = [
    call(1, writes="†state.order", order="1042"),
    call(2, "1", "†state.refund", amount="†state.order.paid"),
    call(
        *(3, "1", "†state.voucher || †state.failed"),
        to="†state.order.lines[0].to",
        last="†state.order.lines[-1]['ship to']",
    ),
    call(4, "123", text="We paid †{state.refund.paid}; †{state.voucher.worth}.", why="†input.why"),
]


def steps(*calls: dict[str, Any]) -> PlanSteps:
    tool = {"name": "tool_2", "label": "Refund", "parameters": {}, "approval": {}}
    return PlanSteps({"calls": [*calls]}, {"tool_2": ShownTool.read(tool)})


def step_of(plan: PlanSteps, id: str) -> PlanStep:
    return next(step for step in plan.all if step.id == id)


def lost(plan: PlanSteps, *struck: str, **edited: Any) -> list[str]:
    return [step.id for step, _ in plan.unusable_steps({*struck}, edited)]


@pytest.mark.parametrize(
    ("step", "name", "said"),
    [
        ("t1c1", "order", ""),
        ("t1c2", "amount", "“paid” of the result of step 1"),
        ("t1c3", "to", "“lines › 1 › to” of the result of step 1"),
        ("t1c3", "last", "“lines › 1 from the end › ship to” of the result of step 1"),
        (
            "t1c4",
            "text",
            "We paid [“paid” of the result of step 2]; [“worth” of the result of step 3].",
        ),
        ("t1c4", "why", "“why” of the input of the run"),
    ],
)
def test_a_reference_is_described_in_words(step: str, name: str, said: str) -> None:
    plan = steps(*REFUND)
    assert plan.reference_text(step_of(plan, step), step_of(plan, step).arguments[name]) == said


def test_of_several_that_write_a_place_each_is_named_and_an_error_is_called_one() -> None:
    plan = steps(
        call(1, writes="†state.a || †state.e"),
        call(2, "1", "†state.a"),
        call(3, "12", all="†state.a && †state.a.b", one="†state.x || †state.a", bad="†state.e"),
    )
    step = step_of(plan, "t1c3")
    assert [plan.reference_text(step, value) for value in step.arguments.values()] == [
        "“b” of the result of steps 1 and 2, once the result of steps 1 and 2 exists",
        "“x” of the state of the run, or else the result of steps 1 and 2",
        "the error of step 1",
    ]


def test_of_many_places_the_value_is_the_one_of_the_last() -> None:
    places = [f"†state.p{n}" for n in range(1, 21)]
    plan = steps(call(1, writes="†state.p20"), call(2, "1", all=" && ".join(places)))
    said = plan.reference_text(step_of(plan, "t1c2"), step_of(plan, "t1c2").arguments["all"])
    assert said.startswith("the result of step 1, once “p1” of the state of the run and")


def test_of_many_steps_a_few_are_named_and_the_others_counted() -> None:
    assert join_words([str(n) for n in range(1, 11)]) == "1, 2, 3, 4, 5, 6, 7, 8, 9 and 10"
    assert join_words([str(n) for n in range(1, 13)]) == "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more"


def test_a_long_chain_is_traversed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = [call(1, writes="†state.p1")]
    for n in range(2, 101):
        one = call(n, writes=f"†state.p{n}", of=f"†state.p{n - 1}")
        chain.append({**one, "waitsFor": [f"t1c{n - 1}"]})
    looked: list[int] = []
    lacks = PlanSteps.missing_results

    def counting(self: PlanSteps, step: PlanStep, *more: Any) -> list[PlanStep]:
        looked.append(step.number)
        return lacks(self, step, *more)

    plan = steps(*chain)
    monkeypatch.setattr(PlanSteps, "missing_results", counting)
    assert len(lost(plan, "t1c1")) == 99
    assert looked == [*range(2, 101)]


def test_what_looks_like_a_reference_where_nothing_is_waited_for_is_none() -> None:
    plan = steps(call(1, writes="†state.a"), call(2, text="†state.a"))
    assert plan.reference_text(step_of(plan, "t1c2"), "†state.a") == ""
    assert lost(plan, "t1c1") == []


def test_without_what_they_use_steps_are_lost_in_turn_and_named() -> None:
    plan = steps(*REFUND)
    assert lost(plan, "t1c1") == ["t1c2", "t1c3", "t1c4"]
    assert describe_unusable(plan.unusable_steps({"t1c3"}, {})) == (
        "Step 4 (tool_4) needs the result of step 3 (tool_3), which would be removed."
        " Remove step 4 too, or change the arguments."
    )
    several = describe_unusable(plan.unusable_steps({"t1c1"}, {}))
    assert several.startswith(
        "Step 2 (Refund) and step 3 (tool_3) need the result of step 1 (tool_1)"
    )
    assert "Remove steps 2, 3 and 4 too, or change the arguments." in several


def test_what_another_gives_too_or_an_edit_no_longer_uses_is_not_lost() -> None:
    plan = steps(*REFUND)
    assert lost(plan, "t1c3", t1c4={"text": "We paid you."}) == []
    assert lost(plan, "t1c3", "t1c4") == []
    both = steps(call(1, writes="†state.a"), call(2, "1", "†state.a"), call(3, "12", x="†state.a"))
    assert lost(both, "t1c1") == []
    assert lost(both, "t1c1", "t1c2") == ["t1c3"]
    either = steps(
        call(1, writes="†state.a"),
        call(2, writes="†state.b"),
        call(3, "12", x="†state.a || †state.b"),
        call(4, "12", x="†state.a && †state.b"),
    )
    assert lost(either, "t1c1") == ["t1c4"]
    # Where the error of a step is written, there is one: it was left out.
    error = steps(call(1, writes="†state.a || †state.e"), call(2, "1", x="†state.a || †state.e"))
    assert lost(error, "t1c1") == []
    # Around what it would have written, something may stand already: the run knows.
    around = steps(call(1, writes="†state.a.b"), call(2, "1", x="†state.a"))
    assert lost(around, "t1c1") == []
