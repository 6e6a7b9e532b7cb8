"""All engines at work on one server, against one model: where runs are measured side by side."""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client

from bench.counters import Counters
from bench.engines import ENGINES, made
from bench.measures.measured import Measured, measured
from bench.process import Program, fake_model, last_turn
from bench.programs.work import Work
from bench.server import Server

# A run of each engine before any is measured: what is loaded only once is loaded then.
FIRST = Work(turns=3)


@dataclass(frozen=True)
class Stage:
    """The engines' workers by name, each with a task queue of the engine's name."""

    client: Client
    counters: Counters
    model_url: str
    workers: dict[str, Program]

    def names(self, number: int) -> list[str]:
        """The engines of a round: those of others, which take far longer, have the first alone."""
        return [name for name in self.workers if number == 1 or not ENGINES[name].is_peer]

    async def run(self, name: str, work: Work, **options: Any) -> Measured:
        """Have one engine do the work, and see that it was done.

        Raises:
            Stopped: it did not get to the end.
            RuntimeError: it got there without all of the work.
        """
        await last_turn(self.model_url)
        run = await self.run_unseen(name, work, **options)
        turns = await last_turn(self.model_url)
        if turns != work.turns:
            raise RuntimeError(f"{name} asked the model for {turns} of {work.turns} turns")
        return run

    async def run_unseen(self, name: str, work: Work, **options: Any) -> Measured:
        """Have one engine do the work, beside others.

        Raises:
            Stopped: it did not get to the end.
        """
        engine, worker = ENGINES[name], self.workers[name]
        return await measured(
            self.client,
            engine.workflow,
            name,
            *engine.arguments(work),
            cpu=lambda: worker.cpu_seconds,
            **options,
        )

    def another_worker(self, name: str) -> AbstractAsyncContextManager[Program]:
        """One more worker of an engine, beside the first."""
        address = self.client.service_client.config.target_host
        return ENGINES[name].at_work(address, name, self.model_url)


@asynccontextmanager
async def staged(server: Server, names: Sequence[str]) -> AsyncIterator[Stage]:
    """The engines at work, each warmed up by a first run."""
    await made([ENGINES[name] for name in names])
    address = server.client.service_client.config.target_host
    async with AsyncExitStack() as stack:
        model_url = await stack.enter_async_context(fake_model())
        workers = {
            name: await stack.enter_async_context(ENGINES[name].at_work(address, name, model_url))
            for name in names
        }
        stage = Stage(server.client, server.counters, model_url, workers)
        for name in names:
            await stage.run(name, FIRST)
        yield stage


def told(what: str) -> None:
    """Say how far it has got: some parts take many minutes."""
    print(what, file=sys.stderr, flush=True)
