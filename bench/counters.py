"""What a Temporal server counts itself: Actions, and requests to its database.

`action` counts what Temporal Cloud bills, `persistence_requests` what a self-hosted cluster's
database bears, both by namespace. What all runs of a cluster share is not counted here: requests
for no namespace, such as reads of a shard's queues, and the leases and settings of task queues.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

ACTIONS, PERSISTENCE = "action", "persistence_requests"
_SAMPLE = re.compile(rf"^({ACTIONS}|{PERSISTENCE})\{{(.*)\}} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
# The server publishes its counters once a second. After the end of a run it updates visibility, and
# removes tasks.
_QUIET_SECONDS = 1.5
_LAST_SECONDS = 15

_OF_TASK_QUEUES = ("GetTaskQueue", "UpdateTaskQueue", "GetTaskQueueUserData")

# By a metric, and the kind of the Action or the database's operation.
Counts = Counter[tuple[str, str]]


@dataclass(frozen=True)
class Counters:
    """The counters of a server; `urls` has one address for each of its processes."""

    urls: Sequence[str]
    namespace: str = "default"

    async def settled(self) -> Counts:
        """The counts, once nothing changes them any more, or 15 s later."""
        last = await self._read()
        for _ in range(int(_LAST_SECONDS / _QUIET_SECONDS)):
            await asyncio.sleep(_QUIET_SECONDS)
            counts = await self._read()
            if counts == last:
                break
            last = counts
        return last

    async def _read(self) -> Counts:
        async with httpx.AsyncClient() as http:
            pages = [(await http.get(url)).text for url in self.urls]
        return counted("\n".join(pages), self.namespace)


def counted(page: str, namespace: str) -> Counts:
    """The counts of a namespace on a page of metrics, summed over a server's processes."""
    found: Counts = Counter()
    for metric, labels, value in _SAMPLE.findall(page):
        of = dict(_LABEL.findall(labels))
        kind = of.get("action_type") or of["operation"]
        if of["namespace"] == namespace and kind not in _OF_TASK_QUEUES:
            found[metric, kind] += int(float(value))
    return found


def total(counts: Counts, metric: str) -> int:
    """The sum of a metric over all kinds."""
    return sum(count for (of, _), count in counts.items() if of == metric)
