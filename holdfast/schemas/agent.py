"""Agents: their model, instructions, tools and skills."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from holdfast.schemas.base import Duration, Explicit, Json, Lenient, OneOf, SettingsFile, Strict
from holdfast.schemas.budget import BUDGET_DEFAULTS, Budget, BudgetName, OnLimit, ThresholdName
from holdfast.schemas.internal.solution import WrittenCall
from holdfast.schemas.internal.tracing import Tracing
from holdfast.schemas.phrases import NAME_PATTERN
from holdfast.schemas.settings.notify import Listener
from holdfast.schemas.tool import (
    ActivityBinding,
    ActivityRef,
    AgentHooks,
    ApprovalPolicy,
    HookRef,
    Hooks,
    RepairRef,
    ResolvedTool,
    Schema,
    ToolDefinition,
)

MAX_MODELS = 8
Name = Annotated[str, Field(pattern=NAME_PATTERN)]


class ForcedTool(Strict):
    """A tool choice that names the tool to call."""

    name: str
    """The tool that must be called."""


Calling = Literal["native", "composed"]
Plan = Literal["eager", "lazy"]
ToolChoice = Literal["auto", "none", "required"] | ForcedTool
Reasoning = Literal["none", "low", "medium", "high"]


class ModelSettings(Strict):
    """Which model is asked. `endpoint` names an entry of the worker's own configuration."""

    endpoint: str
    """The name of an endpoint of the worker's own configuration."""
    name: str = ""
    """The model's name, as its provider has it."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.7
    """How much chance there is in the answers; null leaves it to the provider."""
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    """The longest answer."""
    reasoning: Reasoning | None = None
    """How long the model thinks before it answers; unset, its provider decides."""
    accepts: list[Literal["image", "document"]] | None = None
    """What the model takes beside text; unset, all that its provider's format carries."""
    options: dict[str, Any] = {}
    """What else the provider takes, in its own words."""

    retry_for: Duration | None = None
    """How long a request that fails is made again (default: as long as the worker allows; 2m
    where another model follows)."""

    @property
    def label(self) -> str:
        """Return the model in one word, with its endpoint: `openai/gpt-5`."""
        return f"{self.endpoint}/{self.name}" if self.name else self.endpoint


def _model_of_text(written: Any) -> Any:
    """Read a model that is written as one text: `openai:gpt-5`."""
    if not isinstance(written, str):
        return written
    endpoint, _, name = written.partition(":")
    return {"endpoint": endpoint, "name": name}


ModelRef = Annotated[
    ModelSettings, BeforeValidator(_model_of_text, json_schema_input_type=str | ModelSettings)
]


class AgentApproval(ApprovalPolicy):
    """The approval policy for tools without one, and the tools whose calls need no person."""

    auto: list[str] = []
    """The tools whose calls need no person."""

    @model_validator(mode="before")
    @classmethod
    def _no_list(cls, written: Any) -> Any:
        if isinstance(written, list):
            raise ValueError("a list of rules is of one tool; write it in that tool's `_approval`")
        return written

    @model_validator(mode="after")
    def _of_no_tool(self) -> Self:
        if self.effect is not None:
            raise ValueError("`effect` is of one tool; write it in that tool's `_approval`")
        return self


class Knowledge(OneOf):
    """Something to know, offered as a tool and fetched only when that is called.

    One of a file of the catalog, an address that the worker allows, a text, and an activity.
    """

    one_of = ("file", "url", "text", "activity")

    name: Name
    """The name that the model calls it by."""
    description: str = ""
    """What it is about, for the model."""
    file: str | None = None
    """A file, relative to the catalog's folder and inside it."""
    url: str | None = None
    """An address; the worker's settings list those that are allowed."""
    text: str | None = None
    """The text itself."""
    activity: ActivityRef | None = None
    """An activity that returns it, as it is when the model asks."""
    untrusted: bool = False
    """The model is shown it as data, not as instructions; what is at an address always is."""


