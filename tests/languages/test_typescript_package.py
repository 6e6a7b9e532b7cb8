"""The package of clients/typescript: its own tests at a server and a worker, and its types."""

import os
import subprocess
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.support.backend import TOOLS
from tests.support.process import ROOT, WorkerProcess

pytestmark = pytest.mark.typescript

PACKAGE = ROOT / "clients/typescript"


def node(*words: str, **environment: str) -> str:
    """What Node prints."""
    done = subprocess.run(
        ["node", *words],
        cwd=PACKAGE,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_its_client_keeps_its_promises_at_a_worker(client: Client, ledger: Path) -> None:
    address, queue = client.service_client.config.target_host, "typescript-package"
    files = PACKAGE / "test"
    options = ("--catalog", f"{files}/desk", "--endpoints", f"{files}/endpoints.yaml")
    bounds = ("--task-queue", queue, "--continue-after", "40")
    with WorkerProcess(address, *options, *bounds, "--tools", str(TOOLS)):
        node("--test", "dist/test/client.test.js", TEMPORAL_ADDRESS=address, TASK_QUEUE=queue)


def test_its_types_are_those_of_the_schemas(tmp_path: Path) -> None:
    node("types.mjs", str(tmp_path / "types.ts"))
    written = (tmp_path / "types.ts").read_text("utf-8")
    assert written == (PACKAGE / "src/types.ts").read_text("utf-8"), "run `make schemas`"
