"""From a proposed call to the arguments that its tool receives, or to the reason of its refusal.

The order is fixed: tool lookup; meta-properties; the hook `_prepare` (`prepare`); then, once every
value exists that the call refers to, references, coercion and validation, with the hook `_repair`
for invalid arguments (`resolve_arguments`); then the hook `_before` (`run_before_hooks`). `_limits`
and scopes are checked separately. Nothing here has effects.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, get_args

from holdfast.schemas.base import json_size
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.reference import ITEM, Path, parse_output_path, references_in
from holdfast.schemas.tool import (
    EACH,
    REASONING,
    ActivityBinding,
    OutputMethod,
    RepairAgent,
    ResolvedTool,
)
from holdfast.validation.arguments import InvalidArguments, coerce, fit, unwrapped
from holdfast.validation.lenient_json import ensure_json, read_json
from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.call import activities, outcomes
from holdfast.workflows.engine.call.states import MetaProperties, PreparedCall, ToolCall
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state import references
from holdfast.workflows.engine.state.data import MISSING, VisibleData, is_same_json

MAX_ARGUMENT_BYTES = 1_000_000
MAX_REASONING_CHARACTERS = 4_000
MAX_REPAIRS = 8
MAX_PLACES_READ = 500
MAX_REFERENCES = 5_000
MAX_REFERENCES_IN_TURN = 20_000
_ITEMS = f'write `{{"{EACH}": [...]}}` with the arguments of each item, and null to leave one out'


def prepare(call: ToolCall, state: RunState, room: int) -> activities.HookRequests[None]:
    """Set what is known of a call before its references are resolved.

    It raises `CallRefused` or `RunStopped`. `room` is the number of references left for it.
    """
    if (why := state.meter.refuse_call(call.name)) is not None:
        raise activities.CallRefused(ErrorCode.BLOCKED, why)
    if room < 0:
        message = f"the calls before it hold more than {MAX_REFERENCES_IN_TURN} references"
        raise activities.CallRefused(ErrorCode.UNRESOLVED_REFERENCE, message)
    if call.proposed.tool is None:
        raise activities.CallRefused(
            ErrorCode.TOOL_NOT_ALLOWED,
            f"Tool '{call.name}' is not allowed for {state.describe_tools()}",
        )
    arguments, loop = dict(call.proposed.proposal.arguments), dict[str, Any]()
    try:
        if call.proposed.unreadable is not None:
            raise call.proposed.unreadable
        if not call.proposed.is_literal:
            arguments = unwrapped(arguments, call.tool.parameters, call.name)
            loop = _read_meta_properties(call, arguments, state)
        parameters, budget = call.tool.parameters, state.limits.budget()
        arguments = coerce(arguments, parameters, budget, fill=True, is_resolved=False)
    except InvalidArguments as error:
        raise activities.CallRefused(ErrorCode.INVALID_ARGUMENTS, str(error)) from None
    for activity in activities.hook_activities(call, state.rules, "prepare"):
        arguments = yield from _rewritten(call, "prepare", activity, arguments)
    set_references(call, {**loop, **arguments})


def paths_read(arguments: dict[str, Any], known: PreparedCall) -> Iterator[Path]:
    """Yield every place that arguments of a call refer to, once for each reference.

    The item of a loop is no place: it is in the loop's list.
    """
    if not known.is_literal:
        for reference in references_in(arguments, known.meta.instance):
            yield from (one for one in reference.paths if one.kind != ITEM or EACH not in arguments)


def set_references(call: ToolCall, arguments: dict[str, Any]) -> None:
    """Set the arguments of a call; raise `CallRefused` for too many or malformed references."""
    known = call.prepared
    try:
        if not known.is_literal:
            references.check_references(arguments)
    except references.Unresolved as error:
        raise activities.CallRefused(ErrorCode.UNRESOLVED_REFERENCE, str(error)) from None
    reads = list(islice(paths_read(arguments, known), MAX_REFERENCES + 1))
    call.revise(replace(known, raw_arguments=arguments, reference_count=len(reads)))
    if len(reads) > MAX_REFERENCES:
        message = f"the arguments hold more than {MAX_REFERENCES} references"
        raise activities.CallRefused(ErrorCode.UNRESOLVED_REFERENCE, message)
    if len(set(reads)) > MAX_PLACES_READ:
        message = f"the arguments refer to more than {MAX_PLACES_READ} places"
        raise activities.CallRefused(ErrorCode.UNRESOLVED_REFERENCE, message)


def resolve_arguments(
    call: ToolCall, state: RunState, seen: VisibleData
) -> activities.HookRequests[None]:
    """Set the arguments that the tool receives, or raise `CallRefused` or `RunStopped`."""
    arguments = call.prepared.raw_arguments
    try:
        if not call.prepared.is_literal:
            arguments = references.resolve(arguments, seen, call.meta.instance)
    except references.Unresolved as error:
        raise activities.CallRefused(ErrorCode.UNRESOLVED_REFERENCE, str(error)) from None
    hooks, idle = activities.hook_activities(call, state.rules, "repair"), 0
    for n in range(MAX_REPAIRS + 1):
        try:
            fitted = fit_arguments(call.tool, arguments, state.limits)
            call.revise(replace(call.prepared, arguments=fitted, visible_data=seen.data))
            return
        except InvalidArguments as error:
            if n == MAX_REPAIRS or idle == len(hooks):
                raise activities.CallRefused(ErrorCode.INVALID_ARGUMENTS, str(error)) from None
            problems = error.problems
        before, activity = arguments, hooks[n % len(hooks)]
        arguments = yield from _rewritten(call, "repair", activity, before, problems)
        idle = idle + 1 if arguments is before else 0


def run_before_hooks(
    call: ToolCall, state: RunState
) -> activities.HookRequests[outcomes.Final | None]:
    """Run the hooks `_before`; return the outcome of the call if one of them sets it.

    It raises `CallRefused` or `RunStopped` if one of them blocks the call or stops the run.
    """
    for activity in activities.hook_activities(call, state.rules, "before"):
        value = yield from activities.run_hook(call, "before", activity, activities.call_view(call))
        match value:
            case None | {} if not value:
                continue
            case {"arguments": dict(arguments)} if len(value) == 1:
                try:
                    fitted = fit_arguments(call.tool, arguments, state.limits)
                except InvalidArguments as error:
                    why = f"its arguments do not fit: {error}"
                    raise activities.invalid_hook_result("before", why) from None
                if fitted != call.arguments:
                    call.revise(replace(call.prepared, model_result=MISSING))
                call.revise(replace(call.prepared, arguments=fitted))
            case {"result": result} if len(value) == 1:
                outcome = activities.outcome_of_result(call.tool, result, state.limits.budget())
                if outcome.error is not None:
                    why = outcome.error.message.removeprefix(outcomes.WAS_RUN)
                    raise activities.invalid_hook_result("before", why)
                return outcome
            case {"block": str(reason)} if len(value) == 1:
                why = reason or "a rule of this agent blocks the call"
                raise activities.CallRefused(ErrorCode.BLOCKED, why)
            case {"stop": str(reason)} if len(value) == 1:
                raise activities.RunStopped(reason)
            case _:
                may = 'null, {"arguments"}, {"result"}, {"block"} or {"stop"}'
                raise activities.invalid_hook_result("before", f"it has to return {may}")
    return None


def fit_arguments(
    tool: ResolvedTool, arguments: dict[str, Any], limits: ValidationLimits
) -> dict[str, Any]:
    """Coerce arguments to the tool's schema, with its defaults, or raise `InvalidArguments`."""
    written = unwrapped(arguments, tool.parameters, tool.name)
    fitted: dict[str, Any] = fit(written, tool.parameters, limits.budget(), fill=True)
    size = json_size(fitted)
    most = min(MAX_ARGUMENT_BYTES, tool.limits.max_arguments_bytes or MAX_ARGUMENT_BYTES)
    if size > most:
        raise InvalidArguments(f"{size} bytes in all; at most {most}")
    try:
        ensure_json(fitted)
    except ValueError as error:
        raise InvalidArguments(str(error)) from None
    return fitted


