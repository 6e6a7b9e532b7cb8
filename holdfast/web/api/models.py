"""Requests and responses of the HTTP API, beside the models of runs."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, JsonValue

from holdfast.schemas import names
from holdfast.schemas.base import Json, Lenient, Strict
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.shared_budgets import BudgetView
from holdfast.schemas.message import Delivered
from holdfast.schemas.run import CallRequest, PrincipalToken, RunError, RunRequest, RunResult, Spent
from holdfast.schemas.tool import Schema, ShownTool

RunId = Annotated[str, Field(min_length=1, max_length=200)]
TaskQueue = Annotated[str, Field(min_length=1, max_length=200)]


class _New(Strict):
    id: RunId | None = None
    """Its id (default: one of its own). An id is taken once."""
    task_queue: TaskQueue = names.TASK_QUEUE
    """The task queue of its worker."""


class NewRun(_New, RunRequest):
    """A run to be started: what `AgentWorkflow` is given, and where it runs under what id."""


class NewCall(_New, CallRequest):
    """A single call to be made: what `CallWorkflow` is given, and where it runs under what id."""


class NewMessage(Delivered):
    """A message to a run."""

    role: Literal["user"] = "user"
    """The sender."""


class NewClaim(Strict):
    """A claim on a pending call, in the name of the sender."""

    call_id: Annotated[str, Field(min_length=1, max_length=200)]
    """The call."""
    give_back: bool = False
    """End your claim."""


class NewToken(PrincipalToken):
    """A new token of the principal of a run."""


FILES_FIELD: Final[Mapping[type[Strict], str]] = {NewRun: "input", NewMessage: "content"}
"""The requests that take files, and the field to which each file is added as a part."""


class Started(Lenient):
    """The run that was started or that received the message."""

    run: str
    """The run's id."""


class AnswerResponse(Lenient):
    """A conversation's answer to a message."""

    run: str
    """The run's id."""
    answer: JsonValue
    """The answer."""


class RunView(Lenient):
    """The state of a run: of a running one the query `status`, of an ended one its `result`, or its
    `error` and usage.
    """  # noqa: D205 - the text is part of the served description

    run: str
    """The run's id."""
    status: str
    """In one word: `running`, `awaiting_approval`, `completed`, …"""
    turn: int | None = None
    """The current turn, or the last one."""
    skill: str | None = None
    """The skill that it uses."""
    pending: list[dict[str, Any]] | None = None
    """The pending approvals: `{callId, kind, tool, label}`."""
    calls: list[dict[str, Any]] | None = None
    """The calls of the turn: `{callId, tool, stage}`."""
    waits: list[str] | None = None
    """What running calls wait for: a worker on their task queue, or a further attempt."""
    usage: dict[str, Any] | None = None
    """The usage so far."""
    budget: dict[str, Any] | None = None
    """How much of each budget is left."""
    delegates: list[dict[str, Any]] | None = None
    """The running delegates."""
    queued: list[dict[str, Any]] | None = None
    """The messages that the run has not read: `{number, role, delivery, text}`."""
    result: RunResult | None = None
    """The result."""
    error: RunError | None = None
    """The error, for a run that failed."""
    spent: Spent | None = None
    """The usage of a run that failed, where it is known."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set."""
        data = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        if self.result is not None:
            data["result"] = self.result.to_json()
        if self.spent is not None:
            data["spent"] = self.spent.to_json()
        return data


class LogPage(Lenient):
    """A part of a run's log."""

    entries: list[dict[str, Any]]
    """The entries; none, where there are no more."""
    next: int
    """What to give as `after` to get those that come next."""


class Approvals(Lenient):
    """The pending approvals of a run."""

    approvals: list[PendingApproval]
    """Each of them, whole."""


class _Page(Lenient):
    next: str | None = None
    """What to give as `after` for the next page; left out on the last one."""


