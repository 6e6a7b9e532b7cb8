"""What tools and agents may name: what the worker has that they are for."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.runtime.addresses import Prefix
from holdfast.schemas.tool import Tool


@dataclass(frozen=True)
class DefinitionRegistry:
    """What this worker has.

    While a catalog loads, `broken` are the tools that did not, and `guessing` says that activities
    and tools are missing because a module could not be read: neither is a fault of those who name
    them. Where the endpoints or the agents' names could not be read, they are None.

    `folder` is the catalog's; `knowledge_urls` are the addresses that the worker may fetch from.
    `inline` says that what names these is written in a run's request, by whoever starts it.
    """

    task_queue: str
    activities: Collection[str] = ()
    endpoints: Collection[str] | None = ()
    agents: Collection[str] | None = ()
    tools: Mapping[str, Tool] = field(default_factory=dict)
    broken: Collection[str] = ()
    guessing: bool = False
    folder: Path | None = None
    knowledge_urls: Collection[Prefix] = ()
    inline: bool = False
