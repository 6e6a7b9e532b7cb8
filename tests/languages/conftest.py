"""The two workers of an example: ours in this process, the payments team's as one of its own."""

import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from temporalio.client import Client

from holdfast.hosting.worker import WorkerSettings, build_worker
from tests.languages.payments import LANGUAGES, Payments, example_of
from tests.support.backend import Answers, Backend, Launch
from tests.support.model_server import serve


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    """The language of the payments team."""
    return str(request.param)


@pytest.fixture
def payments(client: Client, language: str, tmp_path: Path) -> Iterator[Payments]:
    """The payments team's worker, not yet started, with empty books."""
    worker = Payments(client, language, tmp_path / "ledger")
    yield worker
    worker.stop()


@pytest.fixture
def tools(language: str, tmp_path: Path) -> Path:
    """A copy of the example's tools, which a test may change."""
    return Path(shutil.copytree(example_of(language) / "tools", tmp_path / "catalog" / "tools"))


@pytest.fixture
async def launch(client: Client, tmp_path: Path, tools: Path) -> AsyncIterator[Launch]:
    """Launch a backend with these answers of the model: it has the example's tools and no
    others."""
    async with AsyncExitStack() as stack:

        async def open_(answers: Answers) -> Backend:
            queue = f"languages-{uuid.uuid4().hex[:8]}"
            model = stack.enter_context(serve(answers))
            endpoints = tmp_path / "endpoints.yaml"
            endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}'}}\n")
            settings = WorkerSettings(catalog=tools.parent, endpoints=endpoints, task_queue=queue)
            await stack.enter_async_context(build_worker(client, settings))
            return Backend(client, queue, model)

        yield open_
