"""Several runs of one worker side by side, each with a story: what the model says in it.

Told once in peace, a story gives what it has to come to whatever happens.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from temporalio.client import Client

from tests.support.backend import SIDE_BY_SIDE, Backend, Run, backend
from tests.support.model_server import Answer


@asynccontextmanager
async def table(
    client: Client, folder: Path, stories: Mapping[str, list[Answer]], **settings: Any
) -> AsyncIterator[Backend]:
    """A worker whose model knows these stories: each begins with what the user says, the first
    word of it."""

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        told = stories[body["messages"][1]["content"].split()[0]]
        return told[min(turn, len(told)) - 1]

    async with backend(client, folder, answer, **{**SIDE_BY_SIDE, **settings}) as at:
        yield at


async def outcome(run: Run) -> dict[str, Any]:
    """What a run came to: its result, what happened in which order, and what the model read of each
    call."""
    return {
        "result": await run.result(),
        "events": await run.told(),
        "results": await run.results(),
    }
