"""Every durable name, defined once.

These names are in histories, in clients of other languages and in people's scripts. A name can be
added and is never changed.
"""

import hashlib
import re
from enum import StrEnum
from typing import Final, Literal
from urllib.parse import quote

from holdfast.schemas.base import Lenient

# What is installed; the package and the command are `holdfast`.
DISTRIBUTION: Final = "holdfast-agents"

TASK_QUEUE: Final = "holdfast"

# Workflows.
AGENT_WORKFLOW: Final = "AgentWorkflow"
CALL_WORKFLOW: Final = "CallWorkflow"
# An agent's run that tests it against a recorded one: by its type, no list or count has it.
BACKTEST_WORKFLOW: Final = "BacktestWorkflow"
WORKFLOWS: Final = (AGENT_WORKFLOW, CALL_WORKFLOW, BACKTEST_WORKFLOW)
# Not among them: it is what runs keep, and no run.
MEMORY_WORKFLOW: Final = "MemoryWorkflow"
# And what runs that share a budget have used.
BUDGET_WORKFLOW: Final = "BudgetWorkflow"
# And when the approvers of the namespace are away: one workflow, of this id.
ABSENCES_WORKFLOW: Final = "AbsencesWorkflow"
ABSENCES_ID: Final = "holdfast-absences"

# Activities of the worker itself. A tool's activity may not take one of these names.
GENERATE: Final = "generate"
RESOLVE_AGENT: Final = "resolve_agent"
RESOLVE_TOOL: Final = "resolve_tool"
FETCH_KNOWLEDGE: Final = "fetch_knowledge"
MEMORY_READ: Final = "memory_read"
MEMORY_WRITE: Final = "memory_write"
MEMORY_SEARCH: Final = "memory_search"
CHECK_TOKEN: Final = "check_token"
FIND_SIGNALS: Final = "find_signals"
RECORD_SPANS: Final = "record_spans"
TELL_PEOPLE: Final = "tell_people"
CALL_MCP_TOOL: Final = "call_mcp_tool"
RESERVE_CALL: Final = "reserve_call"
READ_FORK: Final = "read_fork"
RESERVED_ACTIVITIES: Final = (
    *(GENERATE, RESOLVE_AGENT, RESOLVE_TOOL, FETCH_KNOWLEDGE),
    *(MEMORY_READ, MEMORY_WRITE, MEMORY_SEARCH),
    *(CHECK_TOKEN, FIND_SIGNALS, TELL_PEOPLE, RECORD_SPANS, CALL_MCP_TOOL),
    *(RESERVE_CALL, READ_FORK),
)
# Those that need no permit: all but the one that runs the calls of tools.
EXEMPT_ACTIVITIES: Final = tuple(each for each in RESERVED_ACTIVITIES if each != CALL_MCP_TOOL)

# Those of a backtest's worker in place of tools and of hooks: no other worker has them.
RECORDED_CALL: Final = "recorded_call"
RECORDED_HOOK: Final = "recorded_hook"
# The type of a failure that has the code of the recorded error in its details.
RECORDED_ERROR: Final = "recorded_error"

# A header of an activity that sends its own heartbeats: the worker sends none for it.
BEATS_ITSELF: Final = "holdfast-beats-itself"
# A header of the activity of a call that may run once. Its value is the id of the run that
# scheduled it: a worker starts no other attempt than the first one of that run.
ONCE: Final = "holdfast-once"
# The header with a permit, and the same in the metadata of a result: `runtime/identity/permits.py`.
PERMIT: Final = "holdfast-permit"
# A function of the worker that its workflows call: in no history.
FIRST_SEED: Final = "holdfast-first-seed"

# What a request to an MCP server has in its `_meta`: the same key in each attempt of a call.
MCP_IDEMPOTENCY_KEY: Final = "dev.holdfast/idempotencyKey"

# Heartbeats in each heartbeat timeout: one may be late by two thirds of it, or get lost.
BEATS_PER_TIMEOUT: Final = 3

