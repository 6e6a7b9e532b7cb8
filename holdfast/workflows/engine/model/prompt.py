"""The requests to the model, and the form in which it reads the results of its calls.

Messages that were sent to a model never change, so that providers' caches apply. The state changes
from turn to turn, and therefore follows the conversation.
"""

from collections.abc import Sequence
from typing import Any

from holdfast.schemas.agent import ResolvedAgent, ToolChoice
from holdfast.schemas.base import readable_json
from holdfast.schemas.internal.model_request import Ask, ToolOffer
from holdfast.schemas.internal.shared_budgets import NO_SCOPES, BudgetScopes
from holdfast.schemas.reference import Path
from holdfast.schemas.tool import REASONING
from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.model.composed import WHY, composed_schema
from holdfast.workflows.engine.model.strict_schema import or_reference, refers
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.skills import allowed_tools, skill_of
from holdfast.workflows.engine.state.data import MISSING
from holdfast.workflows.engine.state.redaction import UNTRUSTED_RULE
from holdfast.workflows.engine.state.references import (
    INSTANCE,
    as_text,
    each_property,
    instance_property,
)

MAX_STATE_CHARACTERS = 8_000
MAX_INSTANCES_CHARACTERS = 16_000
# A smaller share shows nothing useful: instances without a share are only counted.
MIN_SHARE_CHARACTERS = 100
MIN_VALUE_CHARACTERS = 20
MAX_VALUE_CHARACTERS = 200
_STATE = "The current state (†state), for your information:"
_FOR_ALL = "The current state (†state) of every instance, for your information:"
_OWN = "The state that each instance has of its own, over what every instance has:"

FINALIZE = "iteration limit reached; finalise your answer"

_KEPT = (
    "Some results are stored in the state. An argument that is exactly †state.path is replaced by"
    " the value stored there, and †{state.path} inside a longer text by its text. A call may"
    " refer to the stored result of another call of the same answer: it runs after that call. So"
    " make all calls that you can plan in one answer, rather than one after the other."
)
_WHERE = "Where results are stored:\n"
_OUTPUT = "When you are done, answer with JSON alone, valid against this JSON Schema:\n"
_COMPOSED = (
    'Answer with one JSON object alone: {"calls": [...], "output": ...}. Each of `calls` names a'
    " tool in `_tool` and gives its arguments beside it; an argument that you leave out is null."
    " Put all calls that can run now into one answer: they run together, and you receive the result"
    " of each before you answer again. `output` is your answer to the task, and null as long as you"
    ' need results to give it. When you are done: {"calls": [], "output": ...}.'
)
_UNCALLED = 'Answer with one JSON object alone: {"output": ...}.'


def instructions(agent: ResolvedAgent, skill: str | None = None) -> str:
    """Return the agent's instructions, its skill's, and those for its tools and output."""
    chosen, tools = skill_of(agent, skill), allowed_tools(agent, skill)
    notes = [agent.instructions.strip(), chosen.instructions.strip() if chosen else ""]
    if any(tool.untrusted for tool in tools):
        notes.append(UNTRUSTED_RULE)
    if refers(tools):
        notes.append(_KEPT)
        fixed = [f"- {tool.name}: {tool.output_path}" for tool in tools if tool.output_path]
        notes.append(_WHERE + "\n".join(fixed) if fixed else "")
    if agent.calling == "composed":
        notes.append(_COMPOSED if tools else _UNCALLED)
    elif agent.output is not None:
        notes.append(_OUTPUT + readable_json(agent.output))
    return "\n\n".join(note for note in notes if note)


