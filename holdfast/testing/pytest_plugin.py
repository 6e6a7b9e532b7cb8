"""The fixtures of the test kit: `-p holdfast.testing.pytest_plugin`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import TypeVar

import pytest

from holdfast.hosting.dev_server import DevServer, run_dev_server
from holdfast.testing.backtests import HoldfastBacktest
from holdfast.testing.runs import HoldfastRun

F = TypeVar("F")
# Without pytest-asyncio, the plugin of anyio runs the fixtures of pytest.
_RUNNER = "pytest_asyncio" if find_spec("pytest_asyncio") else "pytest"
async_fixture: Callable[[F], F] = import_module(_RUNNER).fixture


@pytest.fixture(scope="session")
def holdfast_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Temporal server for the session; override it for another server."""
    server = DevServer(db=tmp_path_factory.mktemp("temporal") / "dev.db", port=0, ui_port=0)
    # In a loop of its own, which is not the current one of the tests.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        stack = AsyncExitStack()
        yield runner.run(stack.enter_async_context(run_dev_server(server)))
        runner.run(stack.aclose())


@async_fixture
async def holdfast_backtest(holdfast_server: str) -> AsyncIterator[HoldfastBacktest]:
    """Run agents against recorded logs, as `HoldfastBacktest` describes."""
    async with AsyncExitStack() as workers:
        yield HoldfastBacktest(holdfast_server, workers)


@async_fixture
async def holdfast_run(holdfast_server: str) -> AsyncIterator[HoldfastRun]:
    """Start runs of agents, as `HoldfastRun` describes."""
    async with AsyncExitStack() as workers:
        run = HoldfastRun(holdfast_server, workers)
        yield run
    if left := [line for model in run.models for line in model.unused_answers()]:
        pytest.fail("\n".join(left), pytrace=False)
