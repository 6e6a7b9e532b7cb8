"""One backend for all the examples."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.protocol.stage import ExampleRunner
from tests.support.backend import SIDE_BY_SIDE, Backend, backend
from tests.support.model_server import Answer

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
async def examples(
    client: Client, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Backend]:
    """A worker with the tools and the agents of the examples."""
    folder = tmp_path_factory.mktemp("examples")
    settings = {"tools": [str(HERE / "tools.py")], "catalog": HERE / "catalog", **SIDE_BY_SIDE}
    async with backend(client, folder, [Answer()], **settings) as home:
        yield home


@pytest.fixture
def stage(examples: Backend) -> Iterator[ExampleRunner]:
    """Where one example is run; its model keeps to the schemas that it is given."""
    stage = ExampleRunner(examples)
    yield stage
    assert stage.misfits == []