class SkillDefinition(Strict):
    """A named part of an agent, with tools, knowledge and instructions of its own."""

    # A model is not asked where an activity does the work.
    for_a_model: ClassVar = ("instructions", "tools", "knowledge", "memory")
    model_config = ConfigDict(
        json_schema_extra={
            "dependentSchemas": {"activity": {"properties": dict.fromkeys(for_a_model, False)}},
            "dependentRequired": {"sideEffects": ["activity"]},
        }
    )

    name: Name
    """The skill's name."""
    description: str = ""
    """What it is for: the model chooses by it."""
    when: Schema | bool | None = None
    """A schema of the run's input: of a run that names no skill, the first that fits is used, and
    no model chooses."""
    instructions: str = ""
    """What is added to the system prompt."""
    tools: Annotated[
        list[str | ToolDefinition], Field(json_schema_extra={"uniqueItems": True})
    ] = []
    """Its tools, besides the agent's own."""
    knowledge: list[Knowledge] = []
    """Its knowledge, besides the agent's own."""
    memory: bool = False
    """Give the agent's memory to this skill, where the agent itself has none."""
    activity: ActivityRef | None = None
    """An activity that does the whole work of the skill: no model is asked."""
    side_effects: bool | None = None
    """Whether the activity changes the world; unset, the rules of the activity's tool hold."""

    @model_validator(mode="after")
    def _effects_of_its_activity(self) -> "SkillDefinition":
        if self.side_effects is not None and self.activity is None:
            raise ValueError("`sideEffects` is of an `activity`; add it, or leave this out")
        return self


MAX_CONSTANT_CALLS = 100
# What an agent has for a model, which is not asked where its calls are constant.
NOT_BESIDE_CALLS = frozenset(
    (
        *("model", "instructions", "calling", "skills", "toolChoice", "reasoningForCall"),
        *("_beforeModel", "_onModelError", "_afterAnswer"),
    )
)
_ONLY_ACTIVITIES: JsonValue = {
    "required": ["skills"],
    "properties": {"skills": {"minItems": 1, "items": {"required": ["activity"]}}},
}
_CALLED: JsonValue = {"type": "string", "description": "The tool."}
ConstantCall = Annotated[
    dict[str, Json],
    Field(json_schema_extra={"required": ["_tool"], "properties": {"_tool": _CALLED}}),
]


