"""Agents and skills in Python: the fields of an agent's file, typed.

    support = Agent("support", model="openai:gpt-5", tools=[find_order, refund], output=Answer)

`to_json` is the file: a field that is not given is not in it.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypedDict, TypeVar, Unpack, cast, overload

from pydantic import JsonValue
from pydantic.alias_generators import to_camel

from holdfast.definitions.json_form import as_written, check_form, check_names, type_schema
from holdfast.definitions.tool import Approval, JsonObject, Place, Tool
from holdfast.schemas import agent
from holdfast.schemas.budget import Budget, BudgetName, OnLimit, ThresholdName
from holdfast.schemas.tool import ActivityRef, HookRef, RepairRef

OutputT = TypeVar("OutputT")
AnyTool = Tool[..., object]
Model = str | agent.ModelSettings | JsonObject
Schema = type[object] | JsonObject | bool
_SCHEMAS = ("input", "output", "state", "when")


class SkillFields(TypedDict, total=False):
    """The fields of a skill, as `SkillDefinition` describes them."""

    description: str
    when: Schema
    instructions: str
    tools: Sequence[str | AnyTool | JsonObject]
    knowledge: Sequence[agent.Knowledge | JsonObject]
    memory: bool
    activity: ActivityRef | JsonObject
    side_effects: bool


class AgentFields(TypedDict, total=False):
    """The fields of an agent, as `AgentDefinition` describes them."""

    description: str
    title: str
    instructions: str
    model: Model | Sequence[Model]
    calls: Sequence[JsonObject]
    answer: object
    calling: agent.Calling
    tools: Sequence[str | AnyTool | JsonObject]
    skills: "Sequence[Skill | JsonObject]"
    change_skill: bool
    knowledge: Sequence[agent.Knowledge | JsonObject]
    memory: bool
    input: Schema
    state: Schema
    tool_choice: agent.ToolChoice | JsonObject
    budget: Budget | JsonObject
    on_limit: Mapping[BudgetName, OnLimit]
    on_threshold: Mapping[ThresholdName, float]
    concurrency: int
    approval: Approval | JsonObject
    plan: agent.Plan
    principal_scopes: Sequence[str]
    reasoning_for_call: bool
    prepare: HookRef | JsonObject
    repair: RepairRef | JsonObject
    before: HookRef | JsonObject
    after: HookRef | JsonObject
    before_model: HookRef | JsonObject
    on_model_error: HookRef | JsonObject
    after_answer: HookRef | JsonObject


class Skill:
    """A named part of an agent: see `SkillDefinition`. `tools` are those that are functions."""

    def __init__(self, name: str, **fields: Unpack[SkillFields]) -> None:
        self.name = name
        self._form, self.tools = _file_form(agent.SkillDefinition, {"name": name, **fields})

    def to_json(self) -> dict[str, Any]:
        return dict(self._form)


class Agent(Generic[OutputT]):
    """An agent whose runs return an `OutputT`: see `AgentDefinition`.

    `tools` are those that are functions, `place` the line that made it. Without `output`, runs
    return text.

    Raises:
        TypeError: a type has values that JSON lacks.
        ValueError: a field does not fit.
    """

    @overload
    def __init__(self: "Agent[str]", name: str, **fields: Unpack[AgentFields]) -> None: ...

    @overload
    def __init__(
        self: "Agent[JsonValue]",
        name: str,
        *,
        output: JsonObject | bool,
        **fields: Unpack[AgentFields],
    ) -> None: ...

    @overload
    def __init__(
        self, name: str, *, output: type[OutputT], **fields: Unpack[AgentFields]
    ) -> None: ...

    def __init__(
        self,
        name: str,
        *,
        output: type[Any] | JsonObject | bool | None = None,
        **fields: Unpack[AgentFields],
    ) -> None:
        given = {"name": name, "output": output, **fields}
        self._form, self.tools = _file_form(agent.AgentDefinition, given)
        is_schema = isinstance(output, Mapping | bool)
        self._settle(str if output is None else JsonValue if is_schema else output)

    @classmethod
    def from_json(cls, form: JsonObject) -> "Agent[JsonValue]":
        """Return the agent of a file, whose `name` it has.

        Raises:
            ValueError: a field does not fit.
        """
        made = cast(Agent[JsonValue], cls.__new__(cls))
        made._form, made.tools = dict(form), []
        check_form(agent.AgentDefinition, made._form, f"agent `{form.get('name')}`")
        made._settle(JsonValue)
        return made

    def _settle(self, output_type: Any) -> None:
        self.name: str = self._form["name"]
        self.output_type: type[OutputT] = output_type
        caller = sys._getframe(2)
        self.place: Place = caller.f_code.co_filename, caller.f_lineno

    def to_json(self) -> dict[str, Any]:
        return dict(self._form)


def _file_form(
    definition: type[agent.AgentDefinition] | type[agent.SkillDefinition], given: Mapping[str, Any]
) -> tuple[dict[str, Any], list[AnyTool]]:
    """Return arguments as the fields of a file, and the tools among them that are functions."""
    kind = "agent" if definition is agent.AgentDefinition else "skill"
    what = f"{kind} `{given['name']}`"
    check_names(given, definition.model_fields, what)
    form: dict[str, Any] = {}
    functions: list[AnyTool] = []
    for field, info in definition.model_fields.items():
        value = given.get(field)
        if value is None:
            continue
        if field in _SCHEMAS:
            value = type_schema(value, f"{what}: `{field}`")
        elif field == "tools":
            functions += (each for each in value if isinstance(each, Tool))
            value = [each.name if isinstance(each, Tool) else each for each in value]
        elif field == "skills":
            functions += (one for each in value if isinstance(each, Skill) for one in each.tools)
            value = [each.to_json() if isinstance(each, Skill) else each for each in value]
        form[info.alias or to_camel(field)] = as_written(value)
    check_form(definition, form, what)
    return form, functions
