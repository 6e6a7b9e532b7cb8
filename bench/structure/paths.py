"""The modules and functions of the product that run on four paths, profiled while a run is played.

The turn is played without a server, the decision and the inbox's pages on a real one.
"""

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
from temporalio.client import Client, WorkflowHandle

from bench.process import Program, environment, running
from bench.structure.source import Figures, name_in_package, packages

PROFILER = Path(__file__).with_name("profiler.py")
DECIDING = ("workflows", "schemas", "validation")
AGENT = {
    "name": "desk",
    "model": {"endpoint": "script", "name": "script"},
    "tools": [
        {"_tool": "pay", "properties": {"amount": {"type": "number"}}, "_sideEffects": True}
        | {"_activity": "pay"}
    ],
}
SCRIPT = "[{calls: [{tool: pay, arguments: {amount: 20}}]}, {text: Done.}]"
TOOLS = (
    "from temporalio import activity\n\n\n"
    "@activity.defn\nasync def pay(arguments: dict) -> str:\n    return 'paid'\n"
)
QUEUE = "structure"
TIMEOUT_SECONDS = 120


def turn_figures(tree: Path) -> Figures:
    """Profile one turn with one call, from the answer to the log."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "turn.json"
        subprocess.run(_command(tree, out, "turn"), env=_environ(tree), check=True)
        return {"one tool call, from answer to log": _read(out, DECIDING)}


async def decision_figures(tree: Path, client: Client) -> Figures:
    """Profile a decision by signal, and one on the inbox's page."""
    product = tuple(path.name for path in packages(tree))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script.yaml").write_text(SCRIPT, encoding="utf-8")
        (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
        (folder / "endpoints.yaml").write_text("script: {provider: script, file: script.yaml}\n")
        environ = _environ(tree) | {
            "TEMPORAL_ADDRESS": client.service_client.config.target_host,
            "TEMPORAL_NAMESPACE": client.namespace,
            "HOME": name,
        }
        files = ["--tools", f"{name}/tools.py", "--endpoints", f"{name}/endpoints.yaml"]
        of_worker, of_inbox = folder / "worker.json", folder / "inbox.json"
        worker_command = _command(tree, of_worker, "worker", *files, "--task-queue", QUEUE)
        inbox_command = _command(tree, of_inbox, "inbox", "--port", "0")
        async with (
            running(worker_command, environ) as worker,
            running(inbox_command, environ) as inbox,
        ):
            signalled = await _pending(client, "signalled")
            await signalled.signal("approve", {"callId": "t1c1", "decision": "approve"})
            await signalled.result()
            by_signal = await _recorded(worker, of_worker, DECIDING)

            posted = await _pending(client, "posted")
            link = httpx.URL(inbox.said.split("ready: ")[1])
            base = f"http://{link.host}:{link.port}"
            headers = {"accept": "text/html", "origin": base}
            async with httpx.AsyncClient(
                base_url=base, headers=headers, timeout=TIMEOUT_SECONDS
            ) as browser:
                await browser.get(link, follow_redirects=True)
                inbox.process.send_signal(signal.SIGUSR1)
                page = await browser.get("/waiting/posted/t1c1", follow_redirects=True)
                shown = await _recorded(inbox, of_inbox, product)
                address, fields = ApproveForm(page.raise_for_status().text).submitted()
                inbox.process.send_signal(signal.SIGUSR1)
                sent = await browser.post(address, data=fields)
                assert sent.is_success or sent.has_redirect_location, sent.text
                by_page = await _recorded(inbox, of_inbox, product)
            await posted.result()
    return {
        "a decision, from its signal to its activity": by_signal,
        "page of a call": shown,
        "POST of its decision": by_page,
    }


class ApproveForm(HTMLParser):
    """The form of a page that its button "approve" sends."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._forms: dict[str, tuple[str, dict[str, str]]] = {}
        self._last = ""
        self._button: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a form with an id, its hidden fields, or the button."""
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._last = found.get("id", "")
            self._forms[self._last] = found.get("action", ""), {}
        elif tag == "input" and found.get("type") == "hidden" and self._forms:
            self._forms[self._last][1][found["name"]] = found.get("value", "")
        elif tag == "button" and found.get("value") == "approve":
            self._button = {"form": self._last} | found

    def submitted(self) -> tuple[str, dict[str, str]]:
        """Return the address and the fields that a browser sends."""
        assert self._button, f"the page has no button that approves: {self._forms}"
        action, hidden = self._forms[self._button["form"]]
        return action, hidden | {self._button["name"]: "approve"}


async def _pending(client: Client, run: str) -> WorkflowHandle[Any, Any]:
    """Start a run, and return it when its call is pending."""
    request = {"agent": AGENT, "input": "Pay."}
    handle = await client.start_workflow("AgentWorkflow", request, id=run, task_queue=QUEUE)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not await handle.query("approvals"):
            await asyncio.sleep(0.1)
    return handle


def _command(tree: Path, out: Path, *words: str) -> list[str]:
    return [sys.executable, "-P", str(PROFILER), str(tree), str(out), *words]


def _environ(tree: Path) -> dict[str, str]:
    """Return an environment in which the checkout is imported, and nothing of this one."""
    return environment({"PYTHONPATH": str(tree), "PYTHONUNBUFFERED": "1"})


async def _recorded(program: Program, out: Path, only: tuple[str, ...]) -> str:
    """Have a program write what it recorded, and read it."""
    program.process.send_signal(signal.SIGUSR2)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not await asyncio.to_thread(out.exists):
            await asyncio.sleep(0.05)
    return _read(out, only)


def _read(out: Path, only: tuple[str, ...]) -> str:
    """Count the modules and functions of these packages that were recorded."""
    every = json.loads(out.read_text(encoding="utf-8"))
    out.unlink()
    found = {
        (file, function) for file, function in every if name_in_package(file).split("/")[0] in only
    }
    assert found, f"{out.stem} recorded nothing: is a name of profiler.py outdated?"
    return f"{len({file for file, _ in found})} modules, {len(found)} functions"
