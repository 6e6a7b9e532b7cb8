"""Many runs at once, as Temporal's lists have them: no worker is needed.

What is asked for is a query of Temporal's own; what comes back is as new as the lists, which may be
a moment behind the runs. `client.visibility` sorts them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.command_errors import WRONG_COMMAND, CommandError, rpc_problem, wrong_command
from holdfast.runtime.text_safety import clean
from holdfast.schemas import names

MAX_RUNS: Final = 10_000
MAX_FILTER_CHARS: Final = 200
# The client tries again for as long as this where the server is away.
ANSWER: Final = timedelta(seconds=5)

# What a run has left behind when it continued as new is no run of its own.
RUNS: Final = (
    f'WorkflowType IN ("{names.AGENT_WORKFLOW}", "{names.CALL_WORKFLOW}")'
    ' AND ExecutionStatus != "ContinuedAsNew"'
)
OPEN: Final = f'{RUNS} AND ExecutionStatus = "Running"'
# A run that was ended from outside could not write its own status any more; Temporal knows it.
_ENDED: Final = {
    "failed": 'ExecutionStatus IN ("Failed", "TimedOut", "Terminated")',
    "cancelled": 'ExecutionStatus = "Canceled"',
}
_OWN: Final = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED)
_SPELT: Final = {"canceled": "cancelled", "continued_as_new": "running"}


class MissingAttributesError(CommandError):
    """The namespace has not the search attributes by which that is found."""

    def __init__(self, said: str) -> None:
        todo = "a worker that may registers them when it starts"
        super().__init__(f"Temporal cannot search for that: {said}", todo, WRONG_COMMAND)


@dataclass(frozen=True)
class RunListing:
    """A run as a list has it.

    Of its pending approvals, only the tools are known: `since` is when the newest was requested,
    `until` when the first expires, `groups` are the approvers. `single` marks a single call;
    `execution` distinguishes runs of one id.
    """

    id: str
    task_queue: str
    started: datetime
    status: str
    agent: str | None = None
    principal: str | None = None
    tools: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    single: bool = False
    execution: str = ""

    @classmethod
    def of(cls, run: WorkflowExecution) -> "RunListing":
        """What a list says of a run."""
        said = {pair.key.name: pair.value for pair in run.typed_search_attributes}
        return cls(
            run.id,
            run.task_queue,
            run.start_time,
            _status(run, said.get(names.AGENT_STATUS)),
            said.get(names.AGENT_NAME),
            said.get(names.AGENT_PRINCIPAL),
            tuple(said.get(names.PENDING_TOOLS) or ()),
            tuple(said.get(names.PENDING_FOR) or ()),
            said.get(names.PENDING_SINCE),
            said.get(names.PENDING_UNTIL),
            run.workflow_type == names.CALL_WORKFLOW,
            run.run_id,
        )


@dataclass(frozen=True)
class RunFilter:
    """Which runs are wanted: those of which all of this is so. Of `groups`, one is enough."""

    agent: str = ""
    tool: str = ""
    principal: str = ""
    groups: tuple[str, ...] = ()
    id_prefix: str = ""

    def terms(self) -> str:
        """It, as further terms of a query; empty where every run is wanted.

        Raises:
            CommandError: Temporal cannot search for one of the texts.
        """
        return "".join(f" AND {term}" for term in self._terms())

    def _terms(self) -> Iterator[str]:
        if self.agent:
            yield f"{names.AGENT_NAME} = {_quoted(self.agent)}"
        if self.principal:
            yield f"{names.AGENT_PRINCIPAL} = {_quoted(self.principal)}"
        if self.tool:
            yield f"{names.PENDING_TOOLS} = {_of_list(self.tool)}"
        if self.groups:
            yield f"{names.PENDING_FOR} IN ({', '.join(map(_of_list, self.groups))})"
        if self.id_prefix:
            yield f"WorkflowId STARTS_WITH {_quoted(self.id_prefix)}"


def status_query(status: str | None) -> str:
    """The query of every run with a status; without one, of every run."""
    match status:
        case None:
            return RUNS
        case "failed" | "cancelled":
            return f"{RUNS} AND {_ENDED[status]}"
        case "running" | "awaiting_approval" | "awaiting_message":
            return f'{OPEN} AND {names.AGENT_STATUS} = "{status}"'
        case _:
            return f'{RUNS} AND ExecutionStatus = "Completed" AND {names.AGENT_STATUS} = "{status}"'


async def list_runs(client: Client, query: str, limit: int = MAX_RUNS) -> list[RunListing]:
    """The runs that a query finds, in the server's own order.

    Raises:
        LacksAttributesError: the namespace knows not all that the query names.
        CommandError: Temporal does not answer.
    """
    found = client.list_workflows(query, limit=limit, rpc_timeout=ANSWER)
    try:
        return [RunListing.of(run) async for run in found]
    except RPCError as error:
        raise _problem(error) from error


async def count_runs(client: Client, query: str) -> int:
    """How many runs a query finds; raises as `listed` does."""
    try:
        return (await client.count_workflows(query, rpc_timeout=ANSWER)).count
    except RPCError as error:
        raise _problem(error) from error


def _problem(error: RPCError) -> CommandError:
    if error.status == RPCStatusCode.INVALID_ARGUMENT:
        return MissingAttributesError(error.message)
    return rpc_problem(error)


def _status(run: WorkflowExecution, own: str | None) -> str:
    """The run's own word where it still holds, else Temporal's."""
    if own and run.status in _OWN:
        return own
    temporal = run.status.name.lower() if run.status else "unknown"
    return _SPELT.get(temporal, temporal)


def _of_list(text: str) -> str:
    """Quote a value of a keyword list.

    The server makes a search of its own of it, which a `"` would break.
    """
    if '"' in text:
        raise wrong_command(
            f"Temporal cannot search for {clean(text)!r} in a list", 'leave out the `"`'
        )
    return _quoted(text)


def _quoted(text: str) -> str:
    r"""Quote a text for a query, as Temporal's grammar has it.

    Stores in SQL find nothing that contains `"` or `\`, or begins or ends with `'`.
    """
    if len(text) > MAX_FILTER_CHARS:
        wrong = f"a text to search for has at most {MAX_FILTER_CHARS} characters"
        raise wrong_command(wrong, "give its beginning")
    inner = clean(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'
