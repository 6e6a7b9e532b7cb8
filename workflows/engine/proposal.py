"""From a call as a model wrote it to a call that could be carried out, or to why it cannot.

Nothing here acts. The order is fixed: is the tool allowed; what is said about the call apart from
its arguments; references; coercion and validation.
"""

from typing import Any, get_args

from schemas.agent import Rules
from schemas.base import json_size
from schemas.errors import CallError, ErrorCode
from schemas.message import AskedCall
from schemas.names import call_id
from schemas.reference import parse_output_path
from schemas.solution import Solution, WrittenCall
from schemas.tool import REASONING, OutputMethod, Tool
from workflows.engine.arguments import InvalidArguments, fit, read_arguments
from workflows.engine.reading import sound
from workflows.engine.references import Unresolved, resolve
from workflows.engine.state import Data
from workflows.engine.turn import Call

MAX_ARGUMENT_BYTES = 1_000_000
MAX_TOOL_NAME_CHARACTERS = 128
_METHODS: tuple[OutputMethod, ...] = get_args(OutputMethod)


class Refusal(Exception):
    """The call cannot be carried out; `error` is its result."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = CallError(code=code, message=message)


def calls_of(solution: Solution, turn: int, rules: Rules, seen: dict[str, None]) -> list[Call]:
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
        tool = next((tool for tool in rules.tools if tool.name == written.tool), None)
        written = written.model_copy(update={"tool": written.tool[:MAX_TOOL_NAME_CHARACTERS]})
        calls.append(Call(own, _asked(own, provider_id, written), written, tool))
    return calls


def prepare(call: Call, rules: Rules, data: Data) -> None:
    """Fill in what the call would be carried out with.

    Raises:
        Refusal: it cannot be.
    """
    tool = _allowed(call, rules)
    try:
        written = _read(call.written)
        _set_apart(call, tool, written)
        call.arguments = fit_arguments(tool, resolve(written, data))
    except InvalidArguments as error:
        raise Refusal(ErrorCode.INVALID_ARGUMENTS, f"invalid_arguments: {error}") from None
    except Unresolved as error:
        raise Refusal(ErrorCode.UNRESOLVED_REFERENCE, str(error)) from None


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
        sound(fitted)
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


def _allowed(call: Call, rules: Rules) -> Tool:
    if call.tool is not None:
        return call.tool
    allowed = ", ".join(tool.name for tool in rules.tools)
    raise Refusal(
        ErrorCode.TOOL_NOT_ALLOWED,
        f"Tool '{call.name}' is not allowed for agent '{rules.name}'. Allowed: [{allowed}]",
    )


def _read(written: WrittenCall) -> dict[str, Any]:
    if written.oversize_bytes is not None:
        raise InvalidArguments(f"{written.oversize_bytes} bytes were written; write far less")
    return dict(read_arguments(written.arguments))


def _set_apart(call: Call, tool: Tool, written: dict[str, Any]) -> None:
    """Take the meta-properties out of the arguments; those that the model may not choose go."""
    said = {key: written.pop(key) for key in [key for key in written if key.startswith("_")]}
    reasoning = said.get(REASONING)
    call.reasoning = reasoning[:4_000] if isinstance(reasoning, str) else None
    chosen = {key: _chosen(tool, key, value) for key, value in said.items() if key in tool.chosen}
    call.output_method = _method(chosen.get("_outputMethod", tool.output_method))
    call.scopes = _scopes(chosen.get("_scopes", tool.scopes))
    path = chosen.get("_outputPath", tool.output_path)
    if path is not None:
        try:
            call.output_path = parse_output_path(str(path))
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
