"""`python -m tests.faults`: try faults on runs, and count what comes of it.

Without options: the systematic pass. `--for 1h --seed 6`: what chance picks, for so long. `--only`:
one plan, as a pass has named it. `--cluster`: a smaller pass on Temporal's services and PostgreSQL,
whose parts are killed. `--write`: the counts into `docs/faults.md`, from a tree without changes.
The exit code is 1 where anything is wrong.
"""

import argparse
import asyncio
import itertools
import json
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack

from bench.cluster.programs import Unavailable
from bench.published import clean_commit, write_result
from holdfast.hosting.process_exit import exit_process
from holdfast.schemas.base import parse_duration
from tests.faults.harness.plans import SYSTEMATIC_ALONE, Plan, by_chance, on_cluster, systematic
from tests.faults.harness.programs.cluster import ClusterGround, cluster_ground
from tests.faults.harness.scenarios import SCENARIOS
from tests.faults.harness.trials import Unfit, stage
from tests.faults.page import COUNTS, RESULT, table
from tests.faults.page import read as read_counts

LANES = 8


def read(arguments: list[str]) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="make test-faults ARGS=…", description=__doc__)
    add = parser.add_argument
    add("--scenario", action="append", choices=list(SCENARIOS), help="repeatable; default: all")
    add("--for", dest="length", type=parse_duration, metavar="TIME", help="by chance, so long")
    add("--seed", type=int, default=0, help="of chance")
    add("--only", type=Plan.read, metavar="PLAN", help="this alone, as a pass has named it")
    add("--times", type=int, default=1, help="how often")
    add("--lanes", type=int, default=LANES, help=f"how many at a time; default: {LANES}")
    add("--cluster", action="store_true", help="on a cluster, one at a time")
    add("--write", action="store_true", help="the counts of a whole pass into docs/faults.md")
    given = parser.parse_args(arguments)
    if given.write and (given.only or given.scenario):
        parser.error("`--write` is for a whole pass, without `--only` and `--scenario`")
    return given


def plans(
    given: argparse.Namespace, points: dict[str, list[str]], cluster: ClusterGround | None
) -> Iterator[Plan]:
    """What is to be tried."""
    if given.only is not None:
        return itertools.repeat(given.only, given.times)
    if cluster is not None:
        return on_cluster(points, cluster.kinds)
    if given.length is not None:
        return by_chance(points, given.seed)
    return systematic(points)


async def main(arguments: list[str]) -> int:
    """A pass, from its begin to its counts."""
    given = read(arguments)
    commit = clean_commit()
    if given.write and not commit:
        print("`--write`: commit the changes of this tree first", file=sys.stderr)
        return 2
    # What chance or a cluster does to a run may take longer than a deadline.
    all_names = [
        name
        for name in SCENARIOS
        if name not in SYSTEMATIC_ALONE or not (given.cluster or given.length is not None)
    ]
    names = [given.only.scenario] if given.only else given.scenario or all_names
    seconds = None if given.length is None else given.length.total_seconds()
    async with AsyncExitStack() as stack:
        needs_cluster = given.cluster or (given.only is not None and given.only.of_a_cluster)
        cluster = await stack.enter_async_context(cluster_ground()) if needs_cluster else None
        grounds = (cluster, 0) if cluster else ()
        on = await stack.enter_async_context(stage(lambda text: print(text, flush=True), *grounds))
        if cluster is not None:
            on.frail.put_nowait(cluster)
        try:
            points = await on.undisturbed(names)
        except Unfit as error:
            print(error, file=sys.stderr)
            return 1
        lanes = 1 if cluster else given.lanes
        await on.side_by_side(plans(given, points, cluster), lanes, seconds)
    if given.write:
        name = "cluster" if given.cluster else "systematic" if given.length is None else "random"
        counts = {"commit": commit, "seed": given.seed, **on.tally.to_json()}
        text = json.dumps(counts, indent=2, ensure_ascii=False)
        (COUNTS / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
        write_result(RESULT, table(read_counts()))
    print(on.tally.in_lines())
    return 0 if on.tally.clean else 1


if __name__ == "__main__":
    try:
        exit_process(asyncio.run(main(sys.argv[1:])))
    except Unavailable as missing:
        print(f"not tried: {missing}", file=sys.stderr)
