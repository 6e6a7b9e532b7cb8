"""Tools: a JSON Schema with meta-properties, as a person writes it and as a run keeps it.

`ToolDefinition` is the written form, `Tool` the resolved one: names settled, defaults filled in,
what the model sees set apart from what it does not.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue, model_validator

from schemas.base import Duration, Lenient, Strict

Schema = dict[str, Any]
OutputMethod = Literal["set", "merge", "assign", "push", "concat"]
Show = Literal["full", "preview", "none"]


class Retry(Strict):
    """When and how often a failed activity is tried again."""

    maximum_attempts: Annotated[int, Field(ge=1)] | None = None
    initial_interval: Duration | None = None
    backoff_coefficient: Annotated[float, Field(ge=1)] | None = None
    maximum_interval: Duration | None = None
    non_retryable_error_types: list[str] = []


class ActivityBinding(Strict):
    """Which activity carries a tool out, and how."""

    type: Annotated[str, Field(min_length=1, max_length=200)]
    task_queue: str | None = None
    local: bool = False
    input: Literal["arguments", "call"] = "arguments"
    start_to_close_timeout: Duration | None = None
    schedule_to_close_timeout: Duration | None = None
    heartbeat_timeout: Duration | None = None
    retry: Retry = Retry()


class ApprovalPolicy(Strict):
    """When a call waits for a person, for whom, and for how long. Unset fields fall back: to the
    agent's defaults, then to `APPROVAL_DEFAULTS`."""

    require: Literal["side_effects", "always", "never"] | None = None
    when: Schema | bool | None = None
    timeout: Duration | None = None
    on_timeout: Literal["deny", "fail", "approve"] | None = None
    remind: Duration | None = None
    approvers: list[str] | None = None
    quorum: Annotated[int, Field(ge=1, le=100)] | None = None
    not_by: Literal["principal"] | None = None

    def over(self, defaults: "ApprovalPolicy") -> "ApprovalPolicy":
        """This policy, with what it leaves unset taken from `defaults`."""
        policy = {name: getattr(defaults, name) for name in ApprovalPolicy.model_fields}
        own = {name: getattr(self, name) for name in policy}
        said = {name: value for name, value in own.items() if value is not None}
        return ApprovalPolicy.model_validate(policy | said)


APPROVAL_DEFAULTS = ApprovalPolicy.model_validate(
    {"require": "side_effects", "timeout": "7d", "onTimeout": "deny", "quorum": 1, "approvers": []}
)


class CallLimits(Strict):
    """How often a tool may be called in a run, and what must have succeeded before."""

    per_run: Annotated[int, Field(ge=1)] | None = None
    after: list[str] = []


def _only_known_meta(schema: Schema) -> None:
    """Refuse unknown meta-properties; every keyword of JSON Schema stays allowed."""
    known = "|".join(name for name in schema["properties"] if name.startswith("_"))
    schema["patternProperties"] = {f"^(?!({known})$)_": False}
    schema["properties"]["properties"]["propertyNames"] = {"pattern": f"^({known})$|^(?!_)"}


class ToolDefinition(Strict):
    """A tool as a person writes it: a JSON Schema (draft 2020-12) with meta-properties.

    Besides the meta-properties below, every keyword of JSON Schema is allowed.
    """

    model_config = ConfigDict(extra="allow", frozen=True, json_schema_extra=_only_known_meta)

    tool: Annotated[
        str | None, Field(alias="_tool", pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$")
    ] = None
    title: str | None = None
    description: str | None = None
    type: Literal["object"] = "object"
    properties: dict[str, Schema | bool] = {}
    required: list[str] = []
    output: Annotated[Schema | bool | None, Field(alias="_output")] = None
    output_path: Annotated[str | None, Field(alias="_outputPath")] = None
    output_method: Annotated[OutputMethod | None, Field(alias="_outputMethod")] = None
    scopes: Annotated[list[str] | None, Field(alias="_scopes")] = None
    activity: Annotated[str | ActivityBinding | None, Field(alias="_activity")] = None
    side_effects: Annotated[bool, Field(alias="_sideEffects")] = False
    idempotent: Annotated[bool | None, Field(alias="_idempotent")] = None
    approval: Annotated[ApprovalPolicy | None, Field(alias="_approval")] = None
    requires: Annotated[list[str], Field(alias="_requires")] = []
    sequential: Annotated[bool, Field(alias="_sequential")] = False
    limits: Annotated[CallLimits | None, Field(alias="_limits")] = None
    untrusted: Annotated[bool, Field(alias="_untrusted")] = False
    show: Annotated[Show | None, Field(alias="_show")] = None
    label: Annotated[str | None, Field(alias="_label")] = None

    @model_validator(mode="after")
    def _known_meta_properties(self) -> "ToolDefinition":
        for name in self.model_extra or {}:
            if name.startswith("_"):
                raise ValueError(
                    f"unknown meta-property `{name}`; known: {', '.join(META_PROPERTIES)}"
                )
        return self


META_PROPERTIES = tuple(
    field.alias
    for field in ToolDefinition.model_fields.values()
    if field.alias is not None and field.alias.startswith("_")
)
# What a model may be let to choose, call by call, by a schema under `properties`.
CHOSEN_BY_MODEL = ("_outputPath", "_outputMethod", "_scopes")
REASONING = "_reasoningForCall"


class Tool(Lenient):
    """A tool as a run keeps it: resolved when the run starts, unchanged until it ends.

    `parameters` is the schema of the arguments alone. `chosen` holds the schemas of those
    meta-properties that the model fills in.
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
    activity: ActivityBinding
    side_effects: bool = False
    idempotent: bool = True
    approval: ApprovalPolicy = ApprovalPolicy()
    requires: list[str] = []
    sequential: bool = False
    limits: CallLimits = CallLimits()
    untrusted: bool = False
    show: Show | None = None

    @property
    def once(self) -> bool:
        """Whether the engine may start a call of this tool at most once."""
        return self.side_effects and not self.idempotent


class Envelope(Lenient):
    """What an activity may return in place of a bare result, under the key `_result`."""

    content: JsonValue = None
    details: JsonValue = None
    terminate: bool = False
