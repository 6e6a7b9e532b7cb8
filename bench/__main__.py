"""`python -m bench [PART]…`: the figures of the README, side by side in one run, as ratios."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence

from temporalio.client import Client

from bench.measures import (
    cold,
    comparison,
    first_approval,
    flow,
    history,
    inbox,
    permits,
    recovery,
    waiting,
)
from bench.server import server
from holdfast.hosting.process_exit import exit_process

Part = Callable[[], Awaitable[str]]


def served(measure: Callable[[Client], Awaitable[str]]) -> Part:
    """The same with a server of its own."""

    async def part() -> str:
        async with server() as client:
            return await measure(client)

    return part


PARTS: dict[str, Part] = {
    "history": served(history.table),
    "flow": served(flow.table),
    "permits": served(permits.table),
    "peers": comparison.table,
    "approval": first_approval.table,
    "recovery": served(recovery.table),
    "waiting": served(lambda client: waiting.table(client, 1_000)),
    "open": served(lambda client: waiting.table(client, 10_000)),
    "inbox": served(lambda client: inbox.table(client, 10_000)),
    "cold": served(cold.table),
}
# Those that take minutes; the others take an hour, and are to be asked for.
SHORT = ("history", "flow")
# In place of a part that takes long, a little of it.
QUICK: dict[str, Part] = {
    "peers": comparison.quick,
    "approval": first_approval.quick,
    "waiting": served(lambda client: waiting.table(client, 40)),
    "inbox": served(lambda client: inbox.table(client, 60)),
}


async def main(parts: Sequence[Part]) -> None:
    """Measure and print."""
    for part in parts:
        print(f"{await part()}\n", flush=True)


def chosen() -> list[Part]:
    """The parts that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="The README's figures.")
    default = f"default: {' '.join(SHORT)}"
    parser.add_argument("part", nargs="*", help=f"one of {', '.join(PARTS)}; {default}")
    parser.add_argument("--quick", action="store_true", help="little of it, to see that it works")
    given = parser.parse_args()
    for part in given.part:
        if part not in PARTS:
            parser.error(f"there is no part `{part}`: choose from {', '.join(PARTS)}")
    offered = PARTS | QUICK if given.quick else PARTS
    return [offered[part] for part in given.part or SHORT]


if __name__ == "__main__":
    asyncio.run(main(chosen()))
    exit_process(0)
