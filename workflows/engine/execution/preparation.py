"""From a call as a model wrote it to a call that could be carried out, or to why it cannot.

Nothing here acts. The order is fixed: is the tool allowed; what is said about the call apart from
its arguments; what the hook `_prepare` makes of these (`prepare`); then, once all is there that it
refers to, references, coercion and validation, with `_repair` to mend what does not fit
(`complete`); and what the hook `_before` decides (`before`).
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any, get_args

from holdfast.schemas.base import json_size
from holdfast.schemas.errors import ErrorCode
from holdfast.schemas.internal.solution import Solution, WrittenCall
from holdfast.schemas.message import AskedCall
from holdfast.schemas.names import call_id
from holdfast.schemas.reference import parse_output_path
from holdfast.schemas.tool import REASONING, OutputMethod, Tool
from holdfast.validation.arguments import InvalidArguments, fit, read_arguments
from holdfast.validation.lenient_json import ensure_json
from holdfast.workflows.engine.call.hooks import (
    CallRefused,
    HookName,
    HookRequests,
    Proceed,
    UseResult,
    hook_activities,
    hook_view,
    invalid_hook_result,
    read_before,
    run_hook,
)
from holdfast.workflows.engine.call.outcome import Final, Unknown, outcome_of_result
from holdfast.workflows.engine.call.tool_call import ToolCall
from holdfast.workflows.engine.execution.dependency_graph import paths_read
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.data import MISSING, VisibleData
from holdfast.workflows.engine.state.instances import instance_of
from holdfast.workflows.engine.state.references import Unresolved, resolve

MAX_ARGUMENT_BYTES = 1_000_000
MAX_TOOL_NAME_CHARACTERS = 128
MAX_REPAIRS = 8
MAX_PLACES_READ = 500
MAX_REFERENCES = 5_000
MAX_REFERENCES_IN_TURN = 20_000
_METHODS: tuple[OutputMethod, ...] = get_args(OutputMethod)


def propose_calls(
    solution: Solution, turn: int, tools: Sequence[Tool], seen: dict[str, None]
) -> list[ToolCall]:
    """The calls of an answer, with ids by position, and the tools of those that have one.

    A provider's id is kept for the provider's sake where it is new in the run; `seen` holds those
    that are not, and grows.
    """
    calls = []
    for index, written in enumerate(solution.calls, start=1):
        own = call_id(turn, index)
        given = written.provider_id
        provider_id = given if given and len(given) <= 200 and given not in seen else own
        while provider_id in seen:
            provider_id += "x"
        seen[provider_id] = None
        tool = next((tool for tool in tools if tool.name == written.tool), None)
        written = written.model_copy(update={"tool": written.tool[:MAX_TOOL_NAME_CHARACTERS]})
        calls.append(ToolCall(own, _asked(own, provider_id, written), written, tool))
    return calls


def prepare(call: ToolCall, state: RunState) -> HookRequests[None]:
    """Fill in what is known of the call before what it refers to is there.

    Raises:
        Refusal: it cannot be carried out.
        Stop: a hook stops the run.
    """
    tool = _allowed(call, state)
    try:
        written = _read(call.written)
        if not call.is_literal:
            _set_apart(call, tool, written, state)
    except InvalidArguments as error:
        raise _invalid(error) from None
    for activity in hook_activities(call, state.rules, "prepare"):
        prepared = _object((yield from run_hook(call, "prepare", activity, written)), "prepare")
        written = _changed(call, written, prepared)
    call.raw_arguments = written
    check_references(call)


def check_references(call: ToolCall) -> None:
    """See that a call does not refer to too much.

    Raises:
        Refusal: it does.
    """
    reads = list(islice(paths_read(call), MAX_REFERENCES + 1))
    call.reference_count = len(reads)
    if len(reads) > MAX_REFERENCES:
        message = f"the arguments hold more than {MAX_REFERENCES} references"
        raise CallRefused(ErrorCode.UNRESOLVED_REFERENCE, message)
    if len(dict.fromkeys(reads)) > MAX_PLACES_READ:
        message = f"the arguments refer to more than {MAX_PLACES_READ} places"
        raise CallRefused(ErrorCode.UNRESOLVED_REFERENCE, message)


def resolve_arguments(call: ToolCall, state: RunState, seen: VisibleData) -> HookRequests[None]:
    """Fill in the arguments that the call would be carried out with.

    Raises:
        Refusal: it cannot be.
        Stop: a hook stops the run.
    """
    call.visible_data = seen.data
    try:
        resolved = (
            call.raw_arguments
            if call.is_literal
            else resolve(call.raw_arguments, seen, call.instance)
        )
    except Unresolved as error:
        raise CallRefused(ErrorCode.UNRESOLVED_REFERENCE, str(error)) from None
    call.arguments = yield from _fitted(call, state, resolved)


def run_before_hooks(call: ToolCall, state: RunState) -> HookRequests[Final | None]:
    """Ask the hooks `_before`; how the call ends by what they say, where it does.

    Raises:
        Refusal: one of them blocks the call.
        Stop: one of them stops the run.
    """
    assert call.tool is not None  # prepared
    for activity in hook_activities(call, state.rules, "before"):
        said = yield from run_hook(call, "before", activity, hook_view(call))
        match read_before(said):
            case Proceed(None):
                continue
            case Proceed(dict(arguments)):
                changed = _hooks_arguments(call.tool, arguments)
                call.arguments = _changed(call, call.arguments, changed)
            case UseResult(result):
                outcome = outcome_of_result(call.tool, result)
                assert not isinstance(outcome, Unknown)  # nothing was carried out
                return outcome
    return None


def fit_arguments(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the tool takes them.

    Raises:
        InvalidArguments: they do not fit its schema, or are too large to be sent.
    """
    fitted: dict[str, Any] = fit(arguments, tool.parameters)
    size = json_size(fitted)
    if size > MAX_ARGUMENT_BYTES:
        raise InvalidArguments(f"{size} bytes in all; at most {MAX_ARGUMENT_BYTES}")
    try:
        ensure_json(fitted)
    except ValueError as error:
        raise InvalidArguments(str(error)) from None
    return fitted


