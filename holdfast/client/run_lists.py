"""Many runs at once, from Temporal's lists: no worker is needed.

A filter is a query of Temporal. The result is as current as the lists, which can lag behind the
runs by a moment.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from temporalio.client import WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.errors import WRONG_COMMAND, HoldfastError, rpc_problem, wrong_command
from holdfast.runtime.text_safety import clean
from holdfast.schemas import names
from holdfast.schemas.run import RunStatus

MAX_RUNS: Final = 10_000
MAX_FILTER_CHARS: Final = 200
# The client retries for this time if the server is not available.
ANSWER: Final = timedelta(seconds=5)

RUN_TYPES: Final = f'WorkflowType IN ("{names.AGENT_WORKFLOW}", "{names.CALL_WORKFLOW}")'
# The parts of a run before continue-as-new are not runs of their own.
RUNS: Final = f'{RUN_TYPES} AND ExecutionStatus != "ContinuedAsNew"'
OPEN: Final = f'{RUNS} AND ExecutionStatus = "Running"'
# A run that was ended from outside could not write its own status; Temporal has it.
_ENDED: Final = {
    "failed": 'ExecutionStatus IN ("Failed", "TimedOut", "Terminated")',
    "cancelled": 'ExecutionStatus = "Canceled"',
}
_OWN: Final = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED)
_SPELLINGS: Final = {"canceled": "cancelled", "continued_as_new": "running"}


class MissingAttributesError(HoldfastError):
    """The namespace does not have the search attributes of the query."""

    def __init__(self, said: str) -> None:
        todo = "a worker that may registers them when it starts"
        super().__init__(f"Temporal cannot search for that: {said}", todo, WRONG_COMMAND)


@dataclass(frozen=True)
class RunListing:
    """A run as a list has it.

    Of its pending approvals, only the tools are known: `since` is when the newest was requested,
    `until` when the first expires, `groups` are the approvers. `single` marks a single call;
    `execution` distinguishes runs of one id; `parent` is the run that started it as a delegate.
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
    parent: str | None = None
    forked_from: str | None = None

    @property
    def call_of_parent(self) -> str | None:
        """Return the call of the parent that this run executes as a delegate."""
        if self.parent is None or not self.id.startswith(f"{self.parent}."):
            return None
        return self.id.removeprefix(f"{self.parent}.")

    @classmethod
    def of(cls, run: WorkflowExecution) -> "RunListing":
        """Read a run from a list."""
        attributes = {pair.key.name: pair.value for pair in run.typed_search_attributes}
        status = run.status.name.lower() if run.status else "unknown"
        status = _SPELLINGS.get(status, status)
        if run.status in _OWN:  # the run's own status is valid
            status = attributes.get(names.AGENT_STATUS) or status
        return cls(
            run.id,
            run.task_queue,
            run.start_time,
            status,
            attributes.get(names.AGENT_NAME),
            attributes.get(names.AGENT_PRINCIPAL),
            tuple(attributes.get(names.PENDING_TOOLS) or ()),
            tuple(attributes.get(names.PENDING_FOR) or ()),
            attributes.get(names.PENDING_SINCE),
            attributes.get(names.PENDING_UNTIL),
            run.workflow_type == names.CALL_WORKFLOW,
            run.run_id,
            run.parent_id,
            attributes.get(names.FORKED_FROM),
        )


@dataclass(frozen=True)
class RunFilter:
    """A filter for runs: all its fields must match; of `groups`, one is enough.

    As a text it is a query of Temporal.
    """

    agent: str = ""
    tool: str = ""
    principal: str = ""
    groups: tuple[str, ...] = ()
    id_prefix: str = ""
    status: RunStatus | None = None

    def __str__(self) -> str:
        return status_query(self.status) + self.terms()

    def terms(self) -> str:
        """Return the filter as further terms of a query; empty without a filter.

        Raises:
            HoldfastError: Temporal cannot search for one of the texts.
        """
        terms = []
        if self.agent:
            terms.append(f"{names.AGENT_NAME} = {_quoted(self.agent)}")
        if self.principal:
            terms.append(f"{names.AGENT_PRINCIPAL} = {_quoted(self.principal)}")
        if self.tool:
            terms.append(f"{names.PENDING_TOOLS} = {_of_list(self.tool)}")
        if self.groups:
            terms.append(f"{names.PENDING_FOR} IN ({', '.join(map(_of_list, self.groups))})")
        if self.id_prefix:
            terms.append(f"WorkflowId STARTS_WITH {_quoted(self.id_prefix)}")
        return "".join(f" AND {term}" for term in terms)

    def matches(self, run: RunListing) -> bool:
        """Report whether a run of the status matches the other fields."""
        return (
            (not self.agent or run.agent == self.agent)
            and (not self.principal or run.principal == self.principal)
            and (not self.tool or self.tool in run.tools)
            and (not self.groups or not set(self.groups).isdisjoint(run.groups))
            and run.id.startswith(self.id_prefix)
        )


EVERY_RUN: Final = RunFilter()


def status_query(status: RunStatus | None) -> str:
    """Return the query of every run with a status; without a status, of every run."""
    match status:
        case None:
            return RUNS
        case "failed" | "cancelled":
            return f"{RUNS} AND {_ENDED[status]}"
        case "running" | "awaiting_approval" | "awaiting_message":
            return f'{OPEN} AND {names.AGENT_STATUS} = "{status}"'
        case _:
            return f'{RUNS} AND ExecutionStatus = "Completed" AND {names.AGENT_STATUS} = "{status}"'


def equals_one_of(attribute: str, texts: Iterable[str]) -> str:
    """Return the term of a query for the runs with one of these values; raises as `terms` does."""
    return f"{attribute} IN ({', '.join(map(_quoted, texts))})"


@contextmanager
def explain_list_errors() -> Iterator[None]:
    """Raise what the Temporal server answers to a query for a list as a `HoldfastError`."""
    try:
        yield
    except RPCError as error:
        if error.status == RPCStatusCode.INVALID_ARGUMENT:
            raise MissingAttributesError(error.message) from error
        raise rpc_problem(error) from error


def _of_list(text: str) -> str:
    """Quote a value of a keyword list.

    The server builds its own search from the value, which a `"` would break.
    """
    if '"' in text:
        raise wrong_command(
            f"Temporal cannot search for {clean(text)!r} in a list", 'leave out the `"`'
        )
    return _quoted(text)


def _quoted(text: str) -> str:
    r"""Quote a text for a query, as Temporal's grammar requires.

    Stores in SQL find nothing that contains `"` or `\`, or begins or ends with `'`.
    """
    if len(text) > MAX_FILTER_CHARS:
        wrong = f"a text to search for has at most {MAX_FILTER_CHARS} characters"
        raise wrong_command(wrong, "give its beginning")
    inner = clean(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'
