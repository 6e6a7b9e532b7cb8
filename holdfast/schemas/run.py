"""The interface of a run: the request that starts it, its result, its status, its delegates."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AwareDatetime, Discriminator, Field, JsonValue, Tag, model_validator
from pydantic.json_schema import SkipJsonSchema

from holdfast.schemas import log_entry
from holdfast.schemas.agent import AgentDefinition, ToolChoice
from holdfast.schemas.base import Duration, Explicit, Json, KnownJson, Lenient, Strict
from holdfast.schemas.budget import Budget
from holdfast.schemas.decision import MAX_TOKEN_CHARACTERS, Kind, PendingApproval
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.message import ContextMessage, DataPart, Part, QueuedMessage, TextPart
from holdfast.schemas.tool import Schema, ShownTool, ToolDefinition

MAX_PENDING_TOLD = 50
MAX_ARGUMENTS_CHARACTERS = 200
# The last entries of a log that are returned with a call.
MAX_CALL_ENTRIES = 400
_Id = Annotated[str, Field(min_length=1, max_length=1000)]
# It is in a command that people are shown, and any client that may signal a run can send it.
_CallId = Annotated[str, Field(pattern=r"^t[0-9]{1,9}(c[0-9]{1,9}|-[A-Za-z]{1,20})$")]
_Line = Annotated[str, Field(max_length=MAX_ARGUMENTS_CHARACTERS)]


class DelegatePending(Explicit):
    """A pending call of a delegate, or of one of its own delegates."""

    workflow_id: _Id
    """The run that it is decided in."""
    call_id: _CallId
    kind: Kind
    tool: _Line
    label: _Line
    arguments: _Line = ""
    """The beginning of its arguments, in a line."""


class DelegateNews(Explicit):
    """The pending approvals of a delegate from now on, as far as they are reported."""

    call_id: _Id
    """The call of the parent that the delegate runs."""
    pending: Annotated[list[DelegatePending], Field(max_length=MAX_PENDING_TOLD)] = []


class DelegateView(Explicit):
    """A delegate that is running, as the query `status` of its parent shows it."""

    call_id: str
    tool: str
    agent: str
    """The agent whose run it is, or `anonymous`."""
    workflow_id: str
    status: str
    """`awaiting_approval` where something waits in it, else `running`."""
    pending: list[DelegatePending] = []


RunStatus = Literal[
    "running",
    "awaiting_approval",
    "awaiting_message",
    "completed",
    "stopped",
    "budget_exceeded",
    "failed",
    "cancelled",
]


Ended = Literal["completed", "stopped", "budget_exceeded"]


class Principal(Strict):
    """On whose behalf a run acts, and the scopes that they hold."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    """Who it is."""
    scopes: list[str] = []
    """What they may do."""
    expires_at: AwareDatetime | None = None
    """Until when calls with side effects or required scopes start: until the token expires. From
    then on they wait for the update `renew`."""
    # Of a verified token: what a caller writes is not read.
    team: SkipJsonSchema[str | None] = None


class PrincipalToken(Strict):
    """On whose behalf a run acts, by a token: a JWT, which the worker verifies."""

    token: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN_CHARACTERS)]
    """The JWT: `sub` is the principal's id; `scopes` (a list) or `scope` (a text, divided by
    spaces) are theirs; `jti` is the workflow id of the run, `aud` `holdfast:principal`."""


def _which(principal: Any) -> str:
    by_token = isinstance(principal, PrincipalToken) or (
        isinstance(principal, dict) and "token" in principal and "id" not in principal
    )
    return "token" if by_token else "plain"


# A problem is reported for the form that the sender has chosen.
AnyPrincipal = Annotated[
    Annotated[Principal, Tag("plain")] | Annotated[PrincipalToken, Tag("token")],
    Discriminator(_which),
]


class Conversation(Strict):
    """A run that stays open for further messages, until `close` or for `idle_timeout`."""

    idle_timeout: Duration | None = None
    """How long it waits for the next message, and then ends."""


class Fork(Strict):
    """The run that another one begins with, and its turn after which it begins."""

    run: _Id
    """The run, by its workflow id."""
    turn: Annotated[int, Field(ge=0)] | None = None
    """The number of the turn; 0: before the first. Unset, after the last turn that has ended."""


class RunRequest(Strict):
    """The input of `AgentWorkflow`."""

    agent: Annotated[str, Field(min_length=1)] | AgentDefinition
    """The name of an agent of the worker, or one that is written out here."""
    input: str | Annotated[list[Part], Field(min_length=1)] | dict[str, Json] | None = None
    """The task: a text, an object, or a list of parts, with files."""
    context: list[ContextMessage] = []
    """Messages from before the run, such as the transcript of another one. The entries of a run's
    log, as the query `context` returns them, are read as its messages."""
    state: dict[str, Json] | None = None
    """The state that the run begins with."""
    skill: str | None = None
    """The agent's skill that it uses; unset, a rule or the model chooses."""
    tool_choice: ToolChoice | None = None
    """In place of the agent's own."""
    budget: Budget = Budget()
    """Bounds tighter than the agent's."""
    principal: AnyPrincipal | None = None
    """On whose behalf the run acts."""
    approvals: Literal["ask", "deny"] = "ask"
    """`deny`: whatever would wait for a person is denied."""
    conversation: bool | Conversation = False
    """Stay open for further messages."""
    fork: Annotated[Fork | None, Field(exclude_if=lambda fork: fork is None)] = None
    """Begin with the log and the state of another run, after one of its turns."""

    @model_validator(mode="before")
    @classmethod
    def _read_log(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(context := data.get("context"), list):
            has_input = data.get("input") is not None
            return data | {"context": log_entry.with_messages(context, has_input=has_input)}
        return data

    @property
    def input_value(self) -> Any:
        """Return what `†input` is: of parts, their data of kind `input`, or their text."""
        if not isinstance(self.input, list):
            return self.input
        data = [part for part in self.input if isinstance(part, DataPart) and part.kind == "input"]
        texts = [part for part in self.input if isinstance(part, TextPart) and part.name is None]
        return data[-1].data if data else "\n\n".join(part.text for part in texts)

    def lack_of_input(self) -> str:
        """Return why there is nothing for the run to answer; empty if there is."""
        if self.input is not None or self.fork is not None:
            return ""  # only the worker knows whether the other run was answered
        if not self.context:
            return "there is nothing to do"
        is_answered = self.context[-1].role == "assistant"
        return "`context` holds no new message" if is_answered else ""


class CallRequest(Strict):
    """The input of `CallWorkflow`: one call of one tool.

    `arguments` may hold those meta-properties that the tool leaves open, as a model's call may.
    """

    tool: Annotated[str, Field(min_length=1)] | ToolDefinition
    """The name of a tool of the worker, or one that is written out here."""
    arguments: dict[str, Json] = {}
    """What the tool is called with."""
    principal: AnyPrincipal | None = None
    """On whose behalf the call is made."""
    approvals: Literal["ask", "deny"] = "ask"
    """`deny`: where it would wait for a person, it is denied."""


class CallPrincipal(Lenient):
    """On whose behalf a call runs, as its tool receives it."""

    id: str
    """The principal's id."""
    scopes: list[str] = []
    """The principal's scopes in this run, limited by the agent's `principalScopes`."""


class CallApprover(Lenient):
    """The person whose decision lets a call run: of a quorum, the last one."""

    by: str | None = None
    """The person's name, if the decision has one."""
    groups: list[str] = []
    """The groups that the person decides for."""
    at: AwareDatetime
    """When the run counted the decision."""
    signed: bool = False
    """Whether a checked token proves `by` and `groups`; otherwise any client may have sent them."""


class CallContext(Explicit):
    """What an activity with `input: call` receives of its run, besides the call and the tool.

    In JSON, it is under `key`, beside the data that the tool's `_scopes` name.
    """

    left_out_if_empty = ("data",)
    key: ClassVar = "_call"  # no kind of data begins with an underscore

    run_id: str
    """The run, by its workflow id."""
    call_id: str
    """The call, which is the activity's id."""
    idempotency_key: str
    """`<run>/<call>`: the same for every attempt of the call, and for no other call."""
    agent: str | None = None
    """The agent that makes the call; none for a single call."""
    instance: str | None = None
    """Whose data the call reads and writes, in a run with instances."""
    principal: CallPrincipal | None = None
    """On whose behalf the run acts; never with a token."""
    approver: CallApprover | None = None
    """Who approved the call; none if it needed no approval, or its timeout approved it."""
    data: dict[str, KnownJson] = {}
    """The data that the tool's `_scopes` name."""


class ModelUsage(Explicit):
    """What one of a run's models used."""

    model: str
    """The endpoint and the model's name: `openai/gpt-5`."""
    turns: int = 0
    """How many turns it answered."""
    usage: Usage = Usage(input_tokens=0, output_tokens=0, cached_tokens=0, cost=0.0)
    """What it used, for summaries and for calls that it answered too."""

    def plus(self, usage: Usage, turns: int) -> "ModelUsage":
        return ModelUsage(model=self.model, turns=self.turns + turns, usage=self.usage.plus(usage))


class RunResult(Explicit):
    """The result of a run that ended by itself, or of a single call.

    Its `turns` are 0, its `output` is the result of the call.
    """

    left_out_if_empty = ("reason", "instances", "models", "undelivered")

    status: Ended
    """How it ended."""
    reason: str | None = None
    """Why it has no output, if its budget was used up."""
    output: KnownJson = None
    """The outcome."""
    state: KnownJson = None
    """The state that it ended with: in a run with instances, what is for all of them."""
    instances: dict[str, KnownJson] = {}
    """What each instance has in its own state: the keys that were written in it, as it sees them.
    Only in a run with instances."""
    turns: int
    """How often the model was asked."""
    calls: int
    """How many calls there were, those refused included."""
    usage: Usage
    """What it used."""
    models: list[ModelUsage] = []
    """What each model used, without delegates'. Only of an agent with more than one model."""
    undelivered: list[QueuedMessage] = []
    """The messages that no model has read, the first 200. Only where there are some."""


class Spent(Explicit):
    """What a run had used when it failed: the details of its failure."""

    turns: int
    """How often the model was asked."""
    calls: int
    """How many calls there were, those refused included."""
    usage: Usage
    """What it used."""


class ReportedCall(Explicit):
    """A call of the current turn: its `stage` is that of `engine/call/states.py`."""

    call_id: str
    tool: str
    stage: str


class ReportedApproval(Explicit):
    """A pending approval in short; the query `approvals` has all of it."""

    call_id: str
    kind: Kind
    tool: str
    label: str


class LogEnd(Explicit):
    """The number of the last entry of a log, and its digest."""

    entries: int = 0
    digest: str = ""


class RunError(Explicit):
    """Why a run failed or was cancelled, or the last message of a conversation has no answer."""

    code: str
    """The kind of error."""
    message: str
    """What happened, and what to do."""


class RunReport(Explicit):
    """What a run is doing: the answer of the query `status`.

    `turn` is the current one, or the last; `calls` are its calls; `usage` is that of the run;
    `budget` has what is `used` of each budget, and its `limit`; no model has read what is `queued`;
    `error` is why a run failed or was cancelled, or used up the budget of the last message of a
    conversation, which waits for the next one; `title` is by that of its agent.
    Of a run that ended, `output_schema` is that of its output, if it has one.
    """

    status: RunStatus
    title: str = ""
    output_schema: Schema | bool | None = None
    turn: int = 0
    skill: str | None = None
    instances: list[str] = []
    pending: list[ReportedApproval] = []
    calls: list[ReportedCall] = []
    usage: Usage = Usage()
    budget: dict[str, dict[str, JsonValue]] = {}
    error: RunError | None = None
    delegates: list[DelegateView] = []
    queued: list[QueuedMessage] = []
    log: LogEnd = LogEnd()

    @property
    def delegate_approvals(self) -> list[DelegatePending]:
        return [there for delegate in self.delegates for there in delegate.pending]


class CallReport(Explicit):
    """What people see beside a call: the answer of the query `call`.

    `pending` has all pending approvals, `tools` by name those of the question about the call, also
    once it is decided, and `entries` the last of the log. What would make it too large is missing.
    """

    status: RunReport
    pending: list[PendingApproval] = []
    tools: dict[str, ShownTool] = {}
    entries: list[dict[str, Any]] = []

    def approval(self, call_id: str) -> PendingApproval | None:
        return next((one for one in self.pending if one.call_id == call_id), None)


class PageRequest(Strict):
    """Which part of a log is wanted: what stands after number `after`, at most `limit` entries."""

    after: Annotated[int, Field(ge=0)] = 0
    """The number of the last entry that is known already."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """The most entries."""
