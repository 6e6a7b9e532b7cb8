"""Kills between every two messages of a call: nothing is lost, and nothing is done twice.

A call has about thirty points: `held_server.py`. A server is held at each of them in turn, and it
or the worker is killed there. The client repeats what was not answered at another server.
"""

import asyncio
import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult, ElicitResult, InputRequiredResult
from temporalio.client import Client

from tests.encryption.keys import OLD, key_file
from tests.support import tools
from tests.support.backend import TOOLS, Run
from tests.support.eventually import eventually
from tests.support.identity.signing import write_keys
from tests.support.process import Process, WorkerProcess
from tests.web.mcp import held_server
from tests.web.mcp.conftest import run_id, text
from tests.web.mcp.test_approvals import Screen, ask
from tests.web.mcp.test_http import ISSUER, SIGNER, connect, token
from tests.web.mcp.test_runs import KEY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.usefixtures("quick_starts", "ledger"),
]

# Without cached runs, no request waits for a worker that was killed.
WORKER = ("--tools", str(TOOLS), "--cached-runs", "0", "--heartbeat-timeout", "1s")
# Among the points are those around what starts a run and what decides in it.
LEAST = {
    *("request received", "start_workflow_execution ready", "start_workflow_execution replied"),
    *("update_workflow_execution ready", "update_workflow_execution replied"),
    *("answer ready", "answer sent"),
}


class HeldServer(Process):
    """A server that stays at its point of this number; 0: at none."""

    def __init__(self, folder: Path, at: int, *words: str, **env: str) -> None:
        self.points, self._at = folder / f"points{at}", at
        more = {held_server.FILE: str(self.points), held_server.HOLD: str(at)}
        super().__init__("mcp ready: ", held_server.__file__, *words, **env, **more)

    def start(self) -> str:
        """Start it, and wait until it is ready; its address."""
        self.url = super().start()
        return self.url

    @property
    def seen(self) -> list[str]:
        """The points that it has reached."""
        return self.points.read_text(encoding="utf-8").splitlines() if self.points.exists() else []

    @property
    def is_held(self) -> bool:
        """Whether it stays at its point."""
        return len(self.seen) == self._at

    def free(self) -> None:
        """Have it continue."""
        self.points.with_suffix(".free").touch()


class KilledServers:
    """A worker, and servers with the same keys."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self._folder = client, folder
        address = client.service_client.config.target_host
        self.worker = WorkerProcess(address, *WORKER, "--task-queue", folder.name)
        self._env = {"TEMPORAL_ADDRESS": address, "TEMPORAL_CONFIG_FILE": os.devnull}
        write_keys(folder / "keys.json", SIGNER)
        (folder / "keys.yaml").write_text(f"idp: {{file: keys.json, issuer: '{ISSUER}'}}\n")
        self._words = ["mcp", "--listen", "0", "--tools", str(TOOLS), "--task-queue", folder.name]
        self._words += ["--keys", str(folder / "keys.yaml"), "--trusted-client", "assistant"]
        self._words += ["--state-keys", str(key_file(folder, [OLD]))]

    def server(self, at: int = 0) -> HeldServer:
        """A server that is held at this point."""
        return HeldServer(self._folder, at, *self._words, **self._env)

    async def call(self, urls: list[str], amount: int, decision: str) -> CallToolResult:
        """Pay, repeat at the next address what one does not answer, and decide; the result."""
        content: Any = {"decision": decision}
        meta = {KEY: f"{self._folder.name} {amount}"}
        sent: Any = {"name": "pay", "arguments": {"amount": amount}, "meta": meta}
        while True:
            result = await self._send(urls, sent)
            if isinstance(result, InputRequiredResult):
                answer = ElicitResult(action="accept", content=content)
                sent["input_responses"] = dict.fromkeys(result.input_requests or {}, answer)
                sent["request_state"] = result.request_state
            elif "run" in (result.structured_content or {}):
                await self._reconcile(run_id(result), amount)
                sent = {"name": "wait_run", "arguments": {"run": run_id(result)}}
            else:
                assert isinstance(result, CallToolResult)
                return result

    async def _send(self, urls: list[str], sent: dict[str, Any]) -> Any:
        while True:
            try:
                sender = token(urls[0])
                async with connect(urls[0], sender, elicitation_callback=Screen()) as mcp:
                    return await ask(mcp, **sent)
            except Exception:
                if len(urls) == 1:
                    raise
                urls.pop(0)

    async def _reconcile(self, run: str, amount: int) -> None:
        """Report the outcome of a payment that the worker did not report."""
        found = Run(self.client.get_workflow_handle(run))
        pending = await found.handle.query("approvals")
        if [each["kind"] for each in pending] == ["reconcile"]:
            paid = {"result": {"paid": amount}} if effects(amount) else {}
            await (found.decide("t1c1", "happened", **paid) if paid else found.run_again())


def effects(amount: int) -> int:
    return sum(f"pay {amount} " in each for each in tools.read())


@pytest.fixture
def desk(client: Client, tmp_path: Path) -> Iterator[KilledServers]:
    made = KilledServers(client, tmp_path)
    with made.worker:
        yield made


def check(result: CallToolResult, amount: int, decision: str) -> None:
    """Nothing is lost, and nothing is done twice."""
    if decision == "approve":
        assert (result.structured_content, effects(amount)) == ({"paid": amount}, 1)
    else:
        assert ("denied" in text(result), effects(amount)) == (True, 0)


async def reached(server: HeldServer, call: asyncio.Task[CallToolResult]) -> bool:
    """Wait until the server is held, or the call has ended without it."""

    async def is_over() -> bool:
        return server.is_held or call.done()

    await eventually(is_over, 120)
    return not call.done()


@pytest.mark.parametrize(
    ("victim", "decision"), [("server", "approve"), ("server", "deny"), ("worker", "approve")]
)
async def test_a_kill_between_any_two_messages(
    desk: KilledServers, victim: str, decision: str
) -> None:
    with ExitStack() as stack:
        spare = stack.enter_context(desk.server())
        for at in itertools.count(1):
            server = stack.enter_context(desk.server(at))
            call = asyncio.create_task(desk.call([server.url, spare.url], at, decision))
            is_held = await reached(server, call)
            if is_held and victim == "server":
                server.kill()
            elif is_held:
                desk.worker.kill()
                await asyncio.to_thread(desk.worker.start)
                server.free()
            check(await call, at, decision)
            if not is_held:
                break
    assert set(server.seen) >= LEAST