def fit_edit(call: ToolCall, edited: dict[str, Any], limits: ValidationLimits) -> dict[str, Any]:
    """Return a person's arguments of a call, or for each item of a loop; or `InvalidArguments`."""
    if not call.items:
        return fit_arguments(call.tool, edited, limits)
    written, fitted = edited.get(EACH), list[Any]()
    if len(edited) != 1 or not isinstance(written, list) or len(written) != len(call.items):
        raise InvalidArguments(f"this call has {len(call.items)} items: {_ITEMS}")
    for n, (item, own) in enumerate(zip(call.items, written, strict=True)):
        try:
            if not isinstance(own, dict | None):
                raise InvalidArguments(f"this is no object; {_ITEMS}")
            if own is not None and item.has_ended:
                raise InvalidArguments("it cannot run; leave it null")
            fitted.append(None if own is None else fit_arguments(call.tool, own, limits))
        except InvalidArguments as error:
            raise InvalidArguments(f"{EACH}[{n}]: {error}") from None
    if all(arguments is None for arguments in fitted):
        raise InvalidArguments("no item is left; `deny` the call instead")
    return {EACH: fitted}


def count_call(call: ToolCall, state: RunState) -> None:
    """Count a call against its tool's `_limits.perRun`, or raise `CallRefused`."""
    most, made = call.tool.limits.per_run, state.started.get(call.name, 0)
    if most is not None and made >= most:
        raise activities.CallRefused(
            ErrorCode.BLOCKED, f"`{call.name}` may be called {most} times in a run"
        )
    state.started[call.name] = made + 1
    call.revise(replace(call.prepared, is_counted=True))


