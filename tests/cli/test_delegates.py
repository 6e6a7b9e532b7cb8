"""What waits in a delegate is told where its parent is watched or shown, and how to decide it."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.cli.prompts.question_loop import ApprovalPrompts
from holdfast.cli.screens.activity_line import Activity
from holdfast.cli.screens.plain import PlainScreen
from holdfast.client import question_text
from holdfast.client.run_handle import RunHandle
from holdfast.schemas.internal.delegate import DelegatePending
from tests.cli.conftest import Holdfast, Start
from tests.support.eventually import eventually
from tests.support.house import OpenHouse, Run
from tests.support.model_server import Answer, call

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
    """What the run is answered, or its delegate."""
    system = body["messages"][0]["content"]
    return next(said for name, said in SAID.items() if system.startswith(name))[turn - 1]


@pytest.fixture
async def parent(open_house: OpenHouse, tmp_path: Path) -> Run:
    """A run whose delegate asks for leave to pay, twice; it waits with the first."""
    helper = {
        "model": {"endpoint": "fake", "name": "fake"},
        "instructions": "helper",
        "tools": ["pay"],
    }
    (tmp_path / "catalog/agents").mkdir(parents=True)
    (tmp_path / "catalog/agents/helper.json").write_text(json.dumps(helper))
    house = await open_house(answers, catalog=tmp_path / "catalog")
    run = await house.start([ASK])
    await eventually(lambda: _waits(run))
    return run


async def _waits(run: Run) -> bool:
    return any(delegate["pending"] for delegate in (await run.status())["delegates"])


async def test_who_watches_the_parent_is_told_once_of_each_thing_that_waits_there(
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

    assert "starts" in seen[1].partition(" waits ")[0]
    assert "waits      in" in seen[2]
    assert [await plain.ended(), await terminal.ended()] == [0, 0]
    assert " waits " not in plain.seen
    assert "waits" not in seen[2].replace("waits      in", "", 1)


async def test_the_parent_is_shown_with_it_and_the_delegate_is_listed_as_the_parents(
    parent: Run, holdfast: Holdfast, client: Client
) -> None:
    delegate = f"{parent.id}.t1c1"

    said = await holdfast("show", parent.id)

    assert said.out.splitlines()[-2].startswith("status  running, turn 1")
    decides = f"holdfast decide {delegate} t1c1 approve|deny|edit|respond"
    assert said.out.splitlines()[-1] == f"waits  in {delegate}: Pay: {decides}"
    described = await client.get_workflow_handle(delegate).describe()
    assert await described.static_summary() == f"Carries out t1c1, ask, of {parent.id}"


def test_below_a_live_run_it_is_said_for_as_long_as_something_waits_there() -> None:
    activity = Activity()
    activity.add_entry({"type": "tool_start", "callId": "t1c2", "tool": "ask"})
    activity.waits_elsewhere = True
    assert activity.text() == "waiting for a person's decision in a delegate"
    activity.waits_elsewhere = False
    assert activity.text() == "running ask (t1c2)"


async def test_what_waits_on_is_not_told_again_and_what_waits_anew_is(client: Client) -> None:
    out = io.StringIO()
    people = ApprovalPrompts(RunHandle(client, "k3"), PlainScreen(out, "k3"), None)
    other = THERE.model_copy(update={"call_id": "t1c3"})
    for waiting in ([THERE], [THERE], [other, THERE], [other], [], [THERE]):
        people.show_delegate_approvals(waiting)

    told = [line.split(" decide k3.t1c2 ")[1][:4] for line in out.getvalue().splitlines()]
    assert told == ["t1c1", "t1c3", "t1c1"]


def test_a_label_cannot_move_the_terminal_and_the_choices_are_those_of_the_kind() -> None:
    how = "holdfast decide k3.t1c2 t1c1 approve [--strike CALL]|deny|edit"
    assert question_text.delegate_line(THERE) == f"in k3.t1c2: Send it: {how}"