def _asked(own: str, provider_id: str, written: WrittenCall) -> AskedCall:
    try:
        arguments, text = read_arguments(written.arguments), None
    except InvalidArguments:
        arguments, text = {}, written.arguments
    return AskedCall(
        id=own,
        provider_id=provider_id,
        tool=written.tool,
        arguments=arguments,
        written=text if isinstance(text, str) else None,
    )


def _allowed(call: ToolCall, state: RunState) -> Tool:
    if call.tool is not None:
        return call.tool
    allowed = ", ".join(tool.name for tool in state.tools())
    whose = f"skill '{state.skill}'" if state.skill is not None else f"agent '{state.rules.name}'"
    raise CallRefused(
        ErrorCode.TOOL_NOT_ALLOWED,
        f"Tool '{call.name}' is not allowed for {whose}. Allowed: [{allowed}]",
    )


def _fitted(
    call: ToolCall, state: RunState, arguments: dict[str, Any]
) -> HookRequests[dict[str, Any]]:
    """The arguments as the tool takes them, mended by the hooks `_repair` where there are any."""
    assert call.tool is not None  # prepared
    hooks = hook_activities(call, state.rules, "repair")
    for n in range(MAX_REPAIRS + 1):
        try:
            return fit_arguments(call.tool, arguments)
        except InvalidArguments as error:
            if not hooks or n == MAX_REPAIRS:
                raise _invalid(error) from None
            problems = error.problems
        mended = yield from run_hook(call, "repair", hooks[n % len(hooks)], arguments, problems)
        arguments = _changed(call, arguments, _object(mended, "repair"))
    raise AssertionError("the last round returns or raises")


def _hooks_arguments(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return fit_arguments(tool, arguments)
    except InvalidArguments as error:
        raise invalid_hook_result("before", f"its arguments do not fit: {error}") from None


def _changed(call: ToolCall, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a hook gave: what the model has answered was no answer to others."""
    if new != old:
        call.model_result = MISSING
    return new


def _object(said: Any, name: HookName) -> dict[str, Any]:
    """The arguments that a hook gave."""
    try:
        if isinstance(said, dict):
            return dict(ensure_json(said))
    except ValueError as error:
        raise invalid_hook_result(name, str(error)) from None
    raise invalid_hook_result(name, "it has to return an object, the arguments")


def _invalid(error: InvalidArguments) -> CallRefused:
    return CallRefused(ErrorCode.INVALID_ARGUMENTS, f"invalid_arguments: {error}")


def _read(written: WrittenCall) -> dict[str, Any]:
    if written.oversize_bytes is not None:
        raise InvalidArguments(f"{written.oversize_bytes} bytes were written; write far less")
    return dict(read_arguments(written.arguments))


def _set_apart(call: ToolCall, tool: Tool, written: dict[str, Any], state: RunState) -> None:
    """Take the meta-properties out of the arguments; those that the model may not choose go."""
    said = {key: written.pop(key) for key in [key for key in written if key.startswith("_")]}
    reasoning = said.get(REASONING)
    call.reasoning = reasoning[:4_000] if isinstance(reasoning, str) else None
    chosen = {key: _chosen(tool, key, value) for key, value in said.items() if key in tool.chosen}
    call.output_method = _method(chosen.get("_outputMethod", tool.output_method))
    call.scopes = _scopes(chosen.get("_scopes", tool.scopes))
    call.instance = instance_of(said.get("_instance"), tool, state.data)
    if tool.latent:
        call.model_result = said.get("_output", MISSING)
    path = chosen.get("_outputPath", tool.output_path)
    if path is not None:
        try:
            call.output_path = parse_output_path(str(path)).within(call.instance)
        except ValueError as error:
            raise InvalidArguments(f"_outputPath: {error}") from None


def _chosen(tool: Tool, key: str, value: Any) -> Any:
    try:
        return fit(value, tool.chosen[key])
    except InvalidArguments as error:
        raise InvalidArguments(f"{key}: {error}") from None


def _method(value: Any) -> OutputMethod:
    for method in _METHODS:
        if value == method:
            return method
    raise InvalidArguments(f"_outputMethod: one of {', '.join(_METHODS)}")


def _scopes(value: Any) -> list[str]:
    if not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        raise InvalidArguments("_scopes: a list of names")
    return value
