"""One local model, one shop and one worker for all the tests that talk to a real model."""

import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from temporalio.client import Client

from examples.local_model.serve import serve
from examples.support_desk import shop, tools
from holdfast.hosting.worker import WorkerSettings, build_worker
from tests.model.mind import ENDPOINT, MESSAGES_ENDPOINT, PlayedDesk


@pytest.fixture(scope="session")
def model_url() -> Iterator[str]:
    """Where the local model answers."""
    with serve() as url:
        yield url


@pytest.fixture(scope="session")
async def desk(
    client: Client, model_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[PlayedDesk]:
    """A worker with the demonstration's tools, a fresh shop, and the local model."""
    folder = tmp_path_factory.mktemp("desk")
    shop.open_shop(folder)
    endpoints = folder / "endpoints.yaml"
    providers = {ENDPOINT: "openai", MESSAGES_ENDPOINT: "anthropic"}
    endpoints.write_text(
        yaml.safe_dump(
            {
                name: {"provider": provider, "baseUrl": model_url, "timeout": "60s"}
                for name, provider in providers.items()
            }
        )
    )
    settings = WorkerSettings(
        tools=[str(Path(tools.__file__))],
        endpoints=endpoints,
        task_queue=f"model-{uuid.uuid4().hex[:8]}",
        heartbeat_timeout=timedelta(seconds=2),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPORT_DESK_DIR", str(folder))
        async with build_worker(client, settings):
            yield PlayedDesk(client, settings.task_queue)
