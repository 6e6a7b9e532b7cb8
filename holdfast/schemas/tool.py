"""Tools: a JSON Schema with meta-properties, in its written and its resolved form.

`ToolDefinition` is the written form, `ResolvedTool` the resolved one: names settled, defaults
filled in, and the parts that the model sees separate from the others.
"""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from holdfast.schemas.base import Duration, Explicit, KnownJson, Lenient, Strict
from holdfast.schemas.internal.mcp_input import McpContinuation, McpTask
from holdfast.schemas.internal.memory import MemoryOwner
from holdfast.schemas.json_schema import IS_JSON_SCHEMA
from holdfast.schemas.names import CHOOSE_SKILL, RESERVED_ACTIVITIES
from holdfast.schemas.phrases import INSTANCE_PATTERN, TOOL_NAME_PATTERN, suggest_names

Schema = Annotated[dict[str, Any], WithJsonSchema(IS_JSON_SCHEMA)]
# For editors; the rest is reported when the tool is loaded.
_PLACE = r"^\s*†(?!input\b)[A-Za-z][A-Za-z0-9_-]*[.\[]"
OutputMethod = Literal["set", "merge", "assign", "push", "concat"]
Show = Literal["full", "preview", "none"]
MAX_FORWARDS = 5
MAX_FORWARD_GROUPS = 20
MAX_RULES = 20


class Retry(Strict):
    """When and how often a failed activity is tried again."""

    maximum_attempts: Annotated[int, Field(ge=1)] | None = None
    """How often it is tried in all (default: 5)."""
    initial_interval: Duration | None = None
    """How long to wait before the second attempt (default: 1s)."""
    backoff_coefficient: Annotated[float, Field(ge=1)] | None = None
    """By how much each wait is longer than the one before (default: 2)."""
    maximum_interval: Duration | None = None
    """The longest wait (default: 60s)."""
    non_retryable_error_types: list[str] = []
    """Types of errors after which it is not tried again."""


ActivityName = Annotated[str, Field(min_length=1, max_length=200)]
ArgumentPath = Annotated[str, Field(min_length=1, max_length=1000)]
MAX_INPUTS = 100
# How long one attempt may take where its binding does not set it.
ACTIVITY_TIMEOUT = timedelta(seconds=30)


class ActivityBinding(Strict):
    """Which activity carries a tool out, and how."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {"required": ["local", "taskQueue"], "properties": {"local": {"const": True}}}
        }
    )

    type: ActivityName
    """The name that the activity is registered under."""
    task_queue: str | None = None
    """Where its worker listens; unset, it is the run's own worker."""
    local: bool = False
    """Run it on the run's own worker at once: for what is short and repeatable."""
    input: (
        Literal["arguments", "call"]
        | Annotated[list[ArgumentPath], Field(max_length=MAX_INPUTS)]
        | Annotated[dict[str, ArgumentPath], Field(max_length=MAX_INPUTS)]
    ) = "arguments"
    """What it is given: the arguments alone, or the call, the tool and the call's context; by
    places in the arguments, such as `customer.id`, one parameter for each or one object."""
    start_to_close_timeout: Duration | None = None
    """The longest that one attempt may take (default: 30s)."""
    schedule_to_close_timeout: Duration | None = None
    """The longest that all attempts and waits may take."""
    heartbeat_timeout: Duration | None = None
    """The longest silence of an activity that heartbeats."""
    retry: Retry = Retry()
    """When and how often it is tried again."""


# An activity by its name, or with where and how it is run.
ActivityRef = (
    Annotated[ActivityName, Field(json_schema_extra={"not": {"enum": list(RESERVED_ACTIVITIES)}})]
    | ActivityBinding
)
# The options of a binding that apply to calls, and not to hooks.
NOT_FOR_HOOKS = ("input", "local")
HookRef = Annotated[
    ActivityRef, Field(json_schema_extra={"properties": dict.fromkeys(NOT_FOR_HOOKS, False)})
]


