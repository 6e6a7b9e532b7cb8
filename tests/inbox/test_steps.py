"""How the steps of a plan hang together (§6, §8): what each uses of the others, told beforehand."""

from typing import Any

import pytest

from holdfast.web.call.plan_steps import Step, Steps, in_words, why_lost


def call(n: int, waits: str = "", writes: str | None = None, **arguments: Any) -> dict[str, Any]:
    """A call of a plan, as it is shown."""
    id, after = f"t1c{n}", [f"t1c{one}" for one in waits]
    shown = {"id": id, "tool": f"tool_{n}", "label": f"tool_{n}", "arguments": arguments}
    return {**shown, "waitsFor": after, "writes": writes}


REFUND = [
    call(1, writes="†state.order", order="1042"),
    call(2, "1", "†state.refund", amount="†state.order.paid"),
    call(3, "1", "†state.voucher && †state.sent || †state.failed", to="†state.order.lines[0].to"),
    call(4, "123", text="We paid †{state.refund.paid}; †{state.voucher.worth}.", why="†input.why"),
]


def steps(*calls: dict[str, Any]) -> Steps:
    """The steps of a plan."""
    return Steps({"calls": [*calls]}, {"tool_2": "Refund"})


def lost(plan: Steps, *struck: str, **edited: Any) -> list[str]:
    """The steps that could not be carried out."""
    return [one.step.id for one in plan.lost({*struck}, edited)]


def test_each_says_what_it_waits_for_and_who_cannot_be_without_it() -> None:
    plan = steps(*REFUND)
    assert [plan.before(step) for step in plan.all] == [
        "",
        "After step 1",
        "After step 1",
        "After steps 1, 2 and 3",
    ]
    assert [[one.number for one in plan.users(step)] for step in plan.all] == [
        [2, 3, 4],
        [4],
        [4],
        [],
    ]
    assert plan.of("t1c2").told == "step 2 (Refund)"


@pytest.mark.parametrize(
    ("step", "name", "said"),
    [
        ("t1c1", "order", ""),
        ("t1c2", "amount", "the “paid” of what step 1 gives"),
        ("t1c3", "to", "the “lines › 1 › to” of what step 1 gives"),
        (
            "t1c4",
            "text",
            "We paid [the “paid” of what step 2 gives]; [the “worth” of what step 3 gives].",
        ),
        ("t1c4", "why", "“why” of what the run was given"),
    ],
)
def test_a_reference_is_told_in_words(step: str, name: str, said: str) -> None:
    plan = steps(*REFUND)
    assert plan.meaning(plan.of(step), plan.of(step).arguments[name]) == said


def test_of_several_that_write_a_place_each_is_named_and_an_error_is_called_one() -> None:
    plan = steps(
        call(1, writes="†state.a || †state.e"),
        call(2, "1", "†state.a"),
        call(3, "12", all="†state.a && †state.a.b", one="†state.x || †state.a", bad="†state.e"),
    )
    step = plan.of("t1c3")
    assert [plan.meaning(step, value) for value in step.arguments.values()] == [
        "the “b” of what steps 1 and 2 give, once there is what steps 1 and 2 give",
        "“x” of what stands in its state, or else what steps 1 and 2 give",
        "the error of step 1",
    ]


def test_of_many_places_the_value_is_the_one_of_the_last() -> None:
    places = [f"†state.p{n}" for n in range(1, 21)]
    plan = steps(call(1, writes="†state.p20"), call(2, "1", all=" && ".join(places)))
    said = plan.meaning(plan.of("t1c2"), plan.of("t1c2").arguments["all"])
    assert said.startswith("what step 1 gives, once there is “p1” of what stands in its state and")


def test_of_many_steps_a_few_are_named_and_the_others_counted() -> None:
    assert in_words([str(n) for n in range(1, 11)]) == "1, 2, 3, 4, 5, 6, 7, 8, 9 and 10"
    assert in_words([str(n) for n in range(1, 13)]) == "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more"


def test_a_long_chain_is_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = [call(1, writes="†state.p1")]
    for n in range(2, 101):
        one = call(n, writes=f"†state.p{n}", of=f"†state.p{n - 1}")
        chain.append({**one, "waitsFor": [f"t1c{n - 1}"]})
    looked: list[int] = []
    lacks = Steps._lacks

    def counting(self: Steps, step: Step, *more: Any) -> list[Step]:
        looked.append(step.number)
        return lacks(self, step, *more)

    plan = steps(*chain)
    monkeypatch.setattr(Steps, "_lacks", counting)
    assert len(plan.users(plan.all[0])) == 99
    assert looked == [*range(2, 101)]


def test_what_looks_like_a_reference_where_nothing_is_waited_for_is_none() -> None:
    plan = steps(call(1, writes="†state.a"), call(2, text="†state.a"))
    assert plan.meaning(plan.of("t1c2"), "†state.a") == ""
    assert lost(plan, "t1c1") == []


def test_without_what_they_use_steps_are_lost_in_turn_and_named() -> None:
    plan = steps(*REFUND)
    assert lost(plan, "t1c1") == ["t1c2", "t1c3", "t1c4"]
    assert why_lost(plan.lost({"t1c3"}, {})) == (
        "Step 4 (tool_4) uses what step 3 (tool_3) would give, and that would not be there."
        " Leave out step 4 as well, or change what it uses."
    )
    several = why_lost(plan.lost({"t1c1"}, {}))
    assert several.startswith("Step 2 (Refund) and step 3 (tool_3) use what step 1 (tool_1) would")
    assert "Leave out steps 2, 3 and 4 as well, or change what they use." in several


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