def offers(
    agent: ResolvedAgent,
    skill: str | None = None,
    instances: Sequence[str] = (),
    limits: ValidationLimits | None = None,
) -> list[ToolOffer]:
    """Return the allowed tools in the form for a model, in a run with these instances."""
    tools = allowed_tools(agent, skill)
    refer, offered = refers(tools), []
    for tool in tools:
        whose = instance_property(tool, instances, limits)
        declared = tool.parameters.get("properties", {})
        if refer or tool.each:
            declared = {name: or_reference(schema) for name, schema in declared.items()}
        chosen = {name: schema for name, schema in tool.chosen.items() if name != INSTANCE}
        why = {REASONING: WHY} if agent.reasoning_for_call else {}
        properties = {**declared, **chosen, **whose, **each_property(tool), **why}
        parameters = {"type": "object", **tool.parameters, "properties": properties}
        if whose:
            parameters["required"] = [*tool.parameters.get("required", []), INSTANCE]
        offer = ToolOffer(name=tool.name, description=tool.description, parameters=parameters)
        offered.append(offer)
    return offered


def ask(
    agent: ResolvedAgent,
    text: str,
    tools: list[ToolOffer],
    choice: ToolChoice,
    tail: str | None,
    skill: str | None = None,
    instances: Sequence[str] = (),
    budget_scopes: BudgetScopes = NO_SCOPES,
) -> Ask:
    """Return the settings of one request: `text` are its instructions, and `tail` is last.

    A provider receives the output's schema only if no call is possible: some reject a request that
    has both an enforced schema and tools. In composed calling the calls are a part of the schema,
    and no tools are offered.
    """
    choice = choice if tools else "none"
    request = Ask(
        model=agent.own_model,
        calling=agent.calling,
        instructions=text,
        tools=tools,
        tool_choice=choice,
        output=agent.output if choice == "none" else None,
        tail=tail,
        budget_scopes=budget_scopes,
    )
    if agent.calling == "native":
        return request
    composed = composed_schema(agent, allowed_tools(agent, skill), choice, instances)
    return request.model_copy(
        update={
            "tools": [],
            "tool_choice": "none",
            "output": composed,
            "output_told": False,
            "null_is_absent": True,
        }
    )


def tail(run_state: RunState, plan: str | None = None) -> str | None:
    """Return the text of the state and the plan, which follows the conversation; None if empty."""
    shared = shown_state(run_state)
    instances = run_state.data.instances
    own = {name: state for name in instances if (state := shown_state(run_state, name))}
    notes = []
    if shared:
        heading = _FOR_ALL if instances else _STATE
        notes.append(f"{heading}\n{_within(shared, MAX_STATE_CHARACTERS)}")
    if own:
        shown = list(own)[: MAX_INSTANCES_CHARACTERS // MIN_SHARE_CHARACTERS]
        share = _fair_share(sorted(len(readable_json(own[name])) for name in shown))
        lines = [_OWN, *(f"{name}: {_within(own[name], share)}" for name in shown)]
        if len(own) > len(shown):
            lines.append(f"(and {len(own) - len(shown)} more instances)")
        notes.append("\n".join(lines))
    if plan is not None:
        notes.append(plan)
    return "\n\n".join(notes) or None


def shown_state(run_state: RunState, instance: str | None = None) -> Any:
    place = Path("state", (), instance)
    state = run_state.data.own_value(place.kind, instance)
    return None if state is MISSING or not state else run_state.redactions.redact(state, place)


def _fair_share(sizes: list[int]) -> int:
    """Return the largest share with which smaller sizes fit whole; `sizes` are ascending."""
    room = MAX_INSTANCES_CHARACTERS
    for taken, size in enumerate(sizes):
        share = room // (len(sizes) - taken)
        if size > share:
            return share
        room -= size
    return sizes[-1]


def _within(state: Any, most: int) -> str:
    """Return the state in about `most` characters: whole, or the beginning of each value."""
    whole = readable_json(state)
    if len(whole) <= most:
        return whole
    if isinstance(state, dict):
        room = max(MIN_VALUE_CHARACTERS, min(MAX_VALUE_CHARACTERS, most // len(state)))
        short = {}
        for key, value in state.items():
            text = as_text(value)
            is_short = len(text) <= room
            short[key] = value if is_short else f"{text[:room]} … ({len(text):,} characters)"
        whole = readable_json(short)
    return whole if len(whole) <= 2 * most else whole[:most] + " …"
