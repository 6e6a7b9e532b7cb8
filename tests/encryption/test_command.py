"""`holdfast` with `HOLDFAST_ENCRYPTION` (§13): as ever; without it, it names what to set."""

import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.client.errors import UNREACHABLE
from tests.encryption.conftest import Holdfast
from tests.encryption.keys import NEW
from tests.encryption.reader import Reader, plain
from tests.support.backend import TOOLS, Launch, Run
from tests.support.eventually import eventually
from tests.support.model_server import MANY, Answer, call

AGENT = {"name": "till", "model": {"endpoint": "fake", "name": "fake"}, "tools": ["pay"]}
SAYS = [Answer("I will.", calls=[call("pay", amount=5)]), Answer("Paid.")]
UNSET = (
    "this is encrypted with the key `2026-08`, and no keys are set here; set HOLDFAST_ENCRYPTION "
    "to the file that names them"
)


@pytest.fixture
def agent(tmp_path: Path) -> str:
    """An agent, as the command takes one."""
    path = tmp_path / "till.json"
    path.write_text(json.dumps(AGENT))
    return f"@{path}"


async def test_runs_are_started_listed_decided_and_shown_as_ever(
    launch: Launch, holdfast: Holdfast, client: Client, agent: str
) -> None:
    backend = await launch(SAYS)
    words = ("run", agent, "--input", "pay the florist", "--task-queue", backend.task_queue)
    run = (await holdfast(*words, "--detach")).out.strip()
    reader = Reader(client)
    assert not plain(await reader.described(run)), "the summary of a list says what a run is on"
    [started, *_] = await reader.history(run)  # what the SDK writes itself comes later
    assert not plain(started)

    waiting = Run(backend.client.get_workflow_handle(run), backend.client)
    await waiting.waiting()
    await waiting.listed()
    assert "pay the florist" in (await holdfast("list")).out
    assert f"{run}  t1c1" in (await holdfast("approvals")).out
    decided = await holdfast("decide", run, "t1c1", "approve", "--reason", "it is agreed")
    assert (decided.code, decided.err) == (0, "")
    watched = await holdfast("watch", run)
    assert (watched.code, watched.err) == (0, "")
    assert "output: Paid." in watched.out
    shown = await holdfast("show", run)
    assert "pay the florist" in shown.out
    assert "it is agreed" in shown.out
    file = Path(agent[1:]).with_name("evidence.jsonl")
    evidence = await holdfast("evidence", run, "--out", str(file))
    assert (evidence.code, evidence.err) == (0, "")
    kinds = {json.loads(line)["record"]["type"] for line in file.read_text().splitlines()}
    assert kinds == {"header", "agent", "log", "sent", "seal"}


async def test_without_the_keys_each_command_names_the_setting(
    launch: Launch, holdfast: Holdfast, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await launch(SAYS)
    started = ("run", agent, "--input", "pay", "--task-queue", backend.task_queue, "--detach")
    run = (await holdfast(*started)).out.strip()
    waiting = Run(backend.client.get_workflow_handle(run), backend.client)
    await waiting.waiting()
    await waiting.listed()
    monkeypatch.delenv("HOLDFAST_ENCRYPTION")
    tried: list[tuple[str, ...]] = [
        ("watch", run),
        ("show", run),
        ("decide", run, "t1c1", "approve"),
        ("send", run, "wait a moment", "--steer"),
    ]
    for words in tried:
        said = await holdfast(*words)
        assert (said.code, said.err) == (2, f"holdfast: {UNSET}\n")
    assert [one["callId"] for one in await waiting.waiting()] == ["t1c1"], "nothing was decided"
    assert "wait a moment" not in str(await waiting.context())

    async def answered() -> Any:  # a busy worker may answer too late
        said = await holdfast("approvals")
        return said if said.code != UNREACHABLE else None

    said = await eventually(answered)
    assert (said.code, said.err) == (2, f"holdfast: {UNSET} (1 runs did not answer)\n")
    said = await holdfast("list", "--status", "awaiting_approval")
    assert (said.code, said.err) == (0, f"holdfast: {UNSET} (1 summaries)\n")
    assert f"{run}  till   awaiting_approval" in said.out
    await waiting.decide("t1c1", "deny")
    await waiting.result()
    said = await holdfast("watch", run)
    assert (said.code, said.err) == (2, f"holdfast: {UNSET}\n")


async def test_unreadable_keys_are_reported_before_anything_is_done(
    holdfast: Holdfast, agent: str, tmp_path: Path
) -> None:
    path = tmp_path / "encryption.yaml"
    path.write_text("keys:\n- {id: a, env: NOT_SET_A}\n- {id: b, env: NOT_SET_B}\n")
    said = await holdfast("run", agent, "--input", "go")
    assert (said.code, said.out, said.err) == (
        2,
        "",
        f"holdfast: HOLDFAST_ENCRYPTION: {path}:2: `keys[0].env`: the variable NOT_SET_A is not "
        "set; set it to the key (and 1 more)\n",
    )


@pytest.mark.usefixtures("quick_starts")
async def test_check_finds_what_is_wrong_with_the_keys(holdfast: Holdfast, tmp_path: Path) -> None:
    path = tmp_path / "encryption.yaml"
    assert (await holdfast("check", "--encryption", str(path))).code == 0
    (tmp_path / f"{NEW}.key").unlink()
    said = await holdfast("check")
    assert (said.code, said.err) == (
        2,
        f"{path}:1: `keys[0].file`: {tmp_path / NEW}.key: there is no such file; check the path\n",
    )


async def test_policies_are_simulated_over_runs_that_the_keys_decrypt(
    launch: Launch, holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also over what happened before a run continued as new."""
    looks = [Answer(calls=[call("look_up", id=n)]) for n in range(6)]
    backend = await launch([SAYS[0], *looks, Answer("Done.")], continue_after=20)
    name, tools = "till-of-policies", ["pay", "look_up"]
    run = await backend.start(tools, agent={"name": name, **MANY})
    await run.waiting()
    assert (await holdfast("decide", run.id, "t1c1", "deny", "--by", "ann")).code == 0
    await run.result()
    assert run.handle.first_execution_run_id != (await run.handle.describe()).run_id
    await run.listed("completed")
    file = tmp_path / "new" / "agents" / "till.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({**AGENT, "name": name, "approval": {"auto": ["pay"]}}))
    catalog = ("--catalog", str(file.parents[1]), "--tools", str(TOOLS))
    words = ("policy", "simulate", *catalog, "--agent", name, "--json")
    said = await holdfast(*words)
    assert said.code == 1
    [row] = json.loads(said.out)["unasked"]
    assert (row["run"], row["call"], row["arguments"]) == (run.id, "t1c1", {"amount": 5})
    monkeypatch.delenv("HOLDFAST_ENCRYPTION")
    said = await holdfast(*words)
    assert said.code == UNREACHABLE
    [unread] = json.loads(said.out)["unread"]
    assert (unread["run"], unread["reason"]) == (run.id, UNSET)
