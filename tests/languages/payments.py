"""The payments team's worker of each language, as its README starts it: a process to kill."""

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from tests.support.backend import ROOT
from tests.support.eventually import eventually

LANGUAGES = [
    pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("typescript", "go", "java")
]
TASK_QUEUE = "payments"


def example_of(language: str) -> Path:
    """The folder of a language's example."""
    return ROOT / "examples" / f"{language}_tool"


def worker_command(example: Path) -> list[str]:
    """The last command of the README's block that builds the worker and starts it."""
    readme = (example / "README.md").read_text("utf-8")
    [block] = re.findall(r"^```\n(cd examples/.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    words = shlex.split(block.splitlines()[-1])
    if words[0] == "npm":  # which would be the process that is killed, in place of the worker
        scripts = json.loads((example / "package.json").read_text("utf-8"))["scripts"]
        return shlex.split(scripts[words[-1]])
    return words


class Payments:
    """The worker. `ledger` is the folder of its books; `address` is where it finds Temporal."""

    def __init__(self, client: Client, language: str, ledger: Path) -> None:
        self.address = client.service_client.config.target_host
        self._client = client
        self._language = language
        self._ledger = ledger
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, address: str | None = None) -> None:
        """Start it, and wait until it takes work."""
        self._process = self._started(address or self.address)
        await eventually(self._polls)

    def kill(self) -> None:
        """End it as a crash does: at once, without a word."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as an operator does."""
        self._end(signal.SIGTERM)

    def booked(self) -> list[dict[str, Any]]:
        """Every payment in the books."""
        return [json.loads(path.read_text("utf-8")) for path in self._ledger.glob("*.json")]

    def _started(self, address: str) -> subprocess.Popen[bytes]:
        example = example_of(self._language)
        built = example / ("target" if self._language == "java" else "dist")
        assert built.is_dir(), f"the example is not built: `make test-{self._language}`"
        where = {"TEMPORAL_ADDRESS": address, "PAYMENTS_LEDGER": str(self._ledger)}
        return subprocess.Popen(worker_command(example), cwd=example, env={**os.environ, **where})

    async def _polls(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the worker has ended"
        described = await self._client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=self._client.namespace,
                task_queue=TaskQueue(name=TASK_QUEUE),
                task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
            )
        )
        own = f"{self._process.pid}@"
        return any(poller.identity.startswith(own) for poller in described.pollers)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None
