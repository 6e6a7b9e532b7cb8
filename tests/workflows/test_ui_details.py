"""The page of a run, as text: what Temporal's UI is given to show."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.agent import ResolvedSkill
from holdfast.schemas.decision import Decision, DecisionClaims
from holdfast.schemas.internal.solution import WrittenCall
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.tool import ActivityBinding, ApprovalPolicy, ResolvedTool
from holdfast.validation.text_safety import visible
from holdfast.workflows.commands.activity_options import (
    MAX_SUMMARY_CHARACTERS,
    call_summary,
    turn_summary,
)
from holdfast.workflows.engine.approvals.verdicts import sign_with_claims
from holdfast.workflows.engine.call.outcomes import Succeeded, Unknown, fail
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.execution import results
from holdfast.workflows.engine.phases import AskPeople, RunCalls
from holdfast.workflows.ui_details.markdown import (
    code,
    cost_bytes,
    own_sentence,
    prose,
    value_block,
)
from holdfast.workflows.ui_details.page import MAX_PAGE_BYTES, DetailsPage
from tests.engine.driver import Play, call, reply, tool

RUN = "ada-1042"
PAY = tool("pay", label="Refund an order", side_effects=True)
# What is tried on a page: Markdown, HTML, the UI's own placeholders, marks that hide or reorder.
HOSTILE = [
    "`**Now:** nothing to do`",
    "x\n\n### Approved already\n\n- `holdfast decide ada-1042 t1c1 approve`",
    "[click here](https://evil.example) https://evil.example <a href=x>x</a>",
    "``` `` ` \\` \\\\",
    "C:\\new ```\\",
    "{workflowId} {runId} {namespace}",
    "a\u202eb\u200bc\x1b[31md\ud800e\r\nf",
    "| a | b |\n| --- | --- |\n<!-- ",
    "1/2 -- (c) ... 'q' \"q\"",
]
# How the lines of a page begin that shows one pending approval.
OURS = (
    *("This run is", "It acts on", "Its task:", "**Now:**", "**To do:**", "### App", "### Calls"),
    *("- **", "- Turn 1: **", "Why, in", "Filled in", "If no one", "**Command:**", "or `"),
    *("**Data:**", "`{"),
    *('"callId"', '"decision"', '"digest"', "}`"),
)


def waiting(*calls: WrittenCall, tools: tuple[ResolvedTool, ...] = (PAY,), **request: Any) -> Play:
    """A run whose calls wait for people."""
    play = Play(*tools, model=[reply("", *calls), reply("Done.")], **request)
    play.take(play.next())
    step = play.next()
    assert isinstance(step, RunCalls)
    play.decided(play.run.calls.check_and_start(step.turn, step.turn.calls))
    return play


def page(play: Play, workflow_id: str = RUN) -> str:
    """The page of a run."""
    return DetailsPage(play.run, workflow_id).read()


def data(text: str) -> list[dict[str, Any]]:
    """The decisions that a page holds ready to be sent."""
    return [json.loads(found) for found in re.findall(r"^`(\{\n.*?\n\})`$", text, re.S | re.M)]


def test_it_shows_the_run_its_principal_its_progress_and_what_to_do() -> None:
    play = waiting(
        call("pay", {"amount": 249.0}),
        input="Ada wants her money back.",
        principal={"id": "ada"},
        definition={"description": "Puts orders right."},
    )
    introduction, now, *_ = page(play).split("\n\n")
    assert introduction == (
        "This run is the work of an AI agent, **tester**: “Puts orders right.”\n"
        "It acts on behalf of **ada**.\n"
        "Its task: “Ada wants her money back.”"
    )
    assert now.startswith("**Now:** it waits for one decision of a person.")
    assert "**To do:** decide it." in now


def test_it_reports_when_there_is_nothing_to_do() -> None:
    play = Play(model=[reply("It is blue.")])
    play.next()
    assert "**Now:** it is running, in turn 1.\n**To do:** nothing." in page(play)
    play.to_end()
    assert "**Now:** it is done.\n**Its answer:** It is blue." in page(play)
    play = Play(model=[reply("Yes.")], conversation=True)
    play.to_end()
    assert "waits for the next message" in page(play)


def test_it_names_the_skill_of_the_run() -> None:
    skills = [
        ResolvedSkill(name="refunds", tools=[PAY]),
        ResolvedSkill(name="export", activity=ActivityBinding(type="Export")),
    ]
    choose = reply("", call("choose_skill", {"skill": "refunds"}))
    play = Play(model=[choose], definition={"skills": skills})
    play.next()
    assert "skill" not in page(play)
    play.take(play.next())
    play.take(play.next())
    text = page(play)
    assert "Its task: “go”\nIt has the skill **refunds**.\n\n" in text
    assert "- Turn 1: **Choose a skill** (skill=refunds): done" in text

    text = page(Play(definition={"skills": skills}, skill="export"))
    assert "It has the skill **export**: it runs an activity, without any AI." in text
    assert "**Now:** it is running.\n" in text


def test_a_failed_run_shows_the_reason() -> None:
    play = Play()
    play.next()
    play.run.fail("model_error", "no such `model`")
    assert r"has ended without a result (`model_error`): no such \`model\`" in page(play)


def test_a_pending_approval_is_shown_with_its_arguments_and_its_command() -> None:
    text = page(
        waiting(call("pay", {"order": 1042, "amount": "249", "_reasoningForCall": "It is broken."}))
    )
    assert "### Approval needed: Refund an order (`t1c1`)" in text
    assert '- **order**: `1042`\n- **amount**: `"249"`' in text
    assert "Why, in the model's words: `It is broken.`" in text
    assert "If no one decides by 2026-03-08 12:00 UTC, it is denied." in text
    assert "`holdfast decide ada-1042 t1c1 approve`" in text
    assert "`holdfast decide ada-1042 t1c1 deny --reason 'YOUR REASON'`" in text


def test_a_default_is_named_as_one() -> None:
    parameters = {"type": "object", "properties": {"currency": {"default": "EUR"}}}
    text = page(waiting(call("pay"), tools=(PAY.model_copy(update={"parameters": parameters}),)))

    assert "- **currency**: `EUR`" in text
    assert r"Filled in by a default or a hook\: currency" in text


def test_a_pending_approval_names_its_instance() -> None:
    order = {"type": "data", "kind": "order", "data": 1, "_instance": "ada"}
    play = waiting(call("pay", {"_instance": "ada"}), context=[{"content": [order]}])
    assert "### Approval needed: Refund an order for `ada` (`t1c1`)" in page(play)


def test_the_data_that_it_holds_ready_decide_the_call() -> None:
    play = waiting(call("pay", {"amount": 1}), call("pay", {"amount": 2}))
    for decision in data(page(play)):
        play.run.questions.count(Decision.model_validate(decision))
    assert play.desk.list_open() == []


def test_it_names_the_approvers_and_their_progress() -> None:
    policy = ApprovalPolicy(approvers=["finance"], quorum=2, on_timeout="fail")
    play = waiting(call("pay"), tools=(PAY.model_copy(update={"approval": policy}),))
    decision = {"callId": "t1c1", "decision": "approve", "by": "grace", "groups": ["finance"]}
    play.run.questions.count(Decision.model_validate(decision))
    text = page(play)
    terms = "Only these groups decide: finance.\n2 people must agree."
    assert f"{terms}\nDecided: approved by grace (unverified)." in text
    assert "the run fails." in text
    assert "t1c1 approve --groups 'YOUR GROUP'`" in text
    (ready,) = data(text)
    assert (ready["by"], ready["groups"]) == ("YOUR NAME", ["YOUR GROUP"])


def test_it_shows_that_only_signed_decisions_count_and_who_has_signed() -> None:
    policy = ApprovalPolicy(quorum=2, signed=True)
    play = waiting(call("pay"), tools=(PAY.model_copy(update={"approval": policy}),))
    (ready,) = data(page(play))
    assert ready["token"] == "YOUR TOKEN"
    decision = Decision.model_validate(ready)
    claims = DecisionClaims(
        sub="grace", digest=ready["digest"], workflow_id="ada-1042", exp=0, decision="approve"
    )
    play.run.questions.count(sign_with_claims(decision, claims, "ada-1042"))
    text = page(play)
    assert "Only signed decisions are accepted: with a `token` of the approver." in text
    assert "Decided: approved by grace (signed)." in text
    assert "t1c1 approve --key FILE`" in text


def test_changed_arguments_are_marked_as_changed() -> None:
    policy = ApprovalPolicy(quorum=2)
    play = waiting(call("pay", {"amount": 1}), tools=(PAY.model_copy(update={"approval": policy}),))
    decision = {"callId": "t1c1", "decision": "edit", "arguments": {"amount": 9}, "by": "grace"}
    play.run.questions.count(Decision.model_validate(decision))
    text = page(play)
    assert "- **amount**: `9`" in text
    assert "Changed by grace (unverified)." in text


def test_an_unknown_outcome_is_asked_about_in_its_own_words() -> None:
    play = waiting(call("pay"))
    decision = {"callId": "t1c1", "decision": "approve"}
    play.run.questions.count(Decision.model_validate(decision))
    step = play.next()
    assert isinstance(step, RunCalls)
    (one,) = step.turn.calls
    play.run.calls.apply_ruling(1, one)
    play.run.calls.apply_outcome(1, one, Unknown("The outcome of `pay` is unknown."))
    text = page(play)
    assert "### Attempt 1, outcome unknown: Refund an order (`t1c1`)" in text
    assert "The outcome of `pay` is unknown." in text
    assert "t1c1 did_not_happen`" in text
    assert data(text)[0]["decision"] == "happened"
    assert "Refund an order**: it is unknown whether it happened" in text


def test_a_budget_is_asked_about_in_its_own_words() -> None:
    play = Play(
        tool(),
        model=[reply("", call("look"))],
        definition={"budget": {"max_turns": 1}, "on_limit": {"maxTurns": "ask"}},
    )
    for _ in range(2):
        play.take(play.next())
    assert isinstance(play.next(), AskPeople)
    text = page(play)
    assert "### Budget limit reached: budget maxTurns (`t1-maxTurns`)" in text
    assert "- **maxTurns**: `1`" in text
    assert "`holdfast decide ada-1042 t1-maxTurns approve`" in text


def test_a_budget_at_its_threshold_is_named() -> None:
    definition = {"budget": {"max_turns": 4}, "on_threshold": {"maxTurns": 0.2}}
    play = Play(tool(), model=[reply("", call("look"))], definition=definition)
    for _ in range(2):
        play.take(play.next())
    assert "\nBudgets at their threshold: `maxTurns`.\n" in page(play)


def test_an_answer_that_would_be_no_text_of_ours_has_a_placeholder() -> None:
    for name in (*HOSTILE, "x" * 400):
        output = {"type": "object", "properties": {"answer": {"const": name}}}
        escalate = ResolvedTool(name="escalate", parameters={}, output=output, person=True)
        text = page(waiting(call("escalate"), tools=(escalate,)))
        [decision] = data(text)
        has_mark = "`" in name or "{w" in name or len(name) > 300
        assert decision["result"] == ("YOUR ANSWER" if has_mark else {"answer": name})
        assert "holdfast decide ada-1042 t1c1 deny --reason 'YOUR REASON'`" in text
        assert "such as" not in text, "an example that could be cut"


def planning(*calls: WrittenCall, tools: tuple[ResolvedTool, ...] = (PAY,), **request: Any) -> Play:
    """A run whose plan waits for people."""
    definition = {"plan": "lazy", **request.pop("definition", {})}
    play = Play(*tools, model=[reply("", *calls)], definition=definition, **request)
    play.take(play.next())
    step = play.next()
    assert isinstance(step, RunCalls)
    play.decided(play.run.planning.check(step.turn))
    play.run.planning.ask(step.turn)
    return play


def test_a_plan_is_shown_call_by_call_with_the_commands_that_decide_it() -> None:
    quote = tool("quote", output_path="†state.price")
    why = {"_reasoningForCall": "They asked."}
    calls = [call("quote", {"item": "7"}), call("pay", {"amount": "†state.price", **why})]
    play = planning(*calls, tools=(quote, PAY))
    text = page(play)
    assert "### Approval of a plan needed: plan of 2 calls (`t1-plan`)" in text
    assert (
        'An `edit`, for example: `{"calls": [{"id": "t1c1"}, {"id": "t1c2", "arguments": {…}}]}`'
        " (t1c1 stays as it is, t1c2 has other arguments)." in text
    )
    assert '1. **quote** (`t1c1`):\n   - **item**: `"7"`\n   - → writes `†state.price`\n' in text
    assert (
        "2. **Refund an order** (`t1c2`), after `t1c1`:\n"
        "   - **amount**: `†state.price`\n   - because: `They asked.`\n" in text
    )
    assert "`holdfast decide ada-1042 t1-plan approve --strike CALL`" in text
    assert "it is denied." in text
    (ready,) = data(text)
    play.run.questions.count(Decision.model_validate(ready))
    assert play.desk.list_open() == []


def test_a_call_of_a_plan_is_shown_as_a_run_of_another_agent() -> None:
    ask = ResolvedTool(name="ask", label="Ask", parameters={"type": "object"}, delegate="helper")
    text = page(planning(call("ask", {}), call("pay", {}), tools=(ask, PAY)))
    assert "1. **Ask** (`t1c1`), by agent `helper`, in a run of its own\n2. **Refund" in text


def test_a_plan_is_shown_before_the_calls_that_it_decides() -> None:
    play = planning(call("pay", {"amount": 1}), call("pay", {"amount": 2}))
    told = [line for line in page(play).split("\n") if line.startswith("- Turn")]
    assert [line.split("**")[1] for line in told] == ["plan of 2 calls", *["Refund an order"] * 2]
    assert not any(line.rstrip().endswith(":") for line in told), "nothing became of them yet"


def test_a_plan_without_room_is_marked() -> None:
    text = page(planning(*[call("pay", {"a": "x" * 500, "n": n}) for n in range(32)]))
    assert cost_bytes(text) <= MAX_PAGE_BYTES
    assert "Not all of it is shown here:" in text or "have no room here" in text


def test_the_outcome_of_each_call_is_shown() -> None:
    look = tool("look", label="Look up")
    mail = tool("mail", side_effects=True)
    play = Play(
        *(look, PAY, mail),
        model=[
            reply("", call("look", {"id": 7}), *[call("pay"), call("mail")] * 2),
            reply("Done."),
        ],
        outcomes={"look": "seen"},
        decisions={
            "t1c2": [{"decision": "edit", "arguments": {"amount": 9}, "by": "grace"}],
            "t1c3": [{"decision": "deny", "reason": "Not today.", "by": "hal"}],
            "t1c4": [{"decision": "respond", "result": "paid"}],
            "t1c5": ["expire"],
        },
    )
    assert page(play.to_end()).partition("### Calls\n\n")[2].split("\n") == [
        "- Turn 1: **Look up** (id=7): done",
        "- Turn 1: **Refund an order** (amount=9): approved with changes by grace (unverified),"
        " done",
        r"- Turn 1: **mail**: denied by hal (unverified)\: Not today.",
        "- Turn 1: **Refund an order**: answered by a person",
        "- Turn 1: **mail**: expired",
    ]


@pytest.mark.parametrize("size", [1, 20])
@pytest.mark.parametrize(
    "text", ["x" * 200_000, "訳" * 200_000, "`\n" * 50_000, '{"a": 1}' * 9_000]
)
def test_it_fits_into_an_address_whatever_a_model_writes(size: int, text: str) -> None:
    wide = {"body": text, "_reasoningForCall": text, **{f"{text[:9]}{n}": n for n in range(40)}}
    play = waiting(*[call("pay", wide)] * size, input=text, definition={"description": text})
    found = page(play, "r" * 200)
    assert cost_bytes(found) <= MAX_PAGE_BYTES
    assert "(`t1c1`)" in found
    assert "t1c1 approve`" in found
    assert "more characters are not shown here" in found
    assert "**Not all of it is shown here:**" in found
    if size > 1:
        assert "have no room here. Run the query `approvals`" in found


def test_a_call_behind_others_is_shown_as_waiting_and_later_with_its_arguments() -> None:
    tools = (
        tool("look", label="Look up", output_path="†state.found"),
        tool("check", label="Check", output_path="†state.checked"),
        tool("tell"),
    )
    calls = [
        call("look"),
        call("tell", {"of": "†state.found"}),
        call("tell", {"of": "†state.checked"}),
        call("check"),
    ]
    told = [line for line in page(waiting(*calls, tools=tools)).split("\n") if "Turn" in line]
    assert told == [
        "- Turn 1: **Look up**: running",
        "- Turn 1: **tell** (of=†state.found): waiting for Look up",
        "- Turn 1: **tell** (of=†state.checked): waiting for other calls of its turn",
        "- Turn 1: **Check**: running",
    ]
    model = [reply("", *calls), reply("Done.")]
    play = Play(*tools, model=model, outcomes={"look": 12, "check": 13}).to_end()
    told = [line for line in page(play).split("\n") if "**tell**" in line]
    assert told == ["- Turn 1: **tell** (of=12): done", "- Turn 1: **tell** (of=13): done"]


def test_an_ended_call_is_shown_as_ended_before_its_turn_is_over() -> None:
    tools = (
        tool("look", label="Look up", output_path="†state.found"),
        tool("check", label="Check"),
        tool("tell"),
        PAY,
    )
    calls = [call("look"), call("check"), call("tell", {"of": "†state.found"}), call("pay")]
    play = waiting(*calls, tools=tools)
    turn = play.run.phases.turn
    assert turn is not None
    details = DetailsPage(play.run, RUN)
    assert "**Check**: running" in details.read()
    look, check, tell, _ = turn.calls
    play.run.calls.apply_outcome(1, look, fail(ErrorCode.TOOL_ERROR, "There is none."))
    play.run.calls.apply_outcome(1, check, Succeeded(7, None, False))
    play.decided(results.publish_result(look, play.run.state))
    play.decided(play.run.calls.resume(1, tell))
    assert [call["stage"] for call in turn.describe_calls()] == [
        "ended",
        "ended",
        "ended",
        "waiting",
    ]
    told = [line for line in details.read().split("\n") if "Turn" in line]
    assert told == [
        "- Turn 1: **Look up**: failed",
        "- Turn 1: **Check**: done",
        "- Turn 1: **tell** (of=†state.found): not run",
        "- Turn 1: **Refund an order**: waiting for a decision",
    ]
    results.close(1, [look], play.run.state)
    assert r"**Look up**: failed\: There is none." in details.read()
    play.run.cancel()
    assert play.run.phases.turn is None


def test_a_long_story_leaves_out_its_beginning() -> None:
    turns = [reply("", call("look", {"n": n})) for n in range(40)]
    more = {"max_iterations": 99, "max_turns": 99, "max_calls": 99}
    play = Play(tool(), model=[*turns, reply("Seen.")], definition={"budget": more}).to_end()
    text = page(play)
    assert "- Turn 40: **look** (n=39): done" in text
    assert "- … and 10 earlier" in text


def test_a_story_read_as_it_grows_is_the_one_read_at_its_end() -> None:
    play = waiting(call("pay"))
    details = DetailsPage(play.run, RUN)
    assert "waits" in details.read()
    play.run.questions.count(
        Decision.model_validate({"callId": "t1c1", "decision": "deny", "reason": "no"})
    )
    assert "denied" in details.read()
    step = play.next()
    assert isinstance(step, RunCalls)
    play.run.calls.apply_ruling(1, step.turn.calls[0])
    results.close(1, step.turn.calls, play.run.state)
    play.run.closed(step)
    play.to_end()
    assert details.read() == page(play)


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_is_written_every_line_of_the_page_is_ours(text: str) -> None:
    pay = PAY.model_copy(update={"label": text})
    wanted = call("pay", {"a": text, text: 1, "_reasoningForCall": text})
    unbroken = text.replace("\ud800", "")
    play = waiting(
        wanted,
        tools=(pay,),
        input=unbroken,
        principal={"id": unbroken},
        definition={"description": unbroken},
    )
    found = page(play, unbroken)
    assert [line for line in found.split("\n") if line and not line.startswith(OURS)] == []
    outside = re.sub(r"(?<!\\)(`+)(?!`).+?(?<!`)\1(?!`)", "", found, flags=re.S)
    assert not re.search(r"(?<!\\)(?:[\[{]|<(?!br>│ |wbr>))|https?:", outside)
    assert not found.encode().translate(None, bytes(range(9, 256)))


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_is_written_in_a_plan_every_line_of_it_is_ours(text: str) -> None:
    pay = PAY.model_copy(update={"label": text, "output_path": "†state.x"})
    wanted = call("pay", {"a": text, text: 1, "_reasoningForCall": text})
    found = page(planning(wanted, wanted, tools=(pay,)))
    ours = (
        *OURS,
        "An `edit`, for example: `{",
        "1. **",
        "2. **",
        "   - **",
        "   - → writes `",
        "   - because: `",
    )
    assert [line for line in found.split("\n") if line and not line.startswith(ours)] == []
    outside = re.sub(r"(?<!\\)(`+)(?!`).+?(?<!`)\1(?!`)", "", found, flags=re.S)
    assert not re.search(r"(?<!\\)(?:[\[{]|<(?!br>│ |wbr>))|https?:", outside)


@given(st.text(max_size=200), st.integers(200, 2_000))
def test_a_value_is_shown_as_it_is_in_code_that_nothing_in_it_ends(text: str, room: int) -> None:
    said, whole = value_block(text, room)
    spans = re.findall(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", said.replace("`<wbr>`", ""))
    assert cost_bytes(said) <= 4 * room
    if whole and text.strip() and "`" not in text:
        inside = [inner for _, inner in spans]
        lines = [line for line in visible(text).rstrip("\n").split("\n") if line.strip()]
        assert inside == lines or inside == [visible(json.dumps(text, ensure_ascii=False))]


@given(st.text(max_size=200))
def test_prose_is_one_line_in_which_every_mark_is_only_a_character(text: str) -> None:
    said = prose(text, 300)
    assert "\n" not in said
    assert not re.search(r"[`*_{}\[\]<>#|~^$&:!+]", re.sub(r"\\.|&#92;", "", said))


def test_a_word_in_more_than_one_backtick_is_no_word_of_ours() -> None:
    assert own_sentence("`a` ``a``", 100) == r"`a` \`\`a\`\`"


@given(st.text(st.sampled_from("`ab\\{<*\n"), max_size=60), st.integers(20, 300))
def test_of_a_sentence_only_single_words_in_backticks_are_code(text: str, room: int) -> None:
    said = own_sentence(text, room)
    assert cost_bytes(said) <= room + cost_bytes("…")
    rest = re.sub(r"(?<!`)`[a-z_]+`(?!`)", "", re.sub(r"\\.|&#92;", "", said))
    assert not re.search(r"[`*{<\n]", rest)


@given(st.text(st.sampled_from("`a\\{}<"), max_size=30))
def test_no_number_of_backticks_ends_code(text: str) -> None:
    fences = re.findall(r"`+", code(text))
    if text:
        assert fences[0] == fences[-1] or text.startswith("`") or text.endswith("`")
        assert fences[0] not in re.findall(r"`+", text)


def test_a_summary_names_the_turn_what_is_done_and_who_decided_so() -> None:
    play = waiting(call("pay", {"order": 1042, "note": "x" * 500}))
    step = play.next()
    assert isinstance(step, RunCalls)
    (one,) = step.turn.calls
    approve = Decision(call_id="t1c1", decision="approve", by="grace")
    play.run.questions.count(approve)
    question = play.run.questions.of(one)
    play.run.calls.apply_ruling(1, one)
    said = call_summary(3, one)
    assert said.startswith(
        "Turn 3: Refund an order, approved by grace (unverified): order=1042, note=xxx"
    )
    asked = turn_summary(3, "decision needed", question.brief)
    assert asked.startswith("Turn 3: decision needed: order=1042, note=xxx")
    assert {len(said), len(asked)} == {MAX_SUMMARY_CHARACTERS}


def test_a_summary_does_not_repeat_the_timeline() -> None:
    assert call_summary(1, _carried(tool("look"))) == "Turn 1: id=7"
    assert call_summary(1, _carried(tool("look", label="Look up"))) == "Turn 1: Look up: id=7"


def test_a_policy_s_own_time_is_the_one_that_is_shown() -> None:
    policy = ApprovalPolicy(timeout=timedelta(hours=2), on_timeout="approve")
    play = waiting(call("pay"), tools=(PAY.model_copy(update={"approval": policy}),))
    assert "If no one decides by 2026-03-01 14:00 UTC, it runs without an approval." in page(play)


def _carried(one: ResolvedTool) -> ToolCall:
    play = Play(one, model=[reply("", call("look", {"id": 7}))])
    play.take(play.next())
    step = play.next()
    assert isinstance(step, RunCalls)
    play.decided(play.run.calls.check_and_start(step.turn, step.turn.calls))
    return step.turn.calls[0]