class AgentDefinition(SettingsFile):
    """An agent as a person writes it, in JSON, YAML or the front matter of a Markdown file."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": ["model"]}, {"required": ["calls"]}, _ONLY_ACTIVITIES],
            "dependentSchemas": {
                "calls": {"properties": dict.fromkeys(sorted(NOT_BESIDE_CALLS), False)},
                "answer": {"anyOf": [{"required": ["model"]}, {"required": ["calls"]}]},
            },
        }
    )

    name: Name | None = None
    """The agent's name; unset, it is the file's."""
    description: str | None = None
    """What it is for."""
    title: Annotated[str, Field(min_length=1, max_length=120)] | None = None
    """What people read as the title of its runs: a text in which `{property}` is a value of the
    input, `Refund of order {order}`. Before a message without properties, its subject follows."""
    instructions: str = ""
    """The system prompt; in a Markdown file, the text below the front matter."""
    model: (
        ModelRef | Annotated[list[ModelRef], Field(min_length=1, max_length=MAX_MODELS)] | None
    ) = None
    """Which model is asked: its settings, or `endpoint:name`; of a list, the next one where one
    fails, for the rest of the run. None with `calls`, or where each skill is an activity."""
    calls: Annotated[list[ConstantCall], Field(min_length=1, max_length=MAX_CONSTANT_CALLS)] = []
    """Constant calls in place of a model, each with its tool in `_tool` and its arguments beside
    it: they refer to the input, and to what others write."""
    answer: Json = None
    """The output, with references; unset, it is the model's answer, or the last constant call's
    result."""
    calling: Calling = "native"
    """How tools are called: `native` is the provider's own way, `composed` one structured answer
    with all calls and the output."""
    tools: Annotated[
        list[str | ToolDefinition], Field(json_schema_extra={"uniqueItems": True})
    ] = []
    """Names of the catalog, and tools that are written out here."""
    skills: list[SkillDefinition] = []
    """Named parts, of which a run has one."""
    change_skill: bool = False
    """In a conversation, whether the model may change to another skill with `choose_skill`."""
    knowledge: list[Knowledge] = []
    """What can be fetched when the model asks for it."""
    memory: bool = False
    """Give it `memory_read`, `memory_write` and `memory_search`: what it keeps outlives the run."""
    input: Schema | bool | None = None
    """The schema of a run's input."""
    output: Schema | bool | None = None
    """The schema of the output; unset, it is text."""
    state: Schema | bool | None = None
    """The schema of a run's state."""
    tool_choice: ToolChoice = "auto"
    """Whether the model must call a tool in its first turn, and which."""
    budget: Budget = Budget()
    """How much a run may use."""
    on_limit: dict[BudgetName, OnLimit] = {}
    """What becomes of a run that has used up a budget."""
    on_threshold: dict[ThresholdName, Annotated[float, Field(gt=0, lt=1)]] = {}
    """The share of a budget at which people are notified, once."""
    concurrency: Annotated[int, Field(ge=1, le=100)] = 4
    """How many calls of a turn run at a time."""
    approval: AgentApproval = AgentApproval()
    """When calls wait for a person, unless their tool sets it."""
    plan: Plan = "eager"
    """When calls are run: `eager` is as the model makes them, `lazy` once a person has
    approved all calls of an answer."""
    principal_scopes: list[str] | None = None
    """The most that a run may hold of scopes; unset, all that its principal has."""
    reasoning_for_call: bool = True
    """Require the model to state with each call why it makes it."""
    prepare: Annotated[HookRef | None, Field(alias="_prepare")] = None
    """A hook for all its calls: see a tool's `_prepare`."""
    repair: Annotated[RepairRef | None, Field(alias="_repair")] = None
    """A hook for all its calls: see a tool's `_repair`."""
    before: Annotated[HookRef | None, Field(alias="_before")] = None
    """A hook for all its calls: see a tool's `_before`."""
    after: Annotated[HookRef | None, Field(alias="_after")] = None
    """A hook for all its calls: see a tool's `_after`."""
    before_model: Annotated[HookRef | None, Field(alias="_beforeModel")] = None
    """A hook: `(request)` changes what the model is shown in one request, or stops the run."""
    on_model_error: Annotated[HookRef | None, Field(alias="_onModelError")] = None
    """A hook: `(failure)` answers for a model that failed, or chooses what to do about it."""
    after_answer: Annotated[HookRef | None, Field(alias="_afterAnswer")] = None
    """A hook: `(answer)` lets the output pass, replaces it or sends it back, or stops the run."""

    @model_validator(mode="after")
    def _has_a_model_or_needs_none(self) -> "AgentDefinition":
        needs_none = bool(self.skills) and all(skill.activity for skill in self.skills)
        if self.model is None and not (self.calls or needs_none):
            raise ValueError("`model` is missing; add it, or `calls` in its place")
        if self.answer is not None and not self.calls and self.model is None:
            raise ValueError("`answer` is of a `model` or of `calls`; add one, or leave it out")
        return self

    @property
    def models(self) -> list[ModelSettings]:
        if isinstance(self.model, list):
            return list(self.model)
        return [] if self.model is None else [self.model]


class ResolvedSkill(Lenient):
    """A skill as a run keeps it: tools resolved, its knowledge among them.

    `rules` has the rules of its activity: the tool that the activity runs, or one of its own.
    """

    name: str
    description: str = ""
    when: Schema | bool | None = None
    instructions: str = ""
    tools: list[ResolvedTool] = []
    activity: ActivityBinding | None = None
    rules: ResolvedTool | None = None


