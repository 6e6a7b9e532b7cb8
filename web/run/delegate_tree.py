"""The delegates of a run and their delegates, running and ended.

Temporal's lists contain all of them, without a worker. If the namespace cannot search for them, the
run's status has the running ones.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.command_errors import rpc_problem
from holdfast.runtime.text_safety import clean, one_line
from holdfast.schemas import names
from holdfast.schemas.internal.delegate import DelegateView
from holdfast.web import page_text
from holdfast.web.pages import address
from holdfast.web.run.snapshot import LoadedRun

MAX_DELEGATES: Final = 100
_NAME_CHARS: Final = 100
# Temporal's spelling.
_CANCELED: Final = "canceled"
# A run that was ended from outside could not write its own status.
_OWN: Final = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED)


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
    try:
        found = [run async for run in client.list_workflows(query, limit=MAX_DELEGATES + 1)]
    except RPCError as error:
        if error.status != RPCStatusCode.INVALID_ARGUMENT:
            raise rpc_problem(error) from error
        views = [DelegateView.read(view) for view in seen.status.get("delegates", [])]
        return DelegateTree(
            [_branch(view.call_id, view.agent, view.workflow_id, view.status) for view in views]
        )
    children: dict[str | None, list[DelegateBranch]] = defaultdict(list)
    branches: dict[str, DelegateBranch] = {}
    for run in sorted(found, key=lambda run: run.start_time):
        values = {pair.key.name: pair.value for pair in run.typed_search_attributes}
        status = "" if run.status is None else run.status.name.lower()
        if run.status in _OWN:
            status = str(values.get(names.AGENT_STATUS) or status)
        agent, call = str(values.get(names.AGENT_NAME) or "a run"), f"{run.parent_id}."
        branches[run.id] = _branch(run.id.removeprefix(call), agent, run.id, status)
        children[run.parent_id].append(branches[run.id])
    for run_id, branch in branches.items():
        branch.children = children[run_id]
    return DelegateTree(children[seen.info.id], len(found) > MAX_DELEGATES)


def _branch(call: str, agent: str, run_id: str, status: str) -> DelegateBranch:
    label, tone = page_text.status_label("cancelled" if status == _CANCELED else status)
    agent = one_line(agent, _NAME_CHARS)
    return DelegateBranch(clean(call), agent, address("run", run_id), label, tone)
