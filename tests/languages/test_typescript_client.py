"""The example in TypeScript by its README: its commands, its catalog, its client."""

import asyncio
import json
import os
import pty
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.catalog.loader import load_catalog
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from tests.languages.payments import Payments, example_of
from tests.support.process import ROOT, WorkerProcess

pytestmark = pytest.mark.typescript

EXAMPLE = example_of("typescript")
CLIENT = ROOT / "clients/typescript"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
CLIENT_TIMEOUT_SECONDS = 90


def command(start: str) -> list[str]:
    """The README's command that starts so."""
    [line] = re.findall(rf"^{re.escape(start)}.*$", README, re.MULTILINE)
    return shlex.split(line)


def package_of(folder: Path) -> Any:
    return json.loads((folder / "package.json").read_text("utf-8"))


@pytest.fixture
def language() -> str:
    """The one language that has a client."""
    return "typescript"


@pytest.fixture
def holdfast_worker(client: Client) -> Iterator[None]:
    """Our worker, started as in the README, save that the session's server is used."""
    words = command(".venv/bin/holdfast worker")[2:]
    words.remove("--dev")
    with WorkerProcess(client.service_client.config.target_host, *words):
        yield


async def run_client(words: list[str], address: str, answer: str) -> str:
    """What the client prints when it is answered so at a terminal; empty: there is none."""
    keyboard, terminal = pty.openpty()
    os.write(keyboard, answer.encode())
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=CLIENT,
        env={**os.environ, "TEMPORAL_ADDRESS": address, "USER": "ada"},
        stdin=terminal if answer else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(CLIENT_TIMEOUT_SECONDS):
            said, _ = await process.communicate()
    finally:
        os.close(keyboard)
        os.close(terminal)
    assert process.returncode == 0
    return said.decode()


@pytest.mark.usefixtures("holdfast_worker")
async def test_the_client_starts_approves_and_prints_the_result(
    client: Client, payments: Payments
) -> None:
    await payments.start()
    said = await run_client(command("npm run approve"), payments.address, "y\n")
    asked, _, told = said.partition("Approve? [y/N] ")
    assert 'Refund an order: {"order_id":"1042","amount":249}' in asked
    assert "Why: It arrived broken, and 249 euros were paid for it." in asked
    assert "Receipt: { callId: 't2c1', decision: 'approve', decided: true" in told
    result = json.loads(told[told.index("{\n") :])
    [workflow] = re.findall(r"^Run (\S+)$", asked, re.MULTILINE)
    [payment] = payments.booked()
    assert payment["key"] == f"{workflow}/t2c1"
    assert result["status"] == "completed"
    assert result["state"]["refund"]["refund_id"] == payment["refund_id"]


@pytest.mark.usefixtures("holdfast_worker")
async def test_without_a_yes_nothing_is_paid(client: Client, payments: Payments) -> None:
    await payments.start()
    said = await run_client(command("npm run approve"), payments.address, "")
    assert '"state": {}' in said
    assert payments.booked() == []


def test_its_tool_loads(tmp_path: Path) -> None:
    [tool] = re.findall(r"^   ```yaml\n(.*?)^   ```$", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "refund.yaml").write_text(textwrap.dedent(tool), "utf-8")
    loaded = load_catalog(
        tmp_path, [], endpoints=[], task_queue="holdfast", read_definition=activity_definition
    ).definitions.tools["refund"]
    assert loaded.activity is not None
    assert loaded.activity.type == "RefundOrder"


def test_the_scripts_that_it_names_exist() -> None:
    named = set(re.findall(r"npm run (\w+)", README))
    scripts = [package_of(folder)["scripts"].keys() for folder in (EXAMPLE, CLIENT)]
    assert named - {"approve"} == set(scripts[0])
    assert "approve" in scripts[1]


@pytest.mark.parametrize("folder", [EXAMPLE, CLIENT], ids=["example", "client"])
def test_its_packages_are_pinned_and_named_by_hash_alone(folder: Path) -> None:
    assert all(
        re.fullmatch(r"\d+\.\d+\.\d+", version)
        for group in ("dependencies", "devDependencies")
        for version in package_of(folder).get(group, {}).values()
    )
    packages = json.loads((folder / "package-lock.json").read_text("utf-8"))["packages"]
    locked = [package for place, package in packages.items() if place]
    assert all("integrity" in package and "resolved" not in package for package in locked)


def test_the_payments_team_knows_nothing_of_us() -> None:
    for path in (EXAMPLE / "payments").glob("*.ts"):
        imported = re.findall(r"from '([^']+)'", path.read_text("utf-8"))
        assert all(re.match(r"node:|\./|@temporalio/", module) for module in imported)
        assert "holdfast" not in path.read_text("utf-8").lower()
