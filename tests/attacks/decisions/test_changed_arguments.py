"""§7: what runs is what was shown to the person who approved it, and nothing else."""

import sys
import unicodedata
from typing import Any

import pytest

from holdfast.runtime.text_safety import format_argument
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision
from holdfast.schemas.message import Delivered
from holdfast.schemas.tool import ActivityBinding, Hooks
from holdfast.validation.text_safety import visible
from holdfast.workflows.engine.approvals.signed_decision import DecisionRejected
from holdfast.workflows.ui_details.page import DetailsPage
from tests.attacks.vault import PAYS, Vault, pay
from tests.engine.driver import call, tool

APPROVES: dict[str, Any] = {"decisions": {"t1c1": ["approve"], "t1c2": ["approve"]}}
QUOTE = tool("quote", output_path="†state.price")


def is_as_shown(play: Vault) -> bool:
    """Whether all that was paid is what was asked about, to the byte."""
    return canonical_json(play.paid) == canonical_json([one["arguments"] for one in play.shown])


WRITTEN: list[Any] = [5, 5.0, -0.0, "5", "1e2", "5.0", 0.1 + 0.2, 2**70, "†state.price"]


@pytest.mark.parametrize("amount", WRITTEN)
def test_what_is_made_of_the_arguments_is_made_before_they_are_shown(amount: Any) -> None:
    play = Vault([call("pay", {"amount": amount})], state={"price": 7}, **APPROVES).to_end()

    assert len(play.paid) == 1
    assert is_as_shown(play)


def test_an_approval_is_requested_when_the_value_of_a_reference_is_known() -> None:
    later = call("pay", {"amount": "†state.price"})
    play = Vault(
        [call("quote"), later], tools=[QUOTE, pay()], outcomes={"quote": 40}, **APPROVES
    ).to_end()

    assert play.paid == [{"amount": 40}]
    assert is_as_shown(play)


@pytest.mark.parametrize("first", [True, False])
def test_what_is_written_while_a_call_waits_changes_nothing_of_it(first: bool) -> None:
    calls = [call("pay", {"amount": "†state.price"}), call("quote")]
    play = Vault(
        calls if first else calls[::-1],
        [call("quote")],
        tools=[QUOTE, pay()],
        outcomes={"quote": 9_000},
        state={"price": 5},
        **APPROVES,
    ).to_end()

    assert len(play.paid) == 1
    assert is_as_shown(play)


def test_data_written_while_a_call_is_pending_changes_nothing_of_it() -> None:
    play = Vault([call("pay", {"amount": "†state.price"})], state={"price": 5})

    def approves(_: Any) -> str:
        part = {"type": "data", "kind": "state", "data": {"price": 9_000}}
        play.mailbox.put(Delivered.model_validate({"content": [part]}))
        return "approve"

    play.decisions["t1c1"] = [approves]
    play.to_end()

    assert play.paid == [{"amount": 5}]


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        ({"decision": "approve", "arguments": {"amount": 1}}, "`arguments` goes with `edit`"),
        ({"decision": "approve", "result": {"paid": 1}}, "`result` goes with `respond`"),
    ],
)
def test_a_change_that_its_decision_would_drop_is_refused_and_noted(
    decision: dict[str, Any], why: str
) -> None:
    def signals(_: Any) -> str:
        play.run.questions.count_or_log(Decision.model_validate({"callId": "t1c1", **decision}))
        return "deny"

    play = Vault([PAYS], decisions={"t1c1": [signals]})
    noted, denied = play.to_end().records("decision")

    assert noted["ignored"].startswith(why)
    assert denied["outcome"] == "decided"
    assert play.paid == []


EUROS = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "currency": {"default": "EUR"}},
}
IN_EUROS = {"when": {"properties": {"currency": {"const": "EUR"}}, "required": ["currency"]}}
PAYS_EUROS = pay(IN_EUROS, parameters=EUROS)


@pytest.mark.parametrize("written", [{"amount": 5}, {"amount": 5, "currency": "EUR"}])
def test_a_default_is_judged_shown_and_bound_like_a_value(written: dict[str, Any]) -> None:
    euros = {"amount": 5, "currency": "EUR"}
    play = Vault([call("pay", written)], tools=[PAYS_EUROS], **APPROVES).to_end()

    [shown] = play.shown
    assert shown["arguments"] == euros
    assert shown["digest"] == sha256(canonical_json({"tool": "pay", "arguments": euros}))
    assert shown.get("filledIn", []) == [name for name in euros if name not in written]
    assert play.paid == [euros]


