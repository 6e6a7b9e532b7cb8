"""`python -m bench.cluster`: run a cluster until it is interrupted."""

import asyncio
import signal
import sys

from bench.cluster.cluster import cluster
from bench.cluster.programs import Unavailable


async def main() -> None:
    """Start it, print how it is reached, and wait."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with cluster() as server:
        print(f"ready: TEMPORAL_ADDRESS={server.client.service_client.config.target_host}")
        for url in server.counters.urls:
            print(f"metrics: {url}")
        sys.stdout.flush()
        await stopped.wait()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except Unavailable as missing:
        print(f"no cluster: {missing}", file=sys.stderr)
