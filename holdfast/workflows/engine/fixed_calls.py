"""The fixed calls of a run, which no model makes: their outcome ends the run.

They are an agent's constant calls, or a skill's activity: one call, of a tool made of the skill,
with the run's input.
"""

from typing import Any

from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import AskedCall, ChatMessage
from holdfast.schemas.names import ErrorCode, call_id
from holdfast.schemas.tool import CHOSEN_BY_MODEL, ResolvedTool
from holdfast.validation.arguments import InvalidArguments, fit
from holdfast.workflows.engine.call.activities import CallRefused
from holdfast.workflows.engine.call.states import ProposedCall, ToolCall, Turn
from holdfast.workflows.engine.model.answer import propose_calls
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.skills import skill_of
from holdfast.workflows.engine.state.data import VisibleData
from holdfast.workflows.engine.state.references import Unresolved, resolve

# The kind under which an `answer` refers to the model's output.
OUTPUT = "output"
# What a skill's activity takes over from the tool that it runs, besides its parameters.
_RULES = (
    *("side_effects", "idempotent", "approval", "approval_rules", "hooks", "requires", "limits"),
    "untrusted",
)


def propose_fixed_calls(
    agent: ResolvedAgent, state: RunState, *, turn: int, calls: int
) -> Turn | None:
    """Log and return the calls of a run without a model; None if it has no such calls.

    They belong to turn number `turn` (0: to none) with this number of calls.
    """
    own = call_id(max(turn, 1), calls + 1)
    call = _activity_call(agent, state.skill, state.data["input"], own)
    # The author of constant calls may set what a model could choose.
    open_ = dict.fromkeys(CHOSEN_BY_MODEL, True)
    tools = [tool.model_copy(update={"chosen": {**open_, **tool.chosen}}) for tool in agent.tools]
    constant = propose_calls(Solution(calls=agent.calls), 1, tools, {})
    fixed = [*constant, *([] if call is None else [call])]
    if not fixed:
        return None
    proposals = [each.proposed.proposal for each in fixed]
    state.log.add_message(ChatMessage(role="user", calls=proposals))
    return Turn(turn, fixed, is_plan=agent.plan == "lazy" and bool(agent.calls))


def constant_answer(agent: ResolvedAgent, state: RunState, last: Any) -> Any:
    """Return the `answer` of an agent, or else the `last` result; or raise `CallRefused`.

    In that of an agent with a model, `†output` is the last result: the model's own output.
    """
    data = state.data
    if agent.model is not None:
        data = data.copy()
        data.set(OUTPUT, last)
    try:
        output = last if agent.answer is None else resolve(agent.answer, VisibleData(data))
        budget = state.limits.budget()
        return output if agent.output is None else fit(output, agent.output, budget)
    except Unresolved as error:
        raise CallRefused(ErrorCode.UNRESOLVED_REFERENCE, f"`answer`: {error}") from None
    except InvalidArguments as error:
        raise CallRefused(
            ErrorCode.INVALID_OUTPUT, f"the calls were run; the output does not fit: {error}"
        ) from None


def _activity_call(agent: ResolvedAgent, name: str | None, given: Any, own: str) -> ToolCall | None:
    """Return the only call of a skill with an activity, in whose input no reference is read."""
    skill = skill_of(agent, name)
    if skill is None or skill.activity is None:
        return None
    # The schema of the input as one of arguments, since people may edit these.
    parameters = agent.input if isinstance(agent.input, dict) else {"type": "object"}
    if isinstance(given, str):
        text = {"type": "string"} if agent.input is None else agent.input
        parameters = {"type": "object", "properties": {"input": text}, "required": ["input"]}
    rules = skill.rules
    if rules is not None and rules.activity is not None:
        parameters = rules.parameters
    tool = ResolvedTool(
        name=skill.name,
        description=skill.description,
        parameters=parameters,
        output=agent.output,
        activity=skill.activity,
        **({} if rules is None else {key: getattr(rules, key) for key in _RULES}),
    )
    arguments = {"input": given} if isinstance(given, str) else given or {}
    proposal = AskedCall(id=own, provider_id=own, tool=tool.name, arguments=arguments)
    return ToolCall(ProposedCall(proposal, tool, is_literal=True))
