"""The package of clients/typescript: its own tests at a server and a worker, and its types."""

import os
import subprocess
from base64 import b64encode
from pathlib import Path
from secrets import token_bytes

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


def test_its_client_keeps_its_promises_at_workers(
    client: Client, ledger: Path, tmp_path: Path
) -> None:
    address, files = client.service_client.config.target_host, PACKAGE / "test"
    key = b64encode(token_bytes(32)).decode()
    (tmp_path / "key").write_text(key)
    (tmp_path / "encryption.yaml").write_text("keys: [{id: k1, file: key}]")
    options = ("--catalog", f"{files}/desk", "--endpoints", f"{files}/endpoints.yaml")
    shared = (*options, "--tools", str(TOOLS), "--continue-after", "40", "--task-queue")
    encryption = ("--encryption", str(tmp_path / "encryption.yaml"))
    with (
        WorkerProcess(address, *shared, "typescript"),
        WorkerProcess(address, *shared, "typescript-encrypted", *encryption),
    ):
        queues = {"TASK_QUEUE": "typescript", "ENCRYPTED_QUEUE": "typescript-encrypted"}
        of_test = {"TEMPORAL_ADDRESS": address, "ENCRYPTION_KEY": key, **queues}
        node("--test", "dist/test/client.test.js", **of_test)


def test_its_types_are_those_of_the_schemas(tmp_path: Path) -> None:
    node("types.mjs", str(tmp_path / "types.ts"))
    written = (tmp_path / "types.ts").read_text("utf-8")
    assert written == (PACKAGE / "src/types.ts").read_text("utf-8"), "run `make schemas`"