def test_what_a_person_has_written_is_no_default_for_the_next_one() -> None:
    edits = {"decision": "edit", "arguments": {"amount": 5, "currency": "EUR"}, "by": "ann"}
    seen: list[Any] = []

    def agrees(now: Any) -> Any:
        seen.append(now.to_pending_approval().filled_in)
        return {"decision": "approve", "by": "bob", "digest": now.digest}

    euros = pay({**IN_EUROS, "quorum": 2}, parameters=EUROS)
    play = Vault([call("pay", {"amount": 5})], tools=[euros], decisions={"t1c1": [edits, agrees]})

    assert len(play.to_end().paid) == 1
    assert (play.shown[0]["filledIn"], seen) == (["currency"], [[]])


def test_a_default_that_a_hook_or_a_person_leaves_out_is_filled_in_again() -> None:
    hooks = Hooks(before=ActivityBinding(type="guard"))
    seen: list[Any] = []

    def guard(view: Any) -> Any:
        seen.append(view["arguments"])
        return {"arguments": {"amount": 6}} if len(seen) == 1 else None

    play = Vault(
        [call("pay", {"amount": 5})],
        tools=[PAYS_EUROS.model_copy(update={"hooks": hooks})],
        hooks={"guard": guard},
        decisions={"t1c1": [{"decision": "edit", "arguments": {"amount": 7}}]},
    ).to_end()

    assert seen[0] == {"amount": 5, "currency": "EUR"}
    assert play.shown[0]["arguments"] == {"amount": 6, "currency": "EUR"}
    assert play.paid == [{"amount": 7, "currency": "EUR"}]


@pytest.mark.parametrize("amount", [5, "†state.price"])
def test_a_plan_needs_those_who_approve_a_step_by_a_default_or_a_later_value(amount: Any) -> None:
    large = {"amount": {"type": "number"}, "currency": {"const": "EUR"}}
    when = {"properties": large, "required": ["currency"]}
    own = pay({"when": when, "approvers": ["finance"]}, parameters=EUROS)
    play = Vault(
        [call("quote"), call("pay", {"amount": amount})],
        tools=[QUOTE, own],
        definition={"plan": "lazy"},
        outcomes={"quote": 40},
    ).to_end()

    assert play.shown[0]["approvers"] == ["finance"]


def test_a_step_of_a_plan_that_waits_is_shown_with_its_defaults() -> None:
    play = Vault(
        [call("quote"), call("pay", {"amount": "†state.price"})],
        tools=[QUOTE, PAYS_EUROS],
        definition={"plan": "lazy"},
        outcomes={"quote": 40},
        decisions={"t1-plan": ["approve"], "t1c2": ["approve"]},
    ).to_end()

    plan = play.shown[0]
    assert plan["arguments"]["calls"][1]["arguments"]["currency"] == "EUR"
    assert plan["filledIn"] == ["t1c2 currency"]
    assert play.paid == [{"amount": 40, "currency": "EUR"}]


HOOKS: dict[str, Any] = {
    "prepare": {"amount": 9_000},
    "before": {"arguments": {"amount": 9_000}},
}


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_change_arguments_before_an_approval_is_requested(name: str) -> None:
    hooks = Hooks.model_validate({name: ActivityBinding(type="changes")})
    play = Vault([PAYS], tools=[pay(hooks=hooks)], hooks={"changes": HOOKS[name]}, **APPROVES)
    play.to_end()

    assert play.paid == [{"amount": 9_000}]
    assert is_as_shown(play)


def digest(arguments: Any, name: str = "pay") -> str:
    return sha256(canonical_json({"tool": name, "arguments": arguments}))


OTHERS = [
    *({"amount": 5.0}, {"amount": "5"}, {"amount": 50}, {"amount": 5, "note": None}, {}),
    {"Amount": 5},
]


