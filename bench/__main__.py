"""`python -m bench [PART]…`: the figures of the README, side by side in one run, as ratios."""

import argparse
import asyncio
from collections.abc import Sequence

from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from bench import flow, history
from hosting.dev_server import temporal_binary
from hosting.stopping import leave

PARTS = {"history": history.table, "flow": flow.table}


async def main(parts: Sequence[str]) -> None:
    """Measure and print."""
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(temporal_binary()), data_converter=pydantic_data_converter
    ) as environment:
        for part in parts:
            print(f"{part}\n\n{await PARTS[part](environment.client)}\n", flush=True)


def chosen() -> list[str]:
    """The parts that were asked for; all, if none was."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="The README's figures.")
    parser.add_argument("part", nargs="*", help=f"one of {', '.join(PARTS)}; default: all")
    parts: list[str] = parser.parse_args().part
    for part in parts:
        if part not in PARTS:
            parser.error(f"there is no part `{part}`: choose from {', '.join(PARTS)}")
    return parts or list(PARTS)


if __name__ == "__main__":
    asyncio.run(main(chosen()))
    leave(0)