class RepairAgent(Strict):
    """An agent that corrects the arguments of calls, in a run of its own."""

    agent: Annotated[str, Field(min_length=1)]
    """The name of an agent of the worker."""


def _which_repair(written: Any) -> str:
    is_agent = isinstance(written, dict) and "agent" in written and "type" not in written
    return "by agent" if is_agent or isinstance(written, RepairAgent) else "by activity"


RepairRef = Annotated[
    Annotated[HookRef, Tag("by activity")] | Annotated[RepairAgent, Tag("by agent")],
    Discriminator(_which_repair),
]


def binding_of(written: "ActivityRef") -> ActivityBinding:
    return ActivityBinding(type=written) if isinstance(written, str) else written


class Forward(Strict):
    """When further groups are asked to decide, too."""

    after: Duration
    """How long after the request, unless it is decided by then."""
    to: Annotated[list[str], Field(min_length=1, max_length=MAX_FORWARD_GROUPS)]
    """The groups whose members may decide from then on."""


class ApprovalPolicy(Strict):
    """When a call needs an approval, who approves it, and how long it waits.

    Unset fields fall back: to the agent's defaults, then to `APPROVAL_DEFAULTS`.
    """

    require: Literal["side_effects", "always", "never"] | None = None
    """Which calls wait for a person (default: those with side effects)."""
    when: Schema | bool | None = None
    """A schema of the arguments: only calls that fit it wait."""
    timeout: Duration | None = None
    """How long a call waits (default: 7d)."""
    on_timeout: Literal["deny", "fail", "approve"] | None = None
    """What happens to a call that no one decided on (default: deny)."""
    remind: Duration | None = None
    """How long until people are asked again."""
    approvers: list[str] | None = None
    """The groups whose members may decide; none: anyone."""
    forward: Annotated[
        list[Forward] | None,
        Field(max_length=MAX_FORWARDS, exclude_if=lambda forward: forward is None),
    ] = None
    """Which further groups may decide, and after how long."""
    quorum: Annotated[int, Field(ge=1, le=100)] | None = None
    """How many people must approve (default: 1)."""
    not_by: Literal["principal"] | None = None
    """`principal`: the run's own principal may not decide."""
    signed: bool | None = None
    """Only a signed decision counts: one with a `token` (default: false)."""
    effect: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What an approval has done, for its button: `refund of {amount}`, with arguments by name."""


class ApprovalRule(ApprovalPolicy):
    """A policy for the calls whose arguments fit its `when`: one of a tool's list.

    The first rule that fits is the policy of a call. A call that no rule fits has the defaults.
    """

    name: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """Its name for people, such as `finance, two people` (default: who approves)."""
    description: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """Which calls it is for, such as `amount is over €1,000` (default: its `when` in words)."""


ApprovalRules = Annotated[list[ApprovalRule], Field(min_length=1, max_length=MAX_RULES)]
APPROVAL_DEFAULTS = ApprovalPolicy.model_validate(
    {"require": "side_effects", "timeout": "7d", "onTimeout": "deny", "quorum": 1, "approvers": []}
)


class CallLimits(Strict):
    """How often and with what a tool may be called in a run, and when it has to be."""

    per_run: Annotated[int, Field(ge=1)] | None = None
    """The most calls in a run."""
    after: list[str] = []
    """The tools that must have succeeded before in the run."""
    force_at_step: Annotated[int, Field(ge=1)] | None = None
    """From this turn on the model must call it, unless it has."""
    max_arguments_bytes: Annotated[int, Field(ge=1)] | None = None
    """The most bytes of a call's arguments, as JSON (at most, and by default: 1,000,000)."""


# How others call what a tool here has in `properties`.
OTHERS_PARAMETERS = ("parameters", "input_schema", "inputSchema", "function")


