"""`python -m bench`: the figures of the README, side by side in one run, as ratios."""

import asyncio

from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from bench.history import Figure, measure, median
from hosting.dev_server import temporal_binary
from hosting.stopping import leave

TURNS = (10, 50, 100)
REPEATS = 3
WHAT = {
    "history_bytes": "history, KB",
    "events": "events",
    "wall_seconds": "wall time, s",
    "cpu_seconds": "CPU time of worker and model, s",
}


async def main() -> None:
    """Measure and print."""
    figures: list[Figure] = []
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(temporal_binary()), data_converter=pydantic_data_converter
    ) as environment:
        for turns in TURNS:
            figures += await measure(environment.client, turns, REPEATS)
    print(table(figures))


def table(figures: list[Figure]) -> str:
    """The figures as a Markdown table: medians, and ours divided by the plain workflow's."""
    rows = [
        "| turns | figure | holdfast | plain workflow | ratio |",
        "| ---: | --- | ---: | ---: | ---: |",
    ]
    for turns in TURNS:
        these = [figure for figure in figures if figure.turns == turns]
        for what, title in WHAT.items():
            scale = 1000 if what == "history_bytes" else 1
            ours, plain = (median(these, engine, what) / scale for engine in ("holdfast", "plain"))
            rows.append(f"| {turns} | {title} | {ours:.4g} | {plain:.4g} | {ours / plain:.3f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    asyncio.run(main())
    leave(0)
