"""Clients of the official TypeScript SDK at `holdfast mcp`: each approves a call and denies one.

`make test-mcp-clients` installs them.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from tests.support import tools
from tests.support.backend import TOOLS, Backend, backend
from tests.support.command import holdfast
from tests.web.mcp.conftest import TELLER

pytestmark = [pytest.mark.typescript, pytest.mark.usefixtures("quick_starts")]

PLACE = Path(__file__).with_name("mcp_clients")
MODERN = "2026-07-28"
FORMS = [("current", "auto"), ("tasks", "auto")]
# Without `auto`, the newest SDK negotiates an older revision.
LINKS = [*FORMS, ("current", "legacy"), ("older", "legacy")]
REVISIONS = {("current", "legacy"): "2025-11-25", ("older", "legacy"): "2025-06-18"}
DECISIONS = {
    "approve": {"decision": "approve"},
    "deny": {"decision": "deny", "reason": "too much"},
}


@pytest.fixture(scope="module")
async def desk(
    client: Client, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Backend, Path]]:
    """A worker whose agent pays, and its catalog."""
    folder = tmp_path_factory.mktemp("clients")
    (folder / "agents").mkdir()
    (folder / "agents" / "teller.yaml").write_text(TELLER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(tools.LEDGER, str(folder / "ledger"))
        patch.setenv("TEMPORAL_ADDRESS", client.service_client.config.target_host)
        async with backend(client, folder, [], catalog=folder, cached_runs=100) as made:
            yield made, folder


class Lines:
    """What a client prints: an object in each line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def next(self) -> dict[str, Any]:
        """The next object."""
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            line = await self._process.stdout.readline()
        assert line, "the client ended"
        found: dict[str, Any] = json.loads(line)
        return found


@asynccontextmanager
async def calls(
    desk: tuple[Backend, Path], program: str, mode: str, answer: dict[str, str] | None, amount: int
) -> AsyncIterator[Lines]:
    """A client that calls the teller; with an answer, it shows forms and answers them so."""
    home, folder = desk
    args = ["-m", "holdfast", "mcp", "--catalog", str(folder), "--tools", str(TOOLS)]
    args += ["--task-queue", home.task_queue, "--approver", "ann"]
    server = {"command": sys.executable, "args": args, "env": {**os.environ}}
    given: dict[str, Any] = {"server": server, "mode": mode, "answer": answer}
    given |= {"tool": "teller", "args": {"sum": amount}}
    command = ("node", str(PLACE / f"{program}.mjs"), json.dumps(given))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        yield Lines(process)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def check(ended: dict[str, Any], program: str, mode: str, decision: str, amount: int) -> None:
    """The result is that of the decision; an approved call has one effect, a denied one none."""
    result, effects = ended["result"], [each for each in tools.read() if f"pay {amount} " in each]
    assert ended["revision"] == REVISIONS.get((program, mode), MODERN)
    assert ended.get("kind") == ("task" if program == "tasks" else None)
    if decision == "approve":
        assert result["structuredContent"] == {"paid": amount}
        assert len(effects) == 1
    else:
        assert result["isError"]
        assert "denied: too much" in result["content"][-1]["text"]
        assert effects == []


def amount_of(*case: str) -> int:
    """An amount that no other case has."""
    return 10 + sum(map(ord, "".join(case)))


@pytest.mark.parametrize("decision", [*DECISIONS])
@pytest.mark.parametrize(("program", "mode"), FORMS)
async def test_a_client_that_shows_forms_decides_in_them(
    desk: tuple[Backend, Path], program: str, mode: str, decision: str
) -> None:
    amount = amount_of("form", program, mode, decision)
    async with calls(desk, program, mode, DECISIONS[decision], amount) as lines:
        form = (await lines.next())["form"]
        assert f"Approval needed: Pay (t1c1)\namount: {amount}\n" in form["message"]
        assert form["requestedSchema"]["properties"]["decision"]["enum"] == ["approve", "deny"]
        check(await lines.next(), program, mode, decision, amount)


@pytest.mark.parametrize("decision", [*DECISIONS])
@pytest.mark.parametrize(("program", "mode"), LINKS)
async def test_any_other_client_shows_where_a_person_decides(
    desk: tuple[Backend, Path], program: str, mode: str, decision: str
) -> None:
    amount = amount_of("link", program, mode, decision)
    # Forms are those of the newest revision: a client of an older one has a link all the same.
    answer = None if mode == "auto" else DECISIONS["approve"]
    async with calls(desk, program, mode, answer, amount) as lines:
        unfinished = (await lines.next())["unfinished"]
        shown = "\n".join(each["text"] for each in unfinished["content"])
        run = unfinished.get("taskId") or unfinished["structuredContent"]["run"]
        assert f"`holdfast decide {run} t1c1 approve|deny|edit|respond`" in shown
        reason = ("--reason", "too much") if decision == "deny" else ()
        decided = await holdfast("decide", run, "t1c1", decision, *reason)
        assert (decided.code, decided.err) == (0, "")
        check(await lines.next(), program, mode, decision, amount)