def uncount_call(call: ToolCall, state: RunState) -> None:
    """Count a call, and the open calls for its items, no more, unless they have run."""
    for one in (call, *call.open_items):
        if one.prepared.is_counted and not one.decided.has_run:
            state.started[call.name] -= 1
            one.revise(replace(one.prepared, is_counted=False))


def check_order(call: ToolCall, state: RunState, others: Collection[str]) -> None:
    """Raise `CallRefused` unless all of `_limits.after` succeeded, in the run or in `others`."""
    after = call.tool.limits.after
    missing = [name for name in after if name not in state.succeeded and name not in others]
    if missing:
        raise activities.CallRefused(
            ErrorCode.BLOCKED, f"`{call.name}` may be called after {', '.join(missing)} only"
        )


def _rewritten(
    call: ToolCall,
    name: activities.HookName,
    activity: ActivityBinding | RepairAgent,
    arguments: dict[str, Any],
    *more: list[str],
) -> activities.HookRequests[dict[str, Any]]:
    given: tuple[Any, ...] = (arguments, *more)
    if isinstance(activity, RepairAgent):
        task = {"tool": call.name, "arguments": arguments, "schema": call.tool.parameters}
        given = ({**task, "errors": more[0]},)
    value = yield from activities.run_hook(call, name, activity, *given)
    who = f"agent `{activity.agent}`" if isinstance(activity, RepairAgent) else "it"
    try:
        is_text = isinstance(activity, RepairAgent) and isinstance(value, str)
        value = read_json(value) if is_text else ensure_json(value)
        if not isinstance(value, dict):
            raise ValueError("this is no object")
    except ValueError as error:
        why = f"{who} has to return an object, the arguments: {error}"
        raise activities.invalid_hook_result(name, why) from None
    if value != arguments:
        call.revise(replace(call.prepared, model_result=MISSING))
    # A number has lost its digits on the way.
    return arguments if is_same_json(value, arguments) else dict(value)


def _read_meta_properties(
    call: ToolCall, arguments: dict[str, Any], state: RunState
) -> dict[str, Any]:
    """Move the meta-properties from the arguments to the call, and return the one of a loop.

    Properties that the model may not choose are dropped. Those that were set before an error are
    logged with it.
    """
    tool, meta = call.tool, MetaProperties()
    own = tool.parameters.get("properties", {})
    names = [*arguments]
    written = {key: arguments.pop(key) for key in names if key[:1] == "_" and key not in own}
    model_result = written.get("_output", MISSING) if tool.latent else MISSING
    try:
        if written.get(EACH) is not None and not tool.each:
            why = f"`{call.name}` runs for no list; call it once for each item"
            raise InvalidArguments(f"{EACH}: {why}")
        if isinstance(reasoning := written.get(REASONING), str):
            meta = replace(meta, reasoning=reasoning[:MAX_REASONING_CHARACTERS])
        chosen = dict[str, Any]()
        for key in written:
            try:
                if key in tool.chosen:
                    chosen[key] = fit(written[key], tool.chosen[key], state.limits.budget())
            except InvalidArguments as error:
                raise InvalidArguments(f"{key}: {error}") from None
        method = chosen.get("_outputMethod", tool.output_method)
        if method not in get_args(OutputMethod):
            raise InvalidArguments(f"_outputMethod: one of {', '.join(get_args(OutputMethod))}")
        scopes = chosen.get("_scopes", tool.scopes)
        if not (isinstance(scopes, list) and all(isinstance(item, str) for item in scopes)):
            raise InvalidArguments("_scopes: a list of names")
        instance = references.instance_of(written.get("_instance"), tool, state.data)
        meta = replace(meta, instance=instance, output_method=method, scopes=scopes)
        if (path := chosen.get("_outputPath", tool.output_path)) is not None:
            try:
                parsed = parse_output_path(str(path)).within(instance)
            except ValueError as error:
                raise InvalidArguments(f"_outputPath: {error}") from None
            meta = replace(meta, output_path=parsed)
    finally:
        call.revise(PreparedCall(call.proposed, meta=meta, model_result=model_result))
    return {} if written.get(EACH) is None else {EACH: written[EACH]}
