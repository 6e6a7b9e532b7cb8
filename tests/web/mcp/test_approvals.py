"""Approvals in MCP clients: a person at a trusted client decides, and no model does."""

from typing import Any

import pytest
from mcp import MCPError
from mcp_types import ElicitRequestFormParams, ElicitResult, InputRequiredResult

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.schemas.decision import PendingApproval, digest_of
from holdfast.web.auth.sessions import Person
from holdfast.web.mcp.callers import Caller
from holdfast.web.mcp.run_results import ApprovalForms, RunResults
from holdfast.web.services import Services
from tests.support import tools
from tests.support.backend import Backend
from tests.web.mcp.conftest import INBOX, Open, run_id, run_of, text

ANN = Caller(approver=Person("ann"))
BOB = Caller(approver=Person("bob"))
APPROVE: Any = ElicitResult(action="accept", content={"decision": "approve"})


class Screen:
    """What a client shows to its user, who gives this answer to each form."""

    def __init__(self, **content: Any) -> None:
        self.forms: list[ElicitRequestFormParams] = []
        self._content = content

    async def __call__(self, ctx: Any, params: Any) -> ElicitResult:
        self.forms.append(params)
        action: Any = "accept" if self._content else "cancel"
        return ElicitResult(action=action, content=self._content or None)


async def ask(mcp: Any, name: str = "pay", **more: Any) -> Any:
    """Call a tool as a client does that handles forms itself."""
    arguments = more.pop("arguments", {"amount": 3})
    return await mcp.session.call_tool(name, arguments, allow_input_required=True, **more)


async def test_a_person_at_a_trusted_client_approves_and_denies(
    open_client: Open, desk: Backend
) -> None:
    yes, no = Screen(decision="approve"), Screen(decision="deny", reason="too much")
    async with (
        open_client(ANN, elicitation_callback=yes) as mcp,
        open_client(ANN, elicitation_callback=no) as strict,
    ):
        paid = await mcp.call_tool("teller", {"sum": 5})
        refused = await strict.call_tool("pay", {"amount": 5})
    assert paid.structured_content == {"paid": 5}
    assert text(paid).startswith("t1c1: approved, by ann.")
    [form] = yes.forms
    link = f"{INBOX}/waiting/{run_id(paid)}/t1c1"
    shown = f"Approval needed: Pay (t1c1)\namount: 5\nRun {run_id(paid)}: {link}"
    assert form.message == shown
    assert refused.is_error
    assert "denied: too much" in text(refused)
    events = await run_of(desk, paid).context()
    [decided] = [each["decided"] for each in events if each["type"] == "decision"]
    assert (decided["by"], decided["decision"]) == ("ann", "approve")
    assert tools.read().count(f"pay 5 {run_id(paid)}/t1c1") == 1


async def test_a_person_answers_a_call_that_only_people_answer(open_client: Open) -> None:
    screen = Screen(size="m", count=2)
    async with open_client(ANN, elicitation_callback=screen) as mcp:
        result = await mcp.call_tool("choose", {})
    assert result.structured_content == {"size": "m", "count": 2}
    size = screen.forms[0].requested_schema["properties"]["size"]
    assert size == {"type": "string", "enum": ["s", "m"]}


