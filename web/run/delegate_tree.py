"""The delegates of a run and their delegates, running and ended, from Temporal's lists."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from temporalio.client import Client

from holdfast.client.command_errors import explain_rpc_errors
from holdfast.client.run_lists import RunListing
from holdfast.runtime.text_safety import clean, one_line
from holdfast.schemas import names
from holdfast.web import page_text
from holdfast.web.pages import address
from holdfast.web.run.snapshot import LoadedRun

MAX_DELEGATES: Final = 100
_NAME_CHARS: Final = 100


@dataclass
class DelegateBranch:
    """A delegate with its own delegates."""

    call: str
    agent: str
    href: str
    status: str
    tone: str
    children: list["DelegateBranch"] = field(default_factory=list)


@dataclass(frozen=True)
class DelegateTree:
    """The delegates of a run; `is_cut`: not all are shown."""

    branches: Sequence[DelegateBranch] = ()
    is_cut: bool = False


async def read_delegates(client: Client, seen: LoadedRun) -> DelegateTree:
    """Return the delegates of a run.

    Raises:
        CommandError: Temporal does not answer.
    """
    root = seen.info.root.replace("\\", "\\\\").replace('"', '\\"')
    query = (
        f'RootWorkflowId = "{root}" AND WorkflowType = "{names.AGENT_WORKFLOW}"'
        ' AND ExecutionStatus != "ContinuedAsNew"'
    )
    with explain_rpc_errors():
        found = [run async for run in client.list_workflows(query, limit=MAX_DELEGATES + 1)]
    children: dict[str | None, list[DelegateBranch]] = defaultdict(list)
    branches: dict[str, DelegateBranch] = {}
    for run in sorted(found, key=lambda run: run.start_time):
        listing = RunListing.of(run)
        label, tone = page_text.status_label(listing.status)
        call = clean(run.id.removeprefix(f"{run.parent_id}."))
        agent = one_line(listing.agent or "a run", _NAME_CHARS)
        branches[run.id] = DelegateBranch(call, agent, address("run", run.id), label, tone)
        children[run.parent_id].append(branches[run.id])
    for run_id, branch in branches.items():
        branch.children = children[run_id]
    return DelegateTree(children[seen.info.id], len(found) > MAX_DELEGATES)