def _for_editors(schema: dict[str, Any]) -> None:
    """Refuse unknown meta-properties, and those without their underscore.

    Describe both places where one may be. Every keyword of JSON Schema stays allowed.
    """
    meta = {name: kind for name, kind in schema["properties"].items() if name.startswith("_")}
    known = "|".join(meta)
    slips = "|".join((*(name[1:] for name in meta), "name", *OTHERS_PARAMETERS))
    schema["patternProperties"] = {f"^(?!({known})$)_": False, f"^({slips})$": False}
    runners = [{"required": ["_activity"]}, {"required": ["_delegate"]}]
    by_person = {"properties": {"_person": {"const": True}}, "required": ["_person"]}
    schema["not"] = {"anyOf": [{"allOf": runners}, {**by_person, "anyOf": runners}]}
    parameters = schema["properties"]["properties"]
    parameters["properties"] = {name: _as_parameter(name, kind) for name, kind in meta.items()}
    parameters["propertyNames"] = {"pattern": f"^({known})$|^(?!_)"}


def _as_parameter(name: str, kind: dict[str, Any]) -> dict[str, Any]:
    if name == "_output":
        return kind
    parameter = {
        "description": kind["description"],
        "type": "object",
        "properties": {"const": kind},
    }
    return parameter if name in CHOSEN_BY_MODEL else {**parameter, "required": ["const"]}


class ToolDefinition(Strict):
    """A tool as a person writes it: a JSON Schema (draft 2020-12) with meta-properties.

    Besides the meta-properties below, every keyword of JSON Schema is allowed.
    """

    model_config = ConfigDict(
        extra="allow", use_attribute_docstrings=True, json_schema_extra=_for_editors
    )

    tool: Annotated[
        str | None,
        Field(alias="_tool", pattern=TOOL_NAME_PATTERN),
        Field(json_schema_extra={"not": {"const": CHOOSE_SKILL}}),
    ] = None
    """The tool's name; unset, it is the file's."""
    title: str | None = None
    """A short name for people."""
    description: str | None = None
    """What the tool does, for the model."""
    type: Literal["object"] = "object"
    """Arguments are an object."""
    properties: dict[str, Schema | bool] = {}
    """The parameters, by name; meta-properties may stand here as schemas."""
    required: list[str] = []
    """The parameters that must be given."""
    parameters: Annotated[Schema | None, Field(alias="_parameters")] = None
    """The schema of the arguments, instead of `properties`: here, a name may begin with `_`."""
    output: Annotated[Schema | bool | None, Field(alias="_output")] = None
    """The schema of the result."""
    output_path: Annotated[
        str | None, Field(alias="_outputPath"), Field(json_schema_extra={"pattern": _PLACE})
    ] = None
    """Where the result is written, such as `†state.refund`."""
    output_method: Annotated[OutputMethod | None, Field(alias="_outputMethod")] = None
    """How the result is written (default: set)."""
    scopes: Annotated[list[str] | None, Field(alias="_scopes")] = None
    """What of the context the activity is given: `input`, `state`, `context`, a kind of data."""
    instance: Annotated[str | None, Field(alias="_instance", pattern=INSTANCE_PATTERN)] = None
    """Whose data its calls read and write, in a run with instances; unset, each call names it."""
    delegate: Annotated[str | None, Field(alias="_delegate", min_length=1)] = None
    """The agent that its calls are delegated to, or `anonymous`: a fresh context with no tools."""
    person: Annotated[bool, Field(alias="_person")] = False
    """Only a person can answer its calls: each is pending with the form of its `_output`."""
    activity: Annotated[ActivityRef | None, Field(alias="_activity")] = None
    """The activity that runs it: its name, or more; unset, one of the tool's name. Where
    there is none, the model itself answers."""
    side_effects: Annotated[bool, Field(alias="_sideEffects")] = False
    """It has side effects: unless its approval is set otherwise, a person decides."""
    idempotent: Annotated[bool | None, Field(alias="_idempotent")] = None
    """Running a call twice is as good as once (default: not `_sideEffects`)."""
    approval: Annotated[ApprovalPolicy | ApprovalRules | None, Field(alias="_approval")] = None
    """When a call waits for a person; of a list of rules, the first whose `when` fits the call."""
    requires: Annotated[list[str], Field(alias="_requires")] = []
    """The scopes that the run's principal must hold."""
    sequential: Annotated[bool, Field(alias="_sequential")] = False
    """A turn that holds a call of it carries its calls out one at a time."""
    each: Annotated[bool, Field(alias="_each")] = False
    """A call may name a list in `_each`: it runs for each item, and its result is a list."""
    limits: Annotated[CallLimits | None, Field(alias="_limits")] = None
    """How often it may be called, after which tools, how large, and when it must be."""
    untrusted: Annotated[bool, Field(alias="_untrusted")] = False
    """Its results come from outside: the model is shown them as data, not as instructions."""
    show: Annotated[Show | None, Field(alias="_show")] = None
    """What of a result the model reads."""
    label: Annotated[str | None, Field(alias="_label")] = None
    """A name for people's screens."""
    prepare: Annotated[HookRef | None, Field(alias="_prepare")] = None
    """A hook: `(arguments)` gives other arguments, before they are checked."""
    repair: Annotated[RepairRef | None, Field(alias="_repair")] = None
    """A hook: `(arguments, errors)` gives other arguments for those that do not fit; or an agent
    whose output they are."""
    before: Annotated[HookRef | None, Field(alias="_before")] = None
    """A hook: `(call)` lets a call continue, changes, answers or blocks it, or stops the run."""
    after: Annotated[HookRef | None, Field(alias="_after")] = None
    """A hook: `(call, result)` replaces parts of the result, or stops the run."""

    @model_validator(mode="after")
    def _known_meta_properties(self) -> "ToolDefinition":
        for name in self.model_extra or {}:
            if name.startswith("_"):
                fix = suggest_names(name, META_PROPERTIES)
                raise ValueError(f"unknown meta-property `{name}`; {fix}")
        return self


