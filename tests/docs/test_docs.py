"""The pages of `docs/`, played from their first block to their last, as a reader would."""

import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client

from tests.docs.page import steps
from tests.docs.stage import ROOT, stage
from tests.support.eventually import eventually

PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.fixture
async def namespace(client: Client) -> Client:
    """A client of a new namespace: a page has its runs and its task queue to itself."""
    name = f"docs-{uuid.uuid4().hex[:8]}"
    kept = Duration()
    kept.FromTimedelta(timedelta(days=1))
    request = RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=kept)
    await client.workflow_service.register_namespace(request)
    address = client.service_client.config.target_host

    async def there() -> Client | None:
        try:
            made = await Client.connect(address, namespace=name)
            async for _ in made.list_workflows(limit=1):
                pass
        except Exception:
            return None
        return made

    return await eventually(there)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
async def test_a_page_does_what_it_says(page: Path, namespace: Client, tmp_path: Path) -> None:
    with stage(tmp_path, namespace) as played:
        for step in steps(page):
            await played.play(step)
