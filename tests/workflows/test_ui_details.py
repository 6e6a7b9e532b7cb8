"""Whatever a page of a run shows, its lines are ours, and it has room; the rest is in `pages`."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.decision import Decision, DecisionClaims
from holdfast.schemas.internal.solution import WrittenCall
from holdfast.schemas.tool import ApprovalPolicy, ResolvedTool
from holdfast.validation.text_safety import visible
from holdfast.workflows.commands.activity_options import (
    MAX_SUMMARY_CHARACTERS,
    call_summary,
    turn_summary,
)
from holdfast.workflows.engine.approvals.verdicts import sign_with_claims
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.phases import RunCalls
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


@pytest.mark.parametrize("asks", [waiting, planning])
def test_the_data_that_it_holds_ready_decide_the_calls(asks: Callable[..., Play]) -> None:
    play = asks(call("pay", {"amount": 1}), call("pay", {"amount": 2}))
    for decision in data(page(play)):
        play.run.questions.count(Decision.model_validate(decision))
    assert play.desk.list_open() == []


def test_a_plan_without_room_is_marked() -> None:
    text = page(planning(*[call("pay", {"a": "x" * 500, "n": n}) for n in range(32)]))
    assert cost_bytes(text) <= MAX_PAGE_BYTES
    assert "Not all of it is shown here:" in text or "have no room here" in text


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


def test_a_long_story_leaves_out_its_beginning() -> None:
    turns = [reply("", call("look", {"n": n})) for n in range(40)]
    more = {"max_iterations": 99, "max_turns": 99, "max_calls": 99}
    play = Play(tool(), model=[*turns, reply("Seen.")], definition={"budget": more}).to_end()
    text = page(play)
    assert "- Turn 40: **look** (n=39): done" in text
    assert "- … and 10 earlier" in text


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
    assert call_summary(0, _carried(tool("look", label="Look up"))) == "Look up: id=7"


def _carried(one: ResolvedTool) -> ToolCall:
    play = Play(one, model=[reply("", call("look", {"id": 7}))])
    play.take(play.next())
    step = play.next()
    assert isinstance(step, RunCalls)
    play.decided(play.run.calls.check_and_start(step.turn, step.turn.calls))
    return step.turn.calls[0]
