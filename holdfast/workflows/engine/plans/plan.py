"""Plans: all calls of one answer as people see and edit them.

A plan shows the known arguments. A reference with an unknown value is shown as written; its call
needs an approval of its own, unless the approver sets a bound that the later arguments fit. An edit
can change arguments, strike out calls and set bounds, nothing else. Arguments that were shown with
all values are literal after an edit; those of a pending call may refer to what other calls write.
An edited plan must be able to run: a call that refers to a place that only a struck call would
write has to be struck or changed as well. An older value does not replace the missing one.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from holdfast.schemas.decision import Plan, PlannedCall, no_such_call
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.reference import OutputPath, references_in
from holdfast.schemas.tool import EACH
from holdfast.validation.arguments import InvalidArguments, fit, without_unknown
from holdfast.validation.problems import problems_of, summarize_problems
from holdfast.validation.schema_check import schema_problems
from holdfast.validation.schema_node import CannotCheck, ValidationLimits
from holdfast.workflows.engine.call import outcomes
from holdfast.workflows.engine.call.activities import CallRefused, hook_activities
from holdfast.workflows.engine.call.states import ToolCall, Turn
from holdfast.workflows.engine.execution import dependency_graph, preparation
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.data import is_same_json

# The parts of a call that cannot be edited.
_FIXED = ("tool", "label", "reasoning", "waits_for", "writes", "instance", "delegate")


def unstarted(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """List the calls that have neither ended nor started."""
    return [call for call in calls if call.is_undecided]


def plan_json(calls: Sequence[ToolCall], *, sequential: bool) -> dict[str, Any]:
    """Return calls as the JSON of a plan."""
    planned = []
    for index, call in enumerate(calls):
        waited = {*call.dependencies.needed, *(calls[index - 1 : index] if sequential else ())}
        planned.append(
            PlannedCall(
                id=call.id,
                tool=call.name,
                label=call.label,
                arguments=call.known_arguments,
                reasoning=call.meta.reasoning,
                waits_for=[other.id for other in calls if other in waited],
                writes=format_output_path(call.meta.output_path),
                instance=call.meta.instance,
                delegate=call.tool.delegate,
                bound=call.prepared.bound,
            )
        )
    return Plan(calls=planned).to_json()


def format_output_path(output: OutputPath | None) -> str | None:
    """Format the places of a result and, after `||`, of its error."""
    if output is None:
        return None
    result = " && ".join(map(str, output.result))
    return " || ".join([result, *map(str, output.error)])


def check_known_arguments(call: ToolCall, state: RunState, limits: ValidationLimits) -> None:
    """Raise `InvalidArguments` unless known arguments fit, or a hook may repair them."""
    if hook_activities(call, state.rules, "repair"):
        return
    arguments = {k: one for k, one in call.prepared.raw_arguments.items() if k != EACH}
    unknown = [name for name, value in arguments.items() if has_references(value)]
    fit(arguments, without_unknown(call.tool.parameters, unknown), limits.budget())


def find_unrunnable(
    turn: Turn, calls: Sequence[ToolCall], state: RunState, gone: Callable[[ToolCall], bool]
) -> dict[ToolCall, CallRefused]:
    """Find the pending calls that cannot run without those that are `gone`, and the reasons."""
    found: dict[ToolCall, CallRefused] = {}

    def lost(call: ToolCall) -> bool:
        return gone(call) or call in found

    def refusal_of(call: ToolCall, before: Sequence[ToolCall]) -> CallRefused | None:
        try:
            preparation.check_order(call, state, {each.name for each in before if not lost(each)})
        except CallRefused as refusal:
            return refusal
        why = dependency_graph.explain_unresolvable(call, state.data, lost)
        return None if why is None else CallRefused(ErrorCode.UNRESOLVED_REFERENCE, why)

    while more := {
        call: refusal
        for index, call in enumerate(calls)
        if call.is_pending and not lost(call)
        if (
            refusal := refusal_of(
                call, calls[:index] if turn.is_sequential else call.dependencies.sources
            )
        )
    }:
        found |= more
    return found


def edit_plan(
    turn: Turn,
    state: RunState,
    now: dict[str, Any],
    edited: dict[str, Any],
    limits: ValidationLimits,
) -> dict[str, Any]:
    """Return the remaining plan after an edit, or raise `InvalidArguments`."""
    try:
        plan = Plan.model_validate(edited)
    except ValidationError as error:
        raise InvalidArguments(summarize_problems(problems_of(error, edited, Plan))) from None
    shown = Plan.model_validate(now)
    new_arguments = _given(turn, shown, plan, limits)
    bounds = {entry.id: entry.bound for entry in shown.calls}
    bounds |= {entry.id: entry.bound for entry in plan.calls if "bound" in entry.model_fields_set}
    trial = [copy(call) for call in turn.calls]
    staying = [call for call in trial if call.id in new_arguments]
    for call in staying:
        call.edit(new_arguments[call.id], None)
        call.revise(replace(call.prepared, bound=bounds.get(call.id)))
        if call.prepared.bound is not None:
            _check_bound(call, call.prepared.bound, limits)
    dependency_graph.connect(trial, is_sequential=turn.is_sequential)
    for call in staying:
        if call.is_pending:
            try:
                preparation.set_references(call, call.prepared.raw_arguments)
                check_known_arguments(call, state, limits)
            except (CallRefused, InvalidArguments) as error:
                raise InvalidArguments(f"{call.id}: {error}") from None
    for call, circle in dependency_graph.find_cycles(staying, by_references=False).items():
        raise InvalidArguments(f"{call.id}: circular references: {circle}")

    def is_gone(call: ToolCall) -> bool:
        """Return whether a call never writes a result: it was struck out, or refused earlier."""
        struck = call.outcome is None and call.id not in new_arguments
        return struck or isinstance(call.outcome, outcomes.Refused)

    if found := find_unrunnable(turn, trial, state, is_gone):
        lost = "; ".join(f"{call.id}: {refusal}" for call, refusal in found.items())
        also = ", ".join(call.id for call in found)
        raise InvalidArguments(f"{lost}. Strike {also} out as well, or change the arguments")
    return plan_json(staying, sequential=turn.is_sequential)


def _given(
    turn: Turn, now: Plan, edited: Plan, limits: ValidationLimits
) -> dict[str, dict[str, Any]]:
    calls, shown_now = {call.id: call for call in turn.calls}, {call.id: call for call in now.calls}
    arguments: dict[str, dict[str, Any]] = {}
    for entry in edited.calls:
        if entry.id not in shown_now:
            raise InvalidArguments("; ".join(no_such_call(entry.id, shown_now)))
        if entry.id in arguments:
            raise InvalidArguments(f"`{entry.id}` is listed twice")
        arguments[entry.id] = _arguments(calls[entry.id], shown_now[entry.id], entry, limits)
    if not arguments:
        raise InvalidArguments("no call is left; `deny` the plan instead")
    return arguments


def _arguments(
    call: ToolCall, now: PlannedCall, entry: PlannedCall, limits: ValidationLimits
) -> dict[str, Any]:
    for name in _FIXED:
        if name in entry.model_fields_set and getattr(entry, name) != getattr(now, name):
            alias = PlannedCall.model_fields[name].alias
            raise InvalidArguments(f"{call.id}: `{alias}` cannot be changed, only `arguments` can")
    shown = now.arguments or {}
    if entry.arguments is None or is_same_json(entry.arguments, shown):
        return shown
    if call.is_pending:
        return entry.arguments
    try:
        return preparation.fit_edit(call, entry.arguments, limits)
    except InvalidArguments as error:
        raise InvalidArguments(f"{call.id}: {error}") from None


def _check_bound(call: ToolCall, bound: dict[str, Any], limits: ValidationLimits) -> None:
    if not is_unseen(call):
        raise InvalidArguments(f"{call.id}: `bound` is for arguments that are not known yet")
    if not bound:
        raise InvalidArguments(f"{call.id}: `bound` is empty; write what the arguments have to fit")
    try:
        problems = schema_problems(bound, limits)
    except CannotCheck as error:
        raise InvalidArguments(f"{call.id}: `bound`: {error}") from None
    for problem in problems:
        raise InvalidArguments(f"{call.id}: `bound`: {problem.reason}; {problem.fix}")


def is_unseen(call: ToolCall) -> bool:
    """Return whether a call has arguments that a plan shows as references without a value."""
    is_read = call.is_pending and not call.prepared.is_literal
    return is_read and has_references(call.prepared.raw_arguments)


def has_references(value: Any) -> bool:
    return any(True for _ in references_in(value))
