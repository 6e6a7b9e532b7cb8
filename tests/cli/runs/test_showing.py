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
from holdfast.schemas.log_entry import ToolStartEntry
from holdfast.schemas.run import DelegatePending
from tests.cli.conftest import Holdfast, Start
from tests.support.backend import Launch, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call

LONG = "x" * 300


async def test_everything_that_happened_is_shown_in_full(
    launch: Launch, holdfast: Holdfast
) -> None:
    backend = await launch(
        [
            Answer("I look and pay.", [call("look_up", id=7), call("pay", amount=5)]),
            Answer("", [call("echo", text=LONG), call("raises")]),
            Answer("All done."),
        ]
    )
    run = await backend.start(["look_up", "pay", "echo", "raises"])
    await run.waiting()
    await run.decide("t1c2", "edit", arguments={"amount": 4}, by="bea", reason="five is too much")
    await run.result()

    said = await holdfast("show", run.id)

    assert (said.code, said.err) == (0, "")
    for text in (
        f"run  {run.id}",
        "user\n  go",
        "model\n  I look and pay.",
        "call t1c1 look_up  id=7",
        'wrote †state.item = {"id": 7, "name": "item 7"}',
        "approval requested t1c2 Pay",
        "decided t1c2 Pay: approved with changes by bea (unverified)\n  reason: five is too much",
        'arguments: {"amount": 4}',
        '{"paid": 4.0}',
        LONG,
        "finished t2c2 raises: tool_error\n  the stock is empty",
        "output  All done.",
        '"name": "item 7"',
        "completed  3 turns, 4 calls, 30 tokens in, 15 out",
    ):
        assert text in said.out
    as_json = await holdfast("show", run.id, "--json")
    assert json.loads(as_json.out) == await run.context()


def test_the_text_of_a_composed_answer_is_shown_and_not_its_json() -> None:
    out = io.StringIO()
    message = {"role": "assistant", "content": '{"calls": []}', "said": "I look and pay."}

    PlainScreen(out, "run-1").show_entry({"type": "message", "n": 1, "message": message})

    assert "I look and pay." in out.getvalue()
    assert "calls" not in out.getvalue()


async def test_a_running_run_shows_its_progress(launch: Launch, holdfast: Holdfast) -> None:
    backend = await launch(
        [Answer("", [call("look_up", id=7)]), Answer("", [call("pay", amount=5)])]
    )
    run = await backend.start(
        ["look_up"], agent={"skills": [{"name": "money", "tools": ["pay"]}]}, skill="money"
    )
    await run.waiting()

    said = await holdfast("show", run.id)

    assert " skill money (named by the caller)\n" in said.out
    assert "status  awaiting_approval, skill money, turn 2, 20 tokens in, 10 out" in said.out
    assert f"waiting  t2c1 Pay: holdfast decide {run.id} t2c1" in said.out
    assert '"name": "item 7"' in said.out


