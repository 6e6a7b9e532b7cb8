"""`python -m bench [--cluster] [--all] [PART]…`: the figures, side by side in one run, as ratios.

Each part has a server of its own: the embedded one, or a cluster. From a tree without changes, it
writes what it has measured into the docs, with the commit.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial

from temporalio.client import Client

from bench.cluster.cluster import cluster
from bench.cluster.programs import Unavailable
from bench.measures import (
    cold,
    comparison,
    counts,
    first_approval,
    flow,
    history,
    inbox,
    lists,
    permits,
    recovery,
    rollout,
    shared,
    validation,
    viewers,
    waiting,
)
from bench.published import clean_commit, write_result, written
from bench.server import Server, Start, embedded
from holdfast.hosting.process_exit import exit_process

Part = Callable[[Start], Awaitable[str]]


def served(measure: Callable[[Server], Awaitable[str]]) -> Part:
    """The same with a server of its own."""

    async def part(start: Start) -> str:
        async with start() as server:
            return await measure(server)

    return part


def connected(measure: Callable[[Client], Awaitable[str]]) -> Part:
    """The same with a client of a server of its own."""
    return served(lambda server: measure(server.client))


PARTS: dict[str, Part] = {
    "history": served(history.table),
    "flow": connected(flow.table),
    "permits": connected(permits.table),
    "counts": connected(counts.table),
    "peers": comparison.table,
    "turns": partial(comparison.table, sizes=comparison.TURNS),
    "crowd": partial(comparison.table, sizes=comparison.CROWD),
    "growth": partial(comparison.table, sizes=comparison.GROWTH),
    "replay": partial(comparison.table, sizes=comparison.REPLAY),
    "approval": lambda _: first_approval.table(),
    "recovery": connected(recovery.table),
    "shared": served(shared.table),
    "waiting": served(lambda server: waiting.table(server, 1_000)),
    "open": served(lambda server: waiting.table(server, 10_000)),
    "inbox": connected(lambda client: inbox.table(client, 10_000)),
    "lists": served(lambda server: lists.table(server, 1_000, 100, 60)),
    "viewers": served(viewers.table),
    "validation": lambda _: validation.table(),
    "cold": connected(cold.table),
    "rollout": served(lambda server: rollout.table(server, 60)),
}
# Those that take minutes; the others take an hour, and are to be asked for.
SHORT = ("history", "flow")
# All of them once: `peers` is all that these four measure.
WHOLE = [name for name in PARTS if name not in ("turns", "crowd", "growth", "replay")]
# In place of a part that takes long, a little of it.
QUICK: dict[str, Part] = {
    "peers": partial(comparison.table, sizes=comparison.QUICK),
    "approval": lambda _: first_approval.quick(),
    "waiting": served(lambda server: waiting.table(server, 40)),
    "inbox": connected(lambda client: inbox.table(client, 60)),
    "lists": served(lambda server: lists.table(server, 60, 10, 6)),
}
# On a cluster.
CLUSTER: dict[str, Part] = {
    "turns": partial(comparison.table, sizes=comparison.CLUSTER_TURNS),
    "crowd": partial(comparison.table, sizes=comparison.CLUSTER_CROWD),
    "waiting": PARTS["waiting"],
    "rollout": PARTS["rollout"],
}


async def main(given: argparse.Namespace) -> None:
    """Measure and print."""
    offered = CLUSTER if given.cluster else PARTS | QUICK if given.quick else PARTS
    default = CLUSTER if given.cluster else WHOLE if given.all else SHORT
    start, page = (cluster, "cluster") if given.cluster else (embedded, "bench")
    commit = "" if given.quick else clean_commit()
    if not commit:
        print("not written into the docs: little of it, or the tree has changes", file=sys.stderr)
    for name in given.part or default:
        text = await offered[name](start)
        print(f"{text}\n", flush=True)
        if commit:
            write_result(f"{page} {name}", written(text, commit))


def read() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="The figures.")
    default = f"default: {' '.join(SHORT)}"
    parser.add_argument("part", nargs="*", help=f"one of {', '.join(PARTS)}; {default}")
    parser.add_argument("--quick", action="store_true", help="little of it, to see that it works")
    parser.add_argument("--all", action="store_true", help="every part, which takes hours")
    on_cluster = f"on Temporal's services and PostgreSQL: {', '.join(CLUSTER)}"
    parser.add_argument("--cluster", action="store_true", help=on_cluster)
    given = parser.parse_args()
    offered = CLUSTER if given.cluster else PARTS
    for part in given.part:
        if part not in offered:
            parser.error(f"there is no part `{part}`: choose from {', '.join(offered)}")
    return given


if __name__ == "__main__":
    try:
        asyncio.run(main(read()))
    except Unavailable as missing:
        print(f"not measured: {missing}", file=sys.stderr)
    exit_process(0)
