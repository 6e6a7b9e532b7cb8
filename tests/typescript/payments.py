"""The payments team's worker as its README starts it: a process of Node's, which can be killed."""

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from tests.support.backend import ROOT
from tests.support.eventually import eventually

EXAMPLE = ROOT / "examples" / "typescript_tool"
TASK_QUEUE = "payments"


class Payments:
    """The worker. `ledger` is the folder of its books; `address` is where it finds Temporal."""

    def __init__(self, client: Client, ledger: Path) -> None:
        self.address = client.service_client.config.target_host
        self._client = client
        self._ledger = ledger
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, address: str | None = None) -> None:
        """Start it, and wait until it takes work."""
        self._process = self._begun(address or self.address)
        await eventually(self._polls)

    def kill(self) -> None:
        """End it as a crash does: at once, with nothing told to anybody."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as an operator does."""
        self._end(signal.SIGTERM)

    def booked(self) -> list[dict[str, Any]]:
        """Every payment in the books."""
        return [json.loads(path.read_text("utf-8")) for path in self._ledger.glob("*.json")]

    def _begun(self, address: str) -> subprocess.Popen[bytes]:
        assert (EXAMPLE / "dist").is_dir(), "the example is not built: `make test-typescript`"
        script = json.loads((EXAMPLE / "package.json").read_text("utf-8"))["scripts"]["worker"]
        where = {"TEMPORAL_ADDRESS": address, "PAYMENTS_LEDGER": str(self._ledger)}
        return subprocess.Popen(shlex.split(script), cwd=EXAMPLE, env={**os.environ, **where})

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