async def test_what_a_model_and_a_tool_wrote_cannot_move_the_terminal(
    launch: Launch, holdfast: Holdfast
) -> None:
    backend = await launch(
        [
            Answer("\x1b[2Jgone [red]x[/red]", [call("echo", text="\x1b]0;title\x07\u202e")]),
            Answer("\x1b[1A:smile:"),
        ]
    )
    run = await backend.start(["echo"])
    await run.result()

    for words in (("show",), ("watch",), ("show", "--json"), ("watch", "--json")):
        said = await holdfast(words[0], run.id, *words[1:])
        assert not {"\x1b", "\x07", "\u202e"} & set(said.out)
        assert "gone [red]x[/red]" in said.out or "--json" in words
        assert ":smile:" in said.out


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that other tests have left have no worker: they are not waited for as long."""
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 2)


PAYS = [Answer("I pay.", [call("pay", amount=5)]), Answer("Paid.")]


async def test_every_pending_approval_of_every_run_is_shown(
    launch: Launch, holdfast: Holdfast
) -> None:
    asked = Answer("I pay.", [call("pay", amount=5, _instance="ada")])
    backend = await launch([asked, PAYS[1]])
    order = {"type": "data", "kind": "order", "data": 1, "_instance": "ada"}
    more = {"agent": {"name": "payer"}, "context": [{"content": [order]}]}
    runs = [await backend.start(["pay"], **more) for _ in range(2)]
    for run in runs:
        await run.waiting()

    async def shown() -> str | None:
        said = await holdfast("approvals")
        return said.out if all(run.id in said.out for run in runs) else None

    table = await eventually(shown)
    listed = json.loads((await holdfast("approvals", "--json")).out)

    assert table.splitlines()[0].split() == ["RUN", "CALL", "TOOL", "WAITING", "ARGUMENTS"]
    assert "t1c1  Pay for ada" in table
    assert "amount=5" in table
    mine = [one for one in listed if one["run"] == runs[0].id]
    [waiting] = await runs[0].waiting()
    assert mine == [{"run": runs[0].id, **waiting}]


@pytest.mark.parametrize(
    ("kind", "label", "named"),
    [
        ("call", "Pay", "Pay "),
        ("call", "Pay: denied", '"Pay: denied" '),
        ("reconcile", "Pay", "Did it happen? Pay"),
        ("input", "Pay", "Answer needed: Pay"),
        ("budget", "Pay", "Budget limit reached: Pay"),
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

    monkeypatch.setattr(show_commands, "connect", AsyncMock(return_value=Mock(approvals=approvals)))
    assert await show_commands.approvals(json=False) == 0
    assert f"order-7  t1c1  {named}" in capsys.readouterr().out


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


async def test_runs_are_listed_with_agent_status_and_summary(
    client: Client, launch: Launch, holdfast: Holdfast
) -> None:
    backend = await launch(PAYS)
    waits = await backend.start(["pay"], agent={"name": "payer"})
    await waits.waiting()
    fails = await client.start_workflow(
        "AgentWorkflow",
        {},
        id=f"{waits.id}-f",
        task_queue=backend.task_queue,
        static_summary="a\nb",
    )

    async def listed(*words: str) -> dict[str, dict[str, str]]:
        rows = json.loads((await holdfast("list", "--json", *words)).out)
        return {row["run"]: row for row in rows}

    async def both() -> dict[str, dict[str, str]] | None:
        rows = await listed()
        known = rows.get(waits.id, {}).get("status") == "awaiting_approval"
        return rows if known and rows.get(fails.id, {}).get("status") == "failed" else None

    rows = await eventually(both)
    assert rows[waits.id]["agent"] == "payer"
    assert waits.id in await listed("--status", "awaiting_approval")
    assert waits.id not in await listed("--status", "completed")
    assert list(await listed("--status", "failed")).count(fails.id) == 1
    [line] = [line for line in (await holdfast("list")).out.splitlines() if fails.id in line]
    assert line.split()[:2] == [fails.id, "-"]
    assert line.endswith("  a b")


async def test_a_list_reports_that_there_are_more_runs_than_it_shows(
    launch: Launch, holdfast: Holdfast
) -> None:
    backend = await launch([Answer("Done.")])
    for _ in range(2):
        await (await backend.start()).result()

    async def cut() -> bool:
        return "--limit shows more" in (await holdfast("list", "--limit", "1")).err

    assert await eventually(cut)


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


async def test_the_parent_is_shown_with_it_and_the_delegate_is_listed_as_the_parents(
    parent: Run, holdfast: Holdfast, client: Client
) -> None:
    delegate = f"{parent.id}.t1c1"

    said = await holdfast("show", parent.id)

    assert said.out.splitlines()[-2].startswith("status  running, turn 1")
    decides = f"holdfast decide {delegate} t1c1 approve|deny|edit|respond"
    assert said.out.splitlines()[-1] == f"waiting  in {delegate}: Pay: {decides}"
    described = await client.get_workflow_handle(delegate).describe()
    assert await described.static_summary() == f"Runs t1c1, ask, of {parent.id}"


def test_a_live_run_shows_the_pending_approvals_of_its_delegates_while_they_wait() -> None:
    activity = Activity()
    activity.add_entry(ToolStartEntry(turn=1, call_id="t1c2", tool="ask"))
    activity.waits_elsewhere = True
    assert activity.text() == "waiting for a person's decision in a delegate"
    activity.waits_elsewhere = False
    assert activity.text() == "running ask (t1c2)"


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