META_PROPERTIES = tuple(
    field.alias
    for field in ToolDefinition.model_fields.values()
    if field.alias is not None and field.alias.startswith("_")
)
# What a model may be let to choose, call by call, by a schema under `properties`.
CHOSEN_BY_MODEL = ("_outputPath", "_outputMethod", "_scopes", "_instance")
REASONING = "_reasoningForCall"
# What names the tool of a call in a composed answer.
TOOL = "_tool"
# What names the list of a loop: the call runs for each of its items.
EACH = "_each"
MAX_ITEMS = 100


ANONYMOUS = "anonymous"


def shown_parameters(parameters: Any, arguments: Any) -> Any:
    """Return the schema of a call's arguments as people see them: of a loop, those of its items."""
    items = loop_arguments(arguments)
    known = parameters if isinstance(parameters, dict) else {}
    if items is None:
        is_loop = isinstance(arguments, dict) and EACH in arguments
        own = {EACH: {"title": "For each item of"}, **known.get("properties", {})}
        return {**known, "properties": own} if is_loop else parameters
    each: Schema = {
        "title": "Items",
        "description": "Null leaves an item out: it does not run.",
        "type": "array",
        "items": {"anyOf": [parameters, {"type": "null"}]},
        **dict.fromkeys(("minItems", "maxItems"), len(items)),
    }
    shared: Schema = {key: known[key] for key in ("$defs", "definitions") if key in known}
    return {**shared, "type": "object", "properties": {EACH: each}, "required": [EACH]}


def loop_arguments(arguments: Any) -> list[Any] | None:
    """Return the arguments of each item, if these are the arguments of a loop."""
    match arguments:
        case {"_each": list(items)} if len(arguments) == 1:
            return items
    return None


class Hooks(Lenient):
    """The activities that are asked about calls: of one tool, or of every tool of an agent."""

    prepare: ActivityBinding | None = None
    repair: ActivityBinding | RepairAgent | None = None
    before: ActivityBinding | None = None
    after: ActivityBinding | None = None


class AgentHooks(Hooks):
    """The hooks of an agent: those for every call, and those around the answers of its model."""

    before_model: ActivityBinding | None = None
    on_model_error: ActivityBinding | None = None
    after_answer: Annotated[
        ActivityBinding | None, Field(exclude_if=lambda activity: activity is None)
    ] = None


