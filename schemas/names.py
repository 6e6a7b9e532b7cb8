"""Every durable name, once.

A name on this page stands in histories, in clients of other languages and in people's scripts.
It may be added to and is never changed.
"""

from typing import Final

TASK_QUEUE: Final = "holdfast"

# Workflows.
AGENT_WORKFLOW: Final = "AgentWorkflow"
CALL_WORKFLOW: Final = "CallWorkflow"
WORKFLOWS: Final = (AGENT_WORKFLOW, CALL_WORKFLOW)

# Activities of the worker itself. A tool's activity may not take one of these names.
GENERATE: Final = "generate"
RESOLVE_AGENT: Final = "resolve_agent"
RESOLVE_TOOL: Final = "resolve_tool"
RESERVED_ACTIVITIES: Final = (GENERATE, RESOLVE_AGENT, RESOLVE_TOOL)

# Signals.
APPROVE: Final = "approve"
MESSAGE: Final = "message"
CLOSE: Final = "close"

# Updates.
DECIDE: Final = "decide"
SEND: Final = "send"

# Queries. REQUEST is the worker's own: `generate` reads the conversation through it.
STATUS: Final = "status"
APPROVALS: Final = "approvals"
STATE: Final = "state"
CONTEXT: Final = "context"
EVENTS: Final = "events"
REQUEST: Final = "request"

# Search attributes: the first three are of type Keyword, the last is a KeywordList.
AGENT_NAME: Final = "AgentName"
AGENT_STATUS: Final = "AgentStatus"
AGENT_PRINCIPAL: Final = "AgentPrincipal"
PENDING_TOOLS: Final = "PendingTools"
SEARCH_ATTRIBUTES: Final = (AGENT_NAME, AGENT_STATUS, AGENT_PRINCIPAL, PENDING_TOOLS)

# Types of application errors that are not the error of one call (those are `errors.ErrorCode`).
INVALID_REQUEST: Final = "invalid_request"
MODEL_ERROR: Final = "model_error"
STOP_RUN: Final = "StopRun"
INVALID_ARGUMENTS: Final = "invalid_arguments"
RESULT_TOO_LARGE: Final = "result_too_large"
# What Temporal's SDKs call an activity type that the worker does not have.
ACTIVITY_NOT_FOUND: Final = "NotFoundError"

# Types with which the updates `decide` and `send` refuse.
INVALID_DECISION: Final = "invalid_decision"
NO_SUCH_CALL: Final = "no_such_call"
ALREADY_DECIDED: Final = "already_decided"
NOT_A_CONVERSATION: Final = "not_a_conversation"


def call_id(turn: int, index: int) -> str:
    """The id of a call, by its position: the `index`-th of the `turn`-th turn, both from 1.

    It is the Temporal activity id too, so `workflow id + call id` is a key to act once by. A
    provider's own ids are not unique and name nothing of ours.
    """
    return f"t{turn}c{index}"


def plan_id(turn: int) -> str:
    """The id under which a run asks for leave to carry out the calls of a turn."""
    return f"t{turn}-plan"


def hook_id(call: str, hook: str, n: int) -> str:
    """The activity id of the `n`-th use, from 1, of a hook for a call."""
    return f"{call}-{hook}{n if n > 1 else ''}"


def delegate_id(workflow: str, call: str) -> str:
    """The workflow id of the run that carries out a call of another."""
    return f"{workflow}.{call}"


def budget_id(turn: int, budget: str) -> str:
    """The id under which a run asks, after `turn` turns, to extend `budget`."""
    return f"t{turn}-{budget}"
