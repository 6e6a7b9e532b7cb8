"""Runs, from outside: how one is asked for, what it answers, and how it is looked at."""

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from schemas.agent import AgentDefinition, Budget, ToolChoice
from schemas.base import Duration, Json, Lenient, Strict
from schemas.message import Message
from schemas.solution import Usage

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


class Principal(Strict):
    """On whose behalf a run acts, and the scopes that they hold."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    scopes: list[str] = []


class Conversation(Strict):
    """A run that stays open for further messages, until `close` or for `idle_timeout`."""

    idle_timeout: Duration | None = None


class RunRequest(Strict):
    """The input of `AgentWorkflow`."""

    agent: Annotated[str, Field(min_length=1)] | AgentDefinition
    input: str | dict[str, Json] | None = None
    context: list[Message] = []
    state: dict[str, Json] | None = None
    tool_choice: ToolChoice | None = None
    budget: Budget = Budget()
    principal: Principal | None = None
    approvals: Literal["ask", "deny"] = "ask"
    conversation: bool | Conversation = False


class RunResult(Lenient):
    """The result of a run that ended by itself."""

    status: Literal["completed", "stopped", "budget_exceeded"]
    output: JsonValue = None
    state: JsonValue = None
    turns: int
    calls: int
    usage: Usage

    def to_json(self) -> dict[str, Any]:
        """Every field, whether or not it is at its default."""
        return self.model_dump(mode="json", by_alias=True)


class PageRequest(Strict):
    """Which part of a log is wanted: what stands after number `after`, at most `limit` entries."""

    after: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
