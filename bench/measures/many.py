"""What measurements of many calls that wait for people have in common."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import perf_counter

from bench.measures.measured import shown
from bench.programs.work import TOOL

AT_ONCE = 64
CACHED = ("--cached-runs", "1000")
MAX_SECONDS = 1_800
ASKS = {
    "_tool": TOOL,
    "_approval": {"require": "always"},
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
}


async def took(doing: Awaitable[object]) -> float:
    """How long something takes, in seconds."""
    began = perf_counter()
    await doing
    return perf_counter() - began


async def each(
    do: Callable[[str], Awaitable[None]], ids: Sequence[str], at_once: int = AT_ONCE
) -> None:
    """Do it for each run, some at a time."""
    room = asyncio.Semaphore(at_once)

    async def one(id: str) -> None:
        async with room:
            await do(id)

    await asyncio.gather(*map(one, ids))


def check(fits: bool, else_: str) -> None:
    """Publish no figure of what has not worked.

    Raises:
        RuntimeError: it has not.
    """
    if not fits:
        raise RuntimeError(else_)


def table(title: str, rows: Mapping[str, float]) -> str:
    """Figures as a Markdown table."""
    lines = [f"| {name} | {shown(figure)} |" for name, figure in rows.items()]
    return "\n".join([f"| {title} | |", "| --- | ---: |", *lines])