class RunEntry(Lenient):
    """A run in a list."""

    run: str
    """The run's id. One that was used again is listed for each run."""
    status: str
    """In one word: `running`, `awaiting_approval`, `completed`, …"""
    started: str
    """When it started."""
    agent: str | None = None
    """Its agent; a single call has none."""
    principal: str | None = None
    """On whose behalf it acts."""
    parent: str | None = None
    """The run that started it as a delegate."""


class RunPage(_Page):
    """Runs: open ones first, the latest started first; then the others, the latest ended first."""

    runs: list[RunEntry]
    """The runs of the page; there may be none on a page that others follow."""


class ApprovalEntry(Lenient):
    """A pending approval in a list; or a run with pending approvals that has not answered."""

    run: str
    """The run's id."""
    agent: str | None = None
    """Its agent; a single call has none."""
    principal: str | None = None
    """On whose behalf it acts."""
    approval: PendingApproval | None = None
    """The pending approval, whole."""
    unanswered: str | None = None
    """Why it is not known what is pending, where the run did not answer in time."""


class ApprovalPage(_Page):
    """Pending approvals of all runs."""

    approvals: list[ApprovalEntry]
    """Those of the runs of the page."""


class AgentEntry(Lenient):
    """An agent of the catalog."""

    name: str
    """Its name: the `agent` of a run's request."""
    description: str = ""
    """What it does."""
    input: Schema | bool | None = None
    """The schema of its input, where it has one."""
    output: Schema | bool | None = None
    """The schema of its output, where it has one."""


class AgentPage(_Page):
    """Agents, by name."""

    agents: list[AgentEntry]
    """The agents of the page."""


class BudgetPage(_Page):
    """Budgets, by name and scope."""

    budgets: list[BudgetView]
    """The budgets of the page."""


class ToolPage(_Page):
    """Tools, by name."""

    tools: list[ShownTool]
    """The tools of the page."""


class Token(Lenient):
    """More of a model's answer. The tokens of the last attempt of a turn add up to its answer."""

    type: Literal["token"]
    """More of an answer."""
    turn: int
    """The turn that is answered."""
    attempt: int
    """A new attempt replaces the one before."""
    offset: int
    """How many characters of the answer precede these."""
    text: str
    """The characters. In composed calling they are those of its JSON."""


class ToolCallDelta(Lenient):
    """The calls that a model is writing: it replaces the last one of its kind."""

    type: Literal["tool_call_delta"]
    """Calls that are being written."""
    turn: int
    """The turn that is answered."""
    attempt: int
    """The attempt at it."""
    calls: list[dict[str, Any]]
    """The last of the calls, with the end of their arguments so far: `{tool, arguments}`."""


class ToolUpdate(Lenient):
    """The progress of a running call: it replaces the last one of that call."""

    type: Literal["tool_update"]
    """News of a call."""
    turn: int
    """The turn of the call."""
    call_id: str
    """The call."""
    attempt: int
    """The attempt at it."""
    details: JsonValue
    """The details of its activity's last heartbeat; of a call that the model answers, the end of
    that answer so far: `{text, offset}`."""


class ThreadMessage(Strict, extra="ignore"):
    """A message of a thread. Of the user's new ones, the text is sent to the run, once."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    role: str
    content: str | list[dict[str, Json]] = ""

    @property
    def text(self) -> str:
        """Return the text, or that of its parts."""
        parts = [{"text": self.content}] if isinstance(self.content, str) else self.content
        return "\n".join(str(each["text"]) for each in parts if "text" in each)


class ResumeEntry(Strict, extra="ignore"):
    """An answer to an interrupt. `cancelled` decides nothing: it is left to other approvers."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Json = None


class RunAgentInput(Strict, extra="ignore"):
    """The input of an AG-UI run. Any other field is ignored."""

    thread_id: Annotated[str, Field(min_length=1, max_length=500)]
    run_id: str
    messages: list[ThreadMessage]
    resume: list[ResumeEntry] = []