# A store outside of Temporal, as references to it name it; and what marks a payload that is to go
# there.
STORE: Final = "holdfast.store"
FOR_STORE: Final = "holdfast-for-store"
# What marks an encrypted payload that holds bytes, which a run hands on to itself.
BYTES: Final = "holdfast-bytes"

# The tool by which the model chooses a skill. No other tool may take the name.
CHOOSE_SKILL: Final = "choose_skill"

# Signals.
APPROVE: Final = "approve"
MESSAGE: Final = "message"
CLOSE: Final = "close"
# The engine's own: a delegate reports its pending approvals to its parent.
DELEGATE_WAITS: Final = "delegate_waits"

# A delegate's memo: the call of its parent that it runs.
DELEGATE_OF: Final = "DelegateOf"
# A fork's memo, the run and the turn that it begins with; and its search attribute, the run.
FORKED_FROM: Final = "ForkedFrom"
# The scope by which a verified principal may begin with the run of another one.
READ_RUNS: Final = "holdfast:read"
# A backtest's memo: the recorded run.
BACKTEST_OF: Final = "BacktestOf"
# The memo of a schedule that `holdfast schedules apply` made: the set of its folder.
SCHEDULE_SET: Final = "ScheduleSet"
# The memo of a run that a schedule started: the labels of its file.
LABELS: Final = "Labels"

# Updates. The last is a memory's.
DECIDE: Final = "decide"
CLAIM: Final = "claim"
SEND: Final = "send"
WITHDRAW: Final = "withdraw"
RENEW: Final = "renew"
WRITE: Final = "write"
# The update and the signal of a shared budget; its query is `read`.
RESERVE: Final = "reserve"
SETTLE: Final = "settle"
# The update of absences; their query is `read`, too.
SET_ABSENCE: Final = "set_absence"

# Queries. REQUEST and PAGES are the worker's own: `generate` reads the conversation through one of
# them, `read_fork` the log through the other. The last two are a memory's.
STATUS: Final = "status"
APPROVALS: Final = "approvals"
STATE: Final = "state"
CONTEXT: Final = "context"
EVENTS: Final = "events"
TOOL: Final = "tool"
CALL: Final = "call"
REQUEST: Final = "request"
PAGES: Final = "pages"
READ: Final = "read"
SEARCH: Final = "search"

# Search attributes: the first three are of type Keyword, the fourth is a KeywordList.
AGENT_NAME: Final = "AgentName"
AGENT_STATUS: Final = "AgentStatus"
AGENT_PRINCIPAL: Final = "AgentPrincipal"
PENDING_TOOLS: Final = "PendingTools"
# By these, runs with pending approvals are ordered: when the last was requested, when
# the first of it expires (Datetime), and the groups that decide, `*` for anyone (KeywordList).
PENDING_SINCE: Final = "PendingSince"
PENDING_UNTIL: Final = "PendingUntil"
PENDING_FOR: Final = "PendingFor"
FOR_ANYBODY: Final = "*"
# A namespace may have no room for the latter: runs and lists do without, and are slower to search.
NEEDED_ATTRIBUTES: Final = (AGENT_NAME, AGENT_STATUS, AGENT_PRINCIPAL, PENDING_TOOLS)
WAITING_ATTRIBUTES: Final = (PENDING_SINCE, PENDING_UNTIL, PENDING_FOR)
SEARCH_ATTRIBUTES: Final = (*NEEDED_ATTRIBUTES, *WAITING_ATTRIBUTES)
# The name of an agent that a request defines without a name.
UNNAMED_AGENT: Final = "inline"
# The scope of runs without a team, or without a verified principal, in a shared budget.
UNASSIGNED: Final = "unassigned"