class KnowledgeSource(Lenient):
    """What is fetched when a knowledge tool is called: a file, a URL, a text, or nothing.

    `kind` is the field of `Knowledge` that it is from; unset, its use is no event.
    """

    kind: str | None = None
    file: str | None = None
    url: str | None = None
    text: str | None = None


class McpTool(Lenient):
    """A tool of an MCP server, by the names of both and the digest of what the server lists.

    `structured`: it has an output schema, so its result is the structured content.
    """

    server: str
    tool: str
    digest: str
    structured: bool = False


class McpCall(Lenient):
    """What the activity of a `McpTool` receives besides the arguments; no model sets it.

    `principal` is the id of the run's principal; `idempotency_key` is the same for each attempt.
    A call that a person has answered forms of has a `continuation`; a request about its task, that.
    """

    idempotency_key: str
    principal: str | None = None
    continuation: McpContinuation | None = None
    task: McpTask | None = None


class ResolvedTool(Lenient):
    """A tool as a run keeps it: resolved when the run starts, unchanged until it ends.

    `parameters` is the schema of the arguments alone. `chosen` holds the schemas of those
    meta-properties that the model fills in. `knowledge`, `memory` and `mcp` are set in tools
    of the worker's own activities: what these receive besides the call, and no model sets.
    Of the calls of a turn with a `memory_use`, each runs after the writes before it, a write after
    all. With `approval_rules`, `approval` is for the calls that no rule fits.
    """

    name: str
    label: str | None = None
    description: str = ""
    parameters: Schema
    chosen: dict[str, Schema | bool] = {}
    output: Schema | bool | None = None
    output_path: str | None = None
    output_method: OutputMethod = "set"
    scopes: list[str] = []
    instance: str | None = None
    delegate: str | None = None
    person: bool = False
    activity: ActivityBinding | None = None
    hooks: Hooks = Hooks()
    side_effects: bool = False
    idempotent: bool = True
    approval: ApprovalPolicy = ApprovalPolicy()
    approval_rules: Annotated[list[ApprovalRule], Field(exclude_if=lambda rules: not rules)] = []
    requires: list[str] = []
    sequential: bool = False
    each: bool = False
    limits: CallLimits = CallLimits()
    untrusted: bool = False
    show: Show | None = None
    knowledge: KnowledgeSource | None = None
    memory: MemoryOwner | None = None
    memory_use: Literal["read", "write"] | None = None
    mcp: McpTool | None = None

    @property
    def once(self) -> bool:
        """Return whether the engine may start a call of this tool at most once."""
        return self.side_effects and not self.idempotent

    @property
    def latent(self) -> bool:
        """Return whether the model itself answers its calls: nothing else runs them."""
        return self.activity is None and self.delegate is None and not self.person


class ShownTool(Explicit):
    """A tool of a run, as people's screens are shown it beside a pending call."""

    name: str
    """Its name."""
    label: str | None = None
    """Its name for people."""
    description: str = ""
    """What it does."""
    parameters: Schema
    """The schema of its arguments."""
    output: Schema | bool | None = None
    """The schema of its result."""
    side_effects: bool = False
    """Whether it changes the world."""
    idempotent: bool = True
    """Whether running a call twice is as good as once."""
    delegate: str | None = None
    """The agent whose run executes its calls, if there is one."""
    approval: ApprovalPolicy
    """When its calls need an approval, who approves, how long they wait, and what happens when no
    one decides: with its agent's defaults, and those of all tools."""
    approval_rules: Annotated[list[ApprovalRule], Field(exclude_if=lambda rules: not rules)] = []
    """The policies of its rules, in their order; `approval` is then for calls that none fits."""


class Envelope(Lenient):
    """What an activity may return in place of a bare result, under the key `_result`."""

    content: KnownJson = None
    """What the model sees: text, JSON, or a list of content parts."""
    details: KnownJson = None
    """For logs and screens; the model never sees it."""
    terminate: bool = False
    """Ask the run to stop after this turn."""
