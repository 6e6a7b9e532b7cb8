"""`python -m bench [PART]…`: the figures of the README, side by side in one run, as ratios."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from bench import cold, comparison, flow, history, recovery, waiting
from hosting.dev_server import CONFIG_OPTIONS, temporal_binary
from hosting.stopping import leave

Part = Callable[[Client], Awaitable[str]]
PARTS: dict[str, Part] = {
    "history": history.table,
    "flow": flow.table,
    "peers": comparison.table,
    "recovery": recovery.table,
    "waiting": waiting.thousand,
    "open": waiting.ten_thousand,
    "cold": cold.table,
}
# Those that take minutes; the others take an hour, and are to be asked for.
SHORT = ("history", "flow")
# In place of a part that takes long, a little of it.
QUICK: dict[str, Part] = {"peers": comparison.quick, "waiting": waiting.quick}
# The development server hands out 20 tasks a second, one every 50 ms, which no other server does:
# so wall times would be the server's, and the same for whatever runs on it.
LIFTED = ("--dynamic-config-value", "history.transferProcessorMaxPollRPS=10000")


async def main(parts: Sequence[Part]) -> None:
    """Measure and print."""
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(temporal_binary()),
        data_converter=pydantic_data_converter,
        dev_server_log_level="error",
        dev_server_extra_args=[*CONFIG_OPTIONS, *LIFTED],
    ) as environment:
        for part in parts:
            print(f"{await part(environment.client)}\n", flush=True)


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
    leave(0)
