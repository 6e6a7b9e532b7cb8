"""Forms of an MCP server: each a question of its own, whose answer continues the call."""

from typing import Any

import pytest

from holdfast.runtime.narration.question_view import QuestionView
from holdfast.schemas.internal.mcp_input import McpForm, McpInputRequired
from holdfast.schemas.tool import ApprovalPolicy, McpTool
from holdfast.workflows.engine.call.outcomes import Unknown
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.execution.lifecycle import MAX_FORMS
from holdfast.workflows.ui_details.questions import question_block
from tests.engine.driver import Play, call, reply, tool

SEAT = {
    "type": "object",
    "properties": {
        "seat": {"type": "string", "title": "Seat", "enum": ["aisle", "window"]},
        "bags": {"type": "integer", "description": "How many.", "maximum": 2},
    },
    "required": ["seat"],
    "additionalProperties": False,
}
FORM = McpInputRequired(state="s1", forms={"f": McpForm(message="Which `seat`?", fields=SEAT)})
AISLE = {"decision": "respond", "result": {"seat": "aisle"}}
MCP = McpTool(server="air", tool="book", digest="")


def books(*decisions: Any, ends: Any = (FORM, "booked"), once: bool = True, **more: Any) -> Play:
    """A run with a call of a server's tool that ends so."""
    policy = ApprovalPolicy.model_validate(more.pop("policy", {"require": "never"}))
    book = tool("book", side_effects=True, idempotent=not once, approval=policy, mcp=MCP)
    model, decided = [reply("", call("book")), reply("Done.")], {"t1c1": list(decisions)}
    return Play(book, model=model, outcomes={"book": ends}, decisions=decided, **more)


def asked(play: Play) -> Any:
    """The question on the call, which has returned its first form."""
    return play.desk.list_open()[0]


def questions(play: Play) -> list[dict[str, Any]]:
    return [each["approval"] for each in play.records("confirmation_required")]


@pytest.mark.parametrize("once", [True, False])
def test_the_answer_continues_the_call_with_the_servers_state(*, once: bool) -> None:
    seen: list[Any] = []

    def continued(one: ToolCall) -> str:
        seen.append(one.decided.mcp.continuation)
        return "booked"

    play = books(AISLE, ends=(FORM, continued), once=once).to_end()
    assert play.results() == {"t1c1": "booked"}
    [given] = seen
    assert (given.state, given.forms, given.may_repeat) == ("s1", FORM.digest, not once)
    assert given.responses == {"f": {"action": "accept", "content": {"seat": "aisle"}}}


def test_each_form_is_a_question_of_its_own_with_another_digest() -> None:
    play = books(
        AISLE,
        AISLE,  # it was for the first form: the second has not been seen
        lambda question: {**AISLE, "digest": question.digest},
        ends=(FORM, FORM, "booked"),
    ).to_end()
    first, second = questions(play)
    assert first["digest"] != second["digest"]
    assert (first["kind"], first["form"]["properties"]) == ("input", SEAT["properties"])
    assert len(play.refusals) == 1
    assert "send the `digest` that is shown now" in play.refusals[0]
    assert play.results() == {"t1c1": "booked"}


def test_a_call_has_a_bounded_number_of_forms() -> None:
    again = [lambda question: {**AISLE, "digest": question.digest}] * MAX_FORMS
    play = books(*again, ends=(FORM,) * (MAX_FORMS + 1)).to_end()
    assert len(questions(play)) == MAX_FORMS
    assert play.errors() == {"t1c1": "tool_error"}


def test_a_continued_call_that_got_lost_is_made_from_its_beginning_if_it_did_not_happen() -> None:
    seen: list[Any] = []

    def made(one: ToolCall) -> str:
        seen.append(one.decided.mcp.continuation)
        return "booked"

    lost = Unknown("no reply came")
    play = books(AISLE, {"decision": "did_not_happen"}, ends=(FORM, lost, made)).to_end()
    assert [each["kind"] for each in questions(play)] == ["input", "reconcile"]
    assert seen == [None]


def test_a_person_is_shown_the_servers_words_and_all_fields() -> None:
    play = books()
    open_turn(play)
    play.advance(play.calls[0])
    question = asked(play)
    pending = question.to_pending_approval("run")
    assert pending.find_round() == 1
    assert pending.question == (
        "MCP server `air` requires input to continue `book`: \"Which 'seat'?\"."
        ' `respond` takes the answer as `result`, such as {"seat": "aisle", "bags": 0};'
        " `deny` ends the call."
    )
    assert QuestionView.of(pending).rows == [
        ("answer: seat", "Seat; one of aisle, window"),
        ("answer: bags", "How many.; integer; maximum 2; optional"),
    ]
    page = question_block(question, "run", 3_000)
    assert "MCP server `air`" in page.replace("\\", "")
    assert "`Seat; one of aisle, window`" in page
    assert '--result \'{"seat": "aisle"' in page


def open_turn(play: Play) -> Any:
    """Take the run to its running call."""
    while True:
        step = play.next()
        if (turn := getattr(step, "turn", None)) is not None:
            play.begin(turn)
            return turn
        play.take(step)
