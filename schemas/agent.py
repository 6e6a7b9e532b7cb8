"""Agents: who is asked, with what instructions and tools, within what bounds."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from schemas.base import Duration, Lenient, Strict
from schemas.tool import ApprovalPolicy, Schema, Tool, ToolDefinition

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$")]


class Forced(Strict):
    """A tool choice that names the tool to call."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | Forced
OnLimit = Literal["finalize", "fail", "ask"]
BudgetName = Literal[
    "maxIterations", "maxTurns", "maxCalls", "maxDuration", "maxTokens", "maxCost", "maxSameTool"
]


class Budget(Strict):
    """How much a run may use. An unset field falls back: to the agent's, then to
    `BUDGET_DEFAULTS`; what those leave unset has no bound."""

    max_iterations: Annotated[int, Field(ge=0)] | None = None
    max_turns: Annotated[int, Field(ge=1)] | None = None
    max_calls: Annotated[int, Field(ge=0)] | None = None
    max_duration: Duration | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_cost: Annotated[float, Field(gt=0)] | None = None
    max_same_tool: Annotated[int, Field(ge=1)] | None = None

    def over(self, defaults: "Budget") -> "Budget":
        """This budget, with what it leaves unset taken from `defaults`."""
        own = {name: value for name, value in self if value is not None}
        return Budget.model_validate({**dict(defaults), **own})

    def within(self, bounds: "Budget") -> "Budget":
        """This budget, where it is tighter than `bounds`; else `bounds`."""
        pairs = {name: (value, getattr(bounds, name)) for name, value in self}
        tighter = {
            name: min((value for value in pair if value is not None), default=None)
            for name, pair in pairs.items()
        }
        return Budget.model_validate(tighter)


BUDGET_DEFAULTS = Budget(max_iterations=6, max_turns=8, max_calls=32)
ON_LIMIT_DEFAULTS: dict[BudgetName, OnLimit] = {"maxIterations": "finalize"}


class ModelSettings(Strict):
    """Which model is asked. `endpoint` names an entry of the worker's own configuration."""

    endpoint: str
    name: str = ""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.7
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    options: dict[str, Any] = {}


class AgentApproval(ApprovalPolicy):
    """The approval policy of an agent's tools where a tool says nothing, and the tools whose
    calls need no person."""

    auto: list[str] = []


class AgentDefinition(Strict):
    """An agent as a person writes it, in JSON, YAML or the front matter of a Markdown file."""

    name: Name | None = None
    description: str | None = None
    instructions: str = ""
    model: ModelSettings
    calling: Literal["native"] = "native"
    tools: list[str | ToolDefinition] = []
    input: Schema | bool | None = None
    output: Schema | bool | None = None
    state: Schema | bool | None = None
    tool_choice: ToolChoice = "auto"
    budget: Budget = Budget()
    on_limit: dict[BudgetName, OnLimit] = {}
    concurrency: Annotated[int, Field(ge=1, le=100)] = 4
    approval: AgentApproval = AgentApproval()
    plan: Literal["eager"] = "eager"
    principal_scopes: list[str] | None = None
    reasoning_for_call: bool = True

    @model_validator(mode="after")
    def _auto_names_tools(self) -> "AgentDefinition":
        names = {tool if isinstance(tool, str) else tool.tool for tool in self.tools}
        for name in self.approval.auto:
            if name not in names:
                raise ValueError(
                    f"`approval.auto` names `{name}`, which is not among the agent's tools"
                )
        return self


class Agent(Lenient):
    """An agent as a run keeps it: tools resolved, defaults filled in."""

    name: str
    description: str = ""
    instructions: str = ""
    model: ModelSettings
    tools: list[Tool] = []
    input: Schema | bool | None = None
    output: Schema | bool | None = None
    state: Schema | bool | None = None
    tool_choice: ToolChoice = "auto"
    budget: Budget = BUDGET_DEFAULTS
    on_limit: dict[str, OnLimit] = {}
    concurrency: int = 4
    approval: AgentApproval = AgentApproval()
    principal_scopes: list[str] | None = None
    reasoning_for_call: bool = True


class WorkerFacts(Lenient):
    """What a run must know of the worker that it started on.

    `search_attributes` are those that the namespace has: writing another would fail the run.
    """

    search_attributes: list[str] = []
    notify: str | None = None
    generate_timeout: Duration
    heartbeat_timeout: Duration


class Snapshot(Lenient):
    """What a run takes with it when it starts and keeps until it ends."""

    agent: Agent
    worker: WorkerFacts

    def to_json(self) -> dict[str, Any]:
        """Every field: a run keeps its defaults too, whatever they will be in a later version."""
        return self.model_dump(mode="json", by_alias=True)