async def test_a_form_of_an_mcp_server_is_shown_as_it_is(desk: Backend) -> None:
    """Several of them at once are not, nor what is no form, or requires a secret."""
    fields = {"size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}]}}
    form = {"type": "object", "properties": fields, "description": "Which?"}
    keyed = {"type": "object", "properties": {"a": form, "b": form}}
    forms = ApprovalForms(Services(HoldfastClient(desk.client)), RunResults(INBOX))
    run = HoldfastClient(desk.client).run("run-1")
    found = []
    secret = {"type": "object", "properties": {"password": {"type": "string"}}}
    free = {"type": "object", "properties": {"x": {"type": "string", "format": "uuid"}}}
    for schema in (form, keyed, {"type": ["object", "null"]}, secret, free):
        asked = {"callId": "t1c1", "kind": "input", "tool": "t", "label": "T", "arguments": {}}
        asked |= {"digest": digest_of("t", {}, "input", 1, schema), "form": schema}
        asked |= {"requestedAt": "2026-01-01T00:00:00Z", "expiresAt": "2026-01-02T00:00:00Z"}
        found.append(await forms.requests(run, [PendingApproval.read(asked)]))
    [shown] = found[0].values()
    assert isinstance(shown.params, ElicitRequestFormParams)
    assert shown.params.requested_schema["properties"] == fields
    assert found[1:] == [{}, {}, {}, {}]


async def test_a_form_that_is_closed_decides_nothing(open_client: Open) -> None:
    async with open_client(ANN, elicitation_callback=Screen()) as mcp:
        closed = await mcp.call_tool("pay", {"amount": 3})
        empty = await ask(mcp, "wait_run", arguments={"run": run_id(closed)})
    assert f"{INBOX}/waiting/{run_id(closed)}/t1c1" in text(closed)
    assert isinstance(empty, InputRequiredResult), "it is shown again to who asks for it"


async def test_a_form_that_is_closed_late_shows_the_result(
    open_client: Open, desk: Backend
) -> None:
    async with open_client(ANN, elicitation_callback=Screen()) as mcp:
        asked = await ask(mcp)
        await run_of(desk, asked).decide("t1c1", "approve")
        await run_of(desk, asked).result()
        closed = dict.fromkeys(asked.input_requests, ElicitResult(action="cancel"))
        late = await ask(mcp, input_responses=closed, request_state=asked.request_state)
    assert late.structured_content == {"paid": 3}
    assert "has not finished" not in text(late)


@pytest.mark.parametrize(
    ("caller", "options"),
    [
        (Caller(), {"elicitation_callback": Screen(decision="approve")}),
        (ANN, {}),
        (ANN, {"elicitation_callback": Screen(decision="approve"), "mode": "legacy"}),
    ],
    ids=["not trusted", "without forms", "of an older revision"],
)
async def test_any_other_client_gets_the_link(
    open_client: Open, caller: Caller, options: dict[str, Any]
) -> None:
    async with open_client(caller, **options) as mcp:
        result = await mcp.call_tool("pay", {"amount": 3})
    assert f"{INBOX}/waiting/{run_id(result)}/t1c1" in text(result)
    assert f"pay 3 {run_id(result)}/t1c1" not in tools.read()


async def test_what_is_too_large_to_show_is_a_link(open_client: Open) -> None:
    async with open_client(ANN, elicitation_callback=Screen(decision="approve")) as mcp:
        result = await mcp.call_tool("held_payment", {"name": "x" * 2_001})
    assert f"{INBOX}/waiting/{run_id(result)}/t1c1" in text(result)


async def test_an_answer_counts_once_whichever_process_takes_it(
    open_client: Open, desk: Backend
) -> None:
    """Also where the process that asked has ended."""
    async with open_client(ANN, elicitation_callback=Screen()) as mcp:
        asked = await ask(mcp)
    assert isinstance(asked, InputRequiredResult)
    assert asked.input_requests is not None
    answer: Any = {"input_responses": dict.fromkeys(asked.input_requests, APPROVE)}
    answer["request_state"] = asked.request_state
    async with open_client(ANN, elicitation_callback=Screen()) as other:
        first, again = await ask(other, **answer), await ask(other, **answer)
    assert first.structured_content == again.structured_content == {"paid": 3}
    assert text(again).startswith("t1c1 is not pending any more: this answer changed nothing.")
    assert tools.read().count(f"pay 3 {run_id(asked)}/t1c1") == 1


async def test_a_model_never_approves(open_client: Open, desk: Backend) -> None:
    """By arguments, by answers of its own, by a state of another call or for another person."""
    async with open_client(ANN, elicitation_callback=Screen()) as mcp:
        asked, other = await ask(mcp), await ask(mcp, arguments={"amount": 4})
    assert asked.input_requests is not None
    answers = dict.fromkeys(asked.input_requests, APPROVE)
    state = asked.request_state
    async with open_client() as model, open_client(BOB, elicitation_callback=Screen()) as bob:
        for sent in (
            {"arguments": {"amount": 3, "decision": "approve", "by": "ann", "_approval": "never"}},
            {"input_responses": answers},
        ):
            result = await ask(model, **sent)
            assert result.is_error or result.structured_content["status"] == "awaiting_approval"
        for mcp in (model, bob):
            result = await ask(mcp, input_responses=answers, request_state=state)
            assert text(result).startswith("the form was for another person;")
        for forged in (other.request_state, f"{state}A", "{}"):
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await ask(bob, input_responses=answers, request_state=forged)
        names = [each.name for each in (await model.list_tools()).tools]
    assert not [each for each in names if "decide" in each or "approve" in each]
    [pending] = await run_of(desk, asked).waiting()
    assert pending["decisions"] == []
    assert not [each for each in tools.read() if run_id(asked) in each]


async def test_a_run_rejects_who_may_not_approve(open_client: Open, desk: Backend) -> None:
    async with open_client(ANN, elicitation_callback=Screen(decision="approve")) as mcp:
        result = await mcp.call_tool("spend", {"amount": 3})
    assert result.is_error
    assert "finance" in text(result)
