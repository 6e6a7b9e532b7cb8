"""Our worker, with the tools of the bench and a fake model over HTTP."""

import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from temporalio.client import Client

from holdfast.hosting.worker import WorkerSettings, build_worker


@asynccontextmanager
async def at_work(client: Client, model_url: str, **more: Any) -> AsyncIterator[str]:
    """The worker at work, with more settings; its task queue."""
    queue = f"bench-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory() as folder:
        endpoints = Path(folder) / "endpoints.yaml"
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model_url}'}}\n")
        tools = str(Path(__file__).with_name("tools.py"))
        settings = WorkerSettings(tools=[tools], endpoints=endpoints, task_queue=queue, **more)
        async with build_worker(client, settings):
            yield queue