class AgentRules(Lenient):
    """The rules of calls: the tools there are, and what their users have to keep to.

    `name` is the owner of the rules: an agent's, or those of a single call's tool.
    """

    name: str
    title: Annotated[str | None, Field(exclude_if=lambda title: title is None)] = None
    tools: list[ResolvedTool] = []
    skills: list[ResolvedSkill] = []
    change_skill: bool = False
    hooks: Hooks = Hooks()
    plan: Plan = "eager"
    state: Schema | bool | None = None
    concurrency: int = 4
    approval: AgentApproval = AgentApproval()
    principal_scopes: list[str] | None = None


class ResolvedAgent(AgentRules):
    """An agent as a run keeps it: tools resolved, defaults filled in."""

    description: str = ""
    instructions: str = ""
    model: ModelSettings | None = None
    fallbacks: list[ModelSettings] = []
    calls: list[WrittenCall] = []
    answer: JsonValue = None
    hooks: AgentHooks = AgentHooks()
    calling: Calling = "native"
    input: Schema | bool | None = None
    output: Schema | bool | None = None
    tool_choice: ToolChoice = "auto"
    budget: Budget = BUDGET_DEFAULTS
    on_limit: dict[str, OnLimit] = {}
    on_threshold: dict[ThresholdName, float] = {}
    reasoning_for_call: bool = True

    @property
    def all_tools(self) -> list[ResolvedTool]:
        """Return its tools, and those of its skills."""
        return [*self.tools, *(tool for skill in self.skills for tool in skill.tools)]

    @property
    def models(self) -> list[ModelSettings]:
        """Return the models that may answer, in their order."""
        return [*([] if self.model is None else [self.model]), *self.fallbacks]

    @property
    def own_model(self) -> ModelSettings:
        """Return the model that is asked, or raise `LookupError` if the agent has none."""
        if self.model is None:
            raise LookupError(f"agent `{self.name}` has no model")
        return self.model

    @property
    def model_output(self) -> Schema | bool | None:
        """Return the schema of what the model answers: none, a text, beside an `answer`."""
        return self.output if self.answer is None else None


class WorkerFacts(Lenient):
    """What a run must know of the worker that it started on.

    `search_attributes` are those that the namespace has: writing another would fail the run.
    `continue_after` is the number of events after which a run continues as new, where the operator
    has set one; with `store`, payloads of any size are kept outside of Temporal;
    `request_queues` names the task queue of each endpoint whose requests are limited in number;
    with `principal_tokens`, a run has to name its principal by a token;
    `catalog_only`, that it names an agent or a tool, and writes none of its own; `notifiers` are
    the channels that notify people of pending approvals; `tracing` is how the run is traced, if
    it is; `delegates` are the agents that the run and its delegates may delegate to;
    `counted_tools` are those whose calls a shared budget counts, and `counted_as` is the agent that
    it counts, if there is a budget.
    """

    search_attributes: list[str] = []
    notify: str | None = None
    generate_timeout: Duration
    heartbeat_timeout: Duration
    continue_after: int | None = None
    store: bool = False
    request_queues: dict[str, str] = {}
    principal_tokens: bool = False
    catalog_only: bool = False
    notifiers: list[Listener] = []
    tracing: Tracing | None = None
    delegates: dict[str, ResolvedAgent] = {}
    counted_tools: Annotated[list[str], Field(exclude_if=lambda names: not names)] = []
    counted_as: Annotated[str | None, Field(exclude_if=lambda name: name is None)] = None


class AgentSnapshot(Explicit):
    """What a run takes with it when it starts and keeps until it ends.

    Defaults are written too: a later version may have other defaults.
    """

    worker: WorkerFacts
    agent: ResolvedAgent


class ToolSnapshot(Explicit):
    """What a single call takes with it when it starts and keeps until it ends."""

    worker: WorkerFacts
    tool: ResolvedTool