# Types of application errors that are not the error of one call (those are `errors.ErrorCode`).
INVALID_REQUEST: Final = "invalid_request"
MODEL_ERROR: Final = "model_error"
STOP_RUN: Final = "StopRun"
# A workflow task that fails once; a query that fails with it has this message, and is repeated.
AHEAD_OF_HISTORY: Final = "ahead_of_history"
AHEAD_MESSAGE: Final = "a query moved the run ahead of its history; the history is replayed"
INVALID_ARGUMENTS: Final = "invalid_arguments"
RESULT_TOO_LARGE: Final = "result_too_large"
# A rejected token: a wrong signature, an unknown key, out of date, not for this.
INVALID_TOKEN: Final = "invalid_token"
# The keys that a token is checked with are not available now.
KEYS_UNAVAILABLE: Final = "keys_unavailable"
# An activity that was not started by a run that a worker with the same permit keys admitted.
NO_PERMIT: Final = "no_permit"
# A notification could not be sent.
TELLING_FAILED: Final = "telling_failed"
# What Temporal's SDKs call an activity type that the worker does not have.
ACTIVITY_NOT_FOUND: Final = "NotFoundError"
# And an attempt that a worker that stops has cut off.
WORKER_SHUTDOWN: Final = "WorkerShutdown"

# Types with which the updates `decide`, `claim`, `send` and `withdraw` refuse.
INVALID_DECISION: Final = "invalid_decision"
NO_SUCH_CALL: Final = "no_such_call"
ALREADY_DECIDED: Final = "already_decided"
NOT_A_CONVERSATION: Final = "not_a_conversation"
NO_SUCH_MESSAGE: Final = "no_such_message"
# And those with which `send` fails: no answer comes.
BUDGET_EXCEEDED: Final = "budget_exceeded"
WITHDRAWN: Final = "withdrawn"
NO_ANSWER: Final = (BUDGET_EXCEEDED, WITHDRAWN, "cancelled")
# Also what lists show of a history that a run has left.
CONTINUED: Final = "continued"
# And those with which a memory's `write` does.
MEMORY_FULL: Final = "memory_full"
MEMORY_CONFLICT: Final = "memory_conflict"


# What the activities for a call begin with: the call's id, and perhaps what else they are.
_CALL = re.compile(r"t(\d+)c\d+(?:\.\d+)?(?=-|$)")
_MEMORIES: Final = ("memory", "memory-inline")
_BUDGET: Final = "holdfast-budget"
# Of threads and keys, delegates of any run, memories, shared budgets, absences: no caller's choice.
RESERVED_ID: Final = re.compile(
    rf"(agui|http|mcp)-[0-9a-f]{{40}}|.*\.t\d+c\d+(\..*)?"
    rf"|({'|'.join(_MEMORIES)})\..*|{_BUDGET}/.*|{ABSENCES_ID}",
    re.DOTALL,
)
# Temporal takes ids of a thousand bytes.
_MAX_ID_PART_CHARS = 200
# A longer one fails the workflow task that has it.
_MAX_FAIRNESS_KEY_BYTES = 64


def call_id(turn: int, index: int) -> str:
    """Return the id of a call, by its position: the `index`-th of the `turn`-th turn, both from 1.

    It is the Temporal activity id too, so `workflow id + call id` is a key to act once by. A
    provider's own ids are not unique and name nothing of ours.
    """
    return f"t{turn}c{index}"


def item_id(call: str, n: int) -> str:
    """Return the id of the call that runs for the `n`-th item, from 0, of a call that is a loop."""
    return f"{call}.{n}"


def loop_of(call: str) -> str:
    """Return the loop that a call runs an item of; empty where it is no item."""
    loop, point, _ = call.partition(".")
    return loop if point else ""


def turn_id(turn: int) -> str:
    return f"t{turn}"


def plan_id(turn: int) -> str:
    """Return the id under which a run asks for approval of the calls of a turn."""
    return f"t{turn}-plan"


def hook_id(call: str, hook: str, n: int) -> str:
    """Return the activity id of the `n`-th use, from 1, of a hook for a call."""
    return f"{call}-{hook}{n if n > 1 else ''}"


