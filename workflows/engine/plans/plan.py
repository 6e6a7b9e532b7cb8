"""Plans: all calls of one answer as people see and edit them.

A plan shows the known arguments; a reference with an unknown value is shown and approved as
written. An edit can change arguments and strike out calls, nothing else. Arguments that were shown
with all values are literal after an edit. Those of a pending call may refer to places that other
calls write.

An edited plan must be able to run: a call that refers to a place that only a struck call would
write has to be struck or changed as well. An older value does not replace the missing one.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from holdfast.schemas.decision import Plan, PlannedCall, no_such_call
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.reference import OutputPath
from holdfast.validation.arguments import InvalidArguments, fit
from holdfast.validation.problems import problems_of, summarize_problems
from holdfast.workflows.engine.call.hooks import CallRefused, hook_activities
from holdfast.workflows.engine.call.outcome import Refused
from holdfast.workflows.engine.call.tool_call import CallStage, Dependencies, ToolCall, Turn
from holdfast.workflows.engine.execution.dependency_graph import (
    connect,
    explain_unresolvable,
    find_cycles,
)
from holdfast.workflows.engine.execution.preparation import (
    check_order,
    check_references,
    fit_arguments,
)
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.data import is_same_json
from holdfast.workflows.engine.state.references import references

# The parts of a call that cannot be edited.
_FIXED = ("tool", "label", "reasoning", "waits_for", "writes", "instance", "delegate")
# The keywords that apply to single properties: others may depend on values not known yet.
_LOCAL = (
    *("type", "required", "properties", "additionalProperties"),
    *("$schema", "$id", "$defs", "definitions"),
)


def unstarted(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """List the calls that have neither ended nor started."""
    return [call for call in calls if call.stage in (CallStage.PROPOSED, CallStage.PENDING)]


def known_arguments(call: ToolCall) -> dict[str, Any]:
    """Return the known arguments of a call."""
    return call.raw_arguments if call.stage is CallStage.PENDING else call.arguments


def plan_json(calls: Sequence[ToolCall], *, sequential: bool) -> dict[str, Any]:
    """Return calls as the JSON of a plan."""
    planned = [
        PlannedCall(
            id=call.id,
            tool=call.name,
            label=call.label,
            arguments=known_arguments(call),
            reasoning=call.meta.reasoning,
            waits_for=_waits_for(call, calls, sequential=sequential),
            writes=format_output_path(call.meta.output_path),
            instance=call.meta.instance,
            delegate=call.tool.delegate,
        )
        for call in calls
    ]
    return Plan(calls=planned).to_json()


def format_output_path(output: OutputPath | None) -> str | None:
    """Format the places of a result and, after `||`, of its error."""
    if output is None:
        return None
    result = " && ".join(map(str, output.result))
    return " || ".join([result, *map(str, output.error)])


def check_known_arguments(call: ToolCall, state: RunState) -> None:
    """Check the known arguments of a pending call against its tool's schema.

    With a hook `_repair`, which may fix them, nothing is checked.

    Raises:
        InvalidArguments: They do not fit.
    """
    if hook_activities(call, state.rules, "repair"):
        return
    parameters = call.tool.parameters
    unknown = [name for name, value in call.raw_arguments.items() if has_references(value)]
    fit(call.raw_arguments, _without(parameters, unknown) if unknown else parameters)


def find_unrunnable(
    turn: Turn, calls: Sequence[ToolCall], state: RunState, gone: Callable[[ToolCall], bool]
) -> dict[ToolCall, CallRefused]:
    """Find the pending calls that can never run without those that are `gone`, with the reasons.

    The result includes calls that need such a call.
    """
    found: dict[ToolCall, CallRefused] = {}

    def lost(call: ToolCall) -> bool:
        return gone(call) or call in found

    while more := {
        call: refusal
        for index, call in enumerate(calls)
        if call.stage is CallStage.PENDING and not lost(call)
        if (
            refusal := _vain(
                call,
                calls[:index] if turn.is_sequential else call.dependencies.sources,
                state,
                lost,
            )
        )
    }:
        found |= more
    return found


def _vain(
    call: ToolCall, before: Sequence[ToolCall], state: RunState, gone: Callable[[ToolCall], bool]
) -> CallRefused | None:
    try:
        check_order(call, state, [other for other in before if not gone(other)])
    except CallRefused as refusal:
        return refusal
    why = explain_unresolvable(call, state.data, gone)
    return None if why is None else CallRefused(ErrorCode.UNRESOLVED_REFERENCE, why)


class PlanEdit:
    """A person's edit of a plan, checked: the remaining calls, and their arguments.

    Raises:
        InvalidArguments: It is not a plan, or the remaining calls could not run.
    """

    def __init__(
        self,
        turn: Turn,
        state: RunState,
        now: dict[str, Any],
        edited: dict[str, Any],
    ) -> None:
        self._turn = turn
        self._state = state
        self._given = _given(turn, Plan.model_validate(now), _plan(edited))
        self._trial = self._tried()
        self._check()

    def to_json(self) -> dict[str, Any]:
        """Return the edited plan."""
        return plan_json(self._staying(), sequential=self._turn.is_sequential)

    def _tried(self) -> list[ToolCall]:
        copies = [replace(call, dependencies=Dependencies()) for call in self._turn.calls]
        for copy in copies:
            if copy.id in self._given:
                copy.edit(self._given[copy.id], None)
        connect(copies, is_sequential=self._turn.is_sequential)
        return copies

    def _staying(self) -> list[ToolCall]:
        return [call for call in self._trial if call.id in self._given]

    def _is_gone(self, call: ToolCall) -> bool:
        """Return whether a call never writes a result: it was struck out, or refused earlier."""
        struck = call.outcome is None and call.id not in self._given
        return struck or isinstance(call.outcome, Refused)

    def _check(self) -> None:
        for call in self._staying():
            if call.stage is CallStage.PENDING:
                _check_edited(call, self._state)
        for call, circle in find_cycles(self._staying(), by_references=False).items():
            raise InvalidArguments(f"{call.id}: circular references: {circle}")
        found = find_unrunnable(self._turn, self._trial, self._state, self._is_gone)
        if found:
            lost = "; ".join(f"{call.id}: {refusal}" for call, refusal in found.items())
            also = ", ".join(call.id for call in found)
            raise InvalidArguments(f"{lost}. Strike {also} out as well, or change the arguments")


def _plan(edited: dict[str, Any]) -> Plan:
    try:
        return Plan.model_validate(edited)
    except ValidationError as error:
        raise InvalidArguments(summarize_problems(problems_of(error, edited, Plan))) from None


def _given(turn: Turn, now: Plan, edited: Plan) -> dict[str, dict[str, Any]]:
    calls, shown_now = {call.id: call for call in turn.calls}, {call.id: call for call in now.calls}
    given: dict[str, dict[str, Any]] = {}
    for entry in edited.calls:
        if entry.id not in shown_now:
            raise InvalidArguments("; ".join(no_such_call(entry.id, shown_now)))
        if entry.id in given:
            raise InvalidArguments(f"`{entry.id}` is listed twice")
        given[entry.id] = _arguments(calls[entry.id], shown_now[entry.id], entry)
    if not given:
        raise InvalidArguments("no call is left; `deny` the plan instead")
    return given


def _arguments(call: ToolCall, now: PlannedCall, entry: PlannedCall) -> dict[str, Any]:
    for name in _FIXED:
        if name in entry.model_fields_set and getattr(entry, name) != getattr(now, name):
            alias = PlannedCall.model_fields[name].alias
            raise InvalidArguments(f"{call.id}: `{alias}` cannot be changed, only `arguments` can")
    assert now.arguments is not None  # the plan showed them
    if entry.arguments is None or is_same_json(entry.arguments, now.arguments):
        return now.arguments
    if call.stage is CallStage.PENDING:
        return entry.arguments
    try:
        return fit_arguments(call.tool, entry.arguments)
    except InvalidArguments as error:
        raise InvalidArguments(f"{call.id}: {error}") from None


def _check_edited(call: ToolCall, state: RunState) -> None:
    try:
        check_references(call, call.raw_arguments)
        check_known_arguments(call, state)
    except (CallRefused, InvalidArguments) as error:
        raise InvalidArguments(f"{call.id}: {error}") from None


def has_references(value: Any) -> bool:
    """Return whether a value holds references."""
    return any(True for _ in references(value))


def _without(parameters: dict[str, Any], unknown: Sequence[str]) -> dict[str, Any]:
    """Return the schema of an object of which some properties are not known yet."""
    partial = {key: parameters[key] for key in _LOCAL if key in parameters}
    if "patternProperties" in parameters:
        partial.pop("additionalProperties", None)
    may_be = {
        name: True
        for name in unknown
        if name in partial.get("properties", {})
        or partial.get("additionalProperties", True) is not False
    }
    return {**partial, "properties": {**partial.get("properties", {}), **may_be}}


def _waits_for(call: ToolCall, calls: Sequence[ToolCall], *, sequential: bool) -> list[str]:
    before = calls[calls.index(call) - 1 : calls.index(call)] if sequential else []
    waited = {*call.dependencies.sources, *call.dependencies.earlier_writers, *before}
    return [other.id for other in calls if other in waited]
