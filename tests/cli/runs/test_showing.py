"""A whole run as a person reads it."""

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from temporalio.client import Client

from holdfast.cli import show_commands
from holdfast.cli.prompts.question_loop import ApprovalPrompts
from holdfast.cli.screens.plain import Activity, PlainScreen
from holdfast.client import question_text, remote_run
from holdfast.client.run import PendingCall
from holdfast.client.run import Run as ClientRun
from holdfast.schemas.log_entry import ToolStartEntry, TurnStartEntry
from holdfast.schemas.run import DelegatePending, ReportedCall
from tests.cli.conftest import Holdfast, Start
from tests.support.backend import Launch, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call


def test_the_text_of_a_composed_answer_is_shown_and_not_its_json() -> None:
    out = io.StringIO()
    message = {"role": "assistant", "content": '{"calls": []}', "said": "I look and pay."}

    PlainScreen(out, "run-1").show_entry({"type": "message", "n": 1, "message": message})

    assert "I look and pay." in out.getvalue()
    assert "calls" not in out.getvalue()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that other tests have left have no worker: they are not waited for as long."""
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 2)


PAYS = [Answer("I pay.", [call("pay", amount=5)]), Answer("Paid.")]


@pytest.mark.parametrize(
    ("kind", "label", "named"),
    [
        ("call", "Pay", "Pay"),
        ("call", "Pay: denied", '"Pay: denied"'),
        ("reconcile", "Pay", "Did it happen? Pay"),
        ("input", "Pay", "Answer needed: Pay"),
        ("budget", "Pay", "The run has reached its limit of"),
        ("principal_expired", "Pay", "New token needed: Pay"),
    ],
)
async def test_the_list_names_what_needs_more_than_a_yes(
    kind: str,
    label: str,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = {"requestedAt": "2026-01-02T03:04:05Z", "expiresAt": "2026-01-09T03:04:05Z"}
    said = {"callId": "t1c1", "kind": kind, "tool": "pay", "label": label, "arguments": {}}
    call = PendingCall.of({**said, **at, "digest": "d"}, "order-7", AsyncMock())

    async def approvals() -> AsyncIterator[PendingCall]:
        yield call

    absences = Mock(read=AsyncMock(return_value=[]))
    client = Mock(approvals=approvals, absences=absences)
    monkeypatch.setattr(show_commands, "connect", AsyncMock(return_value=client))
    assert await show_commands.approvals(json=False) == 0
    [_, row, *_] = capsys.readouterr().out.splitlines()
    assert row.partition("  order-7  t1c1")[0].rstrip() == named


async def test_a_terminated_run_has_no_pending_approvals(launch: Launch) -> None:
    backend = await launch(PAYS)
    run = await backend.start(["pay"])
    await run.waiting()
    await run.handle.terminate()

    assert await ClientRun(backend.client, run.id).approvals() == []


async def test_a_namespace_without_search_attributes_is_asked_run_by_run(
    client: Client, launch: Launch, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await launch(PAYS)
    run = await backend.start(["pay"])
    await run.waiting()
    monkeypatch.setattr("holdfast.schemas.names.AGENT_STATUS", "NobodyKnowsThis")

    async def shown() -> bool:
        return run.id in (await holdfast("approvals", "--json")).out

    assert await eventually(shown)
    refused = await holdfast("list", "--status", "awaiting_approval")
    assert refused.code == 2
    assert "temporal operator search-attribute create --name" in refused.err


ASK: dict[str, Any] = {
    "_tool": "ask",
    "description": "Have the helper do it.",
    "properties": {"task": {"type": "string"}},
    "_delegate": "helper",
}
SAID = {
    "Test": [Answer(calls=[call("ask", task="pay twice")]), Answer("Thanks.")],
    "helper": [
        Answer(calls=[call("pay", amount=5)]),
        Answer(calls=[call("pay", amount=6)]),
        Answer("Paid twice."),
    ],
}
THERE = DelegatePending(
    workflow_id="k3.t1c2", call_id="t1c1", kind="plan", tool="send\x1b[2J", label="Send\x1b[2J it"
)


def answers(turn: int, body: dict[str, Any]) -> Answer:
    system = body["messages"][0]["content"]
    return next(said for name, said in SAID.items() if system.startswith(name))[turn - 1]


@pytest.fixture
async def parent(launch: Launch, tmp_path: Path) -> Run:
    """A run whose delegate asks for leave to pay, twice; it waits with the first."""
    helper = {
        "model": {"endpoint": "fake", "name": "fake"},
        "instructions": "helper",
        "tools": ["pay"],
    }
    (tmp_path / "catalog/agents").mkdir(parents=True)
    (tmp_path / "catalog/agents/helper.json").write_text(json.dumps(helper))
    backend = await launch(answers, catalog=tmp_path / "catalog")
    run = await backend.start([ASK])
    await eventually(lambda: _waits(run))
    return run


async def _waits(run: Run) -> bool:
    return any(delegate["pending"] for delegate in (await run.status())["delegates"])


async def test_the_watch_of_a_parent_shows_each_pending_approval_once(
    parent: Run, start: Start
) -> None:
    delegate = parent.delegate("t1c1")
    plain, terminal = start("watch", parent.id), start("watch", parent.id, terminal=True)
    seen = {}
    for number in (1, 2):
        how = f"in {delegate.id}: Pay: holdfast decide {delegate.id} t{number}c1 approve|deny"
        seen[number] = await plain.until(how)
        await terminal.until(f"t{number}c1 approve|deny|edit|respond")
        await terminal.until("waiting for a person's decision in a delegate")
        await delegate.decide(f"t{number}c1", "approve")

    assert "started" in seen[1].partition(" waiting ")[0]
    assert "waiting    in" in seen[2]
    assert [await plain.ended(), await terminal.ended()] == [0, 0]
    assert " waiting " not in plain.seen
    assert "waiting" not in seen[2].replace("waiting    in", "", 1)


def test_a_live_run_shows_the_pending_approvals_of_its_delegates_while_they_wait() -> None:
    activity = Activity()
    activity.add_entry(ToolStartEntry(turn=1, call_id="t1c2", tool="ask"))
    activity.waits_elsewhere = True
    assert activity.text() == "waiting for a person's decision in a delegate"
    activity.waits_elsewhere = False
    assert activity.text() == "running ask (t1c2)"


def test_a_live_run_names_no_decision_that_was_made_while_no_worker_reports_the_next_step() -> None:
    activity = Activity()
    activity.add_entry(TurnStartEntry(turn=3))
    activity.waits = True
    activity.show_calls([ReportedCall(call_id="t3c2", tool="pay", stage="waiting")])
    assert activity.text() == "waiting for a person's decision"
    activity.show_decision("t3c2")
    assert activity.text() == "turn 3"


async def test_a_continued_wait_is_not_shown_again_and_a_new_one_is(client: Client) -> None:
    out = io.StringIO()
    people = ApprovalPrompts(ClientRun(client, "k3"), PlainScreen(out, "k3"), None)
    other = THERE.model_copy(update={"call_id": "t1c3"})
    for waiting in ([THERE], [THERE], [other, THERE], [other], [], [THERE]):
        people.show_delegate_approvals(waiting)

    told = [line.split(" decide k3.t1c2 ")[1][:4] for line in out.getvalue().splitlines()]
    assert told == ["t1c1", "t1c3", "t1c1"]


def test_a_label_cannot_move_the_terminal_and_the_choices_are_those_of_the_kind() -> None:
    how = "holdfast decide k3.t1c2 t1c1 approve [--strike CALL]|deny|edit"
    assert question_text.delegate_line(THERE) == f"in k3.t1c2: Send it: {how}"
    posing = THERE.model_copy(update={"label": "A: approved"})
    assert question_text.delegate_line(posing) == f'in k3.t1c2: "A: approved": {how}'