def delegate_id(workflow: str, call: str) -> str:
    return f"{workflow}.{call}"


def answer_id(call: str, n: int) -> str:
    """Return the activity id of the `n`-th request, from 1, that has a model answer a call."""
    return f"{call}-again{n - 1 if n > 2 else ''}" if n > 1 else call


def call_of(activity: str) -> str:
    """Return the call that an activity of this id is for; empty where it is for none."""
    found = _CALL.match(activity)
    return found[0] if found else ""


def turn_of(call: str) -> int:
    """Return the turn of a call; 0 where it is none."""
    found = _CALL.match(call)
    return int(found[1]) if found else 0


def budget_id(turn: int, budget: str) -> str:
    """Return the id under which a run asks, after `turn` turns, to extend `budget`."""
    return f"t{turn}-{budget}"


def backtest_queue(id: str) -> str:
    """Return the task queue of the worker of one `holdfast backtest`."""
    return f"holdfast-backtest-{id}"


def memory_id(agent: str, principal: str | None, *, inline: bool) -> str:
    """Return the workflow id of what an agent keeps for a principal, or for no one in particular.

    Equal ids are of one memory: an agent that is written in a request gives itself what name it
    likes, and never reaches what one of the catalog keeps.
    """
    owner = [agent] if principal is None else [agent, principal]
    return ".".join([_MEMORIES[inline], *map(_id_part, owner)])


def is_memory_of(workflow: str, principal: str) -> bool:
    """Return whether a workflow id is that of what an agent keeps for this principal."""
    prefix, *owner = workflow.split(".")
    return prefix in _MEMORIES and owner[1:] == [_id_part(principal)]


def budget_workflow_id(budget: str, scope: str, window: str) -> str:
    return f"{_BUDGET}/{budget}/{_id_part(scope)}/{window}"


def derived_id(kind: Literal["agui", "http", "mcp"], digest: str) -> str:
    """Return the workflow id of the run of a thread or a key with this digest in hex."""
    return f"{kind}-{digest[:40]}"


def request_queue(task_queue: str, endpoint: str) -> str:
    """Return the task queue of the requests to an endpoint, of all workers of `task_queue`."""
    return f"{task_queue}.requests.{_id_part(endpoint)}"


def fairness_key(who: str) -> str:
    """Return the key by which the server distributes the requests of a queue evenly.

    What is too long for it, or no text that it takes (half a character), is known by its digest.
    """
    data = who.encode("utf-8", "surrogatepass")
    fits = len(data) <= _MAX_FAIRNESS_KEY_BYTES and who.isprintable()
    return who if fits else hashlib.sha256(data).hexdigest()


def _id_part(text: str) -> str:
    """Return the text without a dot.

    Of one that is long the beginning, and its digest: longer than any that is not.
    """
    data = text.encode("utf-8", "surrogatepass")
    plain = quote(data, safe="").replace(".", "%2E")
    if len(plain) <= _MAX_ID_PART_CHARS:
        return plain
    return f"{plain[:_MAX_ID_PART_CHARS]}~{hashlib.sha256(data).hexdigest()}"


class ErrorCode(StrEnum):
    """Why a call has no result of its own."""

    TOOL_NOT_ALLOWED = "tool_not_allowed"
    INVALID_ARGUMENTS = "invalid_arguments"
    INVALID_OUTPUT = "invalid_output"
    UNRESOLVED_REFERENCE = "unresolved_reference"
    DENIED = "denied"
    APPROVAL_TIMEOUT = "approval_timeout"
    TIMEOUT = "timeout"
    TOOL_ERROR = "tool_error"
    OUTCOME_UNKNOWN = "outcome_unknown"
    TOKEN_SCOPE_INSUFFICIENT = "token_scope_insufficient"
    BLOCKED = "blocked"
    DELEGATE_FAILED = "delegate_failed"
    CANCELLED = "cancelled"


class CallError(Lenient):
    """The error of one call: its code, and a message for the model."""

    code: ErrorCode
    message: str
