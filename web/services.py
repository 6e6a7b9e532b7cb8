"""What the pages work with."""

from dataclasses import dataclass
from urllib.parse import quote

from temporalio.client import Client

from holdfast.client.run_handle import RunHandle
from holdfast.client.signing import Signer


@dataclass(frozen=True)
class Services:
    """The way to Temporal, and what the settings name besides.

    `signer` signs decisions, where the worker takes this inbox's word for who decides;
    `temporal_ui` is the origin of Temporal's UI, where it can be linked to. Programs may start runs
    of agents and tools that they write out where it `takes_definitions`, and on behalf of others
    where it `takes_principals`.
    """

    client: Client
    signer: Signer | None = None
    temporal_ui: str | None = None
    takes_definitions: bool = False
    takes_principals: bool = False

    def run(self, run_id: str) -> RunHandle:
        """A run by its id."""
        return RunHandle(self.client, run_id)

    def link_to(self, run_id: str, execution: str = "") -> str | None:
        """The page of a run in Temporal's own UI; without its `execution`, of the newest of that
        id."""
        if self.temporal_ui is None:
            return None
        where = f"namespaces/{quote(self.client.namespace, safe='')}/workflows"
        one = f"/{quote(execution, safe='')}" if execution else ""
        return f"{self.temporal_ui}/{where}/{quote(run_id, safe='')}{one}"
