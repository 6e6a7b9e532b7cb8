"""The two workers of the example: ours in this process, the payments team's as one of Node's."""

import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from temporalio.client import Client

from holdfast.hosting.worker import WorkerSettings, build_worker
from tests.support.backend import Answers, Backend, Launch
from tests.support.model_server import serve
from tests.typescript.payments import EXAMPLE, Payments


@pytest.fixture
def payments(client: Client, tmp_path: Path) -> Iterator[Payments]:
    """The payments team's worker, not yet started, with empty books."""
    worker = Payments(client, tmp_path / "ledger")
    yield worker
    worker.stop()


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A copy of the example's tools, which a test may change."""
    return Path(shutil.copytree(EXAMPLE / "tools", tmp_path / "catalog" / "tools"))


@pytest.fixture
async def launch(client: Client, tmp_path: Path, tools: Path) -> AsyncIterator[Launch]:
    """Launch a backend with these answers of the model: it has the example's tools and no
    others."""
    async with AsyncExitStack() as stack:

        async def open_(answers: Answers) -> Backend:
            queue = f"typescript-{uuid.uuid4().hex[:8]}"
            model = stack.enter_context(serve(answers))
            endpoints = tmp_path / "endpoints.yaml"
            endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}'}}\n")
            settings = WorkerSettings(catalog=tools.parent, endpoints=endpoints, task_queue=queue)
            await stack.enter_async_context(build_worker(client, settings))
            return Backend(client, queue, model)

        yield open_