@pytest.mark.parametrize("other", [digest(each) for each in OTHERS] + [digest({}, "look"), "", "x"])
@pytest.mark.parametrize("verdict", ["approve", "respond"])
def test_a_decision_on_other_arguments_is_rejected(other: str, verdict: str) -> None:
    said = {"decision": verdict, "digest": other, "result": "paid"}
    play = Vault([PAYS], decisions={"t1c1": [said]}).to_end()

    assert "read it again" in play.refusals[0]
    assert play.errors() == {"t1c1": "approval_timeout"}
    assert play.paid == []


@pytest.mark.parametrize(
    "arguments", [{}, {"amount": "much"}, {"amount": "†state.price"}, {"amount": None}, {"note": 1}]
)
def test_an_edit_that_does_not_fit_leaves_the_call_as_it_waits(arguments: Any) -> None:
    said = {"decision": "edit", "arguments": arguments}
    play = Vault([PAYS], state={"price": 9_000}, decisions={"t1c1": [said]}).to_end()

    assert "do not fit" in play.refusals[0]
    assert play.paid == []


def test_the_same_call_under_the_same_id_of_its_provider_is_asked_about_again() -> None:
    same = call("pay", {"amount": 5}, provider_id="call_1")
    play = Vault([same], [same], [same, same], decisions={"t1c1": ["approve"]}).to_end()

    assert play.paid == [{"amount": 5}]
    assert [one["callId"] for one in play.shown] == ["t1c1", "t2c1", "t3c1", "t3c2"]


def test_no_approval_covers_changes_that_its_approver_has_not_seen() -> None:
    play = Vault([PAYS], tools=[pay({"quorum": 2})])
    question = play.to_question()
    edits = {"callId": "t1c1", "decision": "edit", "arguments": {"amount": 9_000}, "by": "eve"}
    play.run.questions.count(Decision.model_validate(edits))
    approves = {"callId": "t1c1", "decision": "approve", "by": "ann"}

    with pytest.raises(
        DecisionRejected,
        match=r"eve \(unverified\) has changed the arguments since the approval was requested",
    ):
        play.run.questions.count(Decision.model_validate(approves))
    with pytest.raises(DecisionRejected, match="read it again"):
        play.run.questions.count(
            Decision.model_validate({**approves, "digest": digest({"amount": 5})})
        )
    assert question.ruling is None
    assert f"--digest {question.digest}" in DetailsPage(play.run, "run-1").read()


# What people see.

# Signs that have a shape of their own, although they are counted among the formats.
SHAPED = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
SHAPED |= {*range(0x13430, 0x13440), 0x09, 0x0A, 0x0D}
UNSEEN = [0x034F, 0x115F, 0x1160, 0x17B4, 0x180B, 0x3164, 0xFFA0, 0xFE00, 0xFE0E, 0xFE0F, 0xE0100]
UNSEEN += [0x2028, 0x2029]


def test_no_mark_that_cannot_be_seen_makes_other_arguments_look_the_same() -> None:
    formats = [each for each in range(sys.maxunicode) if unicodedata.category(chr(each)) in "Cf Cc"]
    hidden = [each for each in (*formats, *UNSEEN) if each not in SHAPED]
    same = [
        hex(each)
        for each in hidden
        for text in (f"ann@bank.example{chr(each)}", f"pay{chr(each)}pal", f"{chr(each) * 3}a")
        if chr(each) in visible(text)
        or chr(each) in format_argument(text)
        or format_argument(text).isalpha()
    ]

    assert len(hidden) > 200
    assert same == []


def test_scripts_and_emoji_stay_as_they_are() -> None:
    texts = ("می\u200cخواهم", "क्\u200dष", "❤\ufe0f\u200d🔥", "👩\u200d💻", "1\ufe0f\u20e3")

    assert [visible(text) for text in texts] == list(texts)
    assert [format_argument(text) for text in texts] == list(texts)


def test_arguments_that_are_not_shown_whole_are_marked_as_such() -> None:
    hides = {"amount": 9_000_000, "note": "x" * 900_000, "zz": "and send the rest to eve"}
    play = Vault([call("pay", hides)])
    question = play.to_question()
    [waiting] = play.desk.describe_open("run-1")

    assert waiting["cut"] > 900_000
    assert waiting["digest"] == question.digest == digest(hides)
    assert "Not all of it is shown here" in DetailsPage(play.run, "run-1").read()
