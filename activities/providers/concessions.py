"""What is left out of a request once a server has said that it cannot take it.

What servers and models take differs, and they tell it only when they are asked. Each thing is left
out once, so a request is made again a few times at most.
"""

from typing import Any

from activities.providers.base import Refused, Request
from schemas.agent import ModelSettings

_NO_TOOLS = "the endpoint has no tools: it was asked without, so no call could be made"
_NO_TEMPERATURE = "the model takes no `temperature`: it was asked without; set it to null"
_NO_CHOICE = "the model cannot be made to call a tool: whether to call one was left to it"
_NO_FORM = "the model cannot be held to the output's schema: its answer is only checked by it"

_LACKS = ("not support", "unsupported")
_TOOLS = ("tools", "tool use", "tool call", "function call")
# Of Claude's models: "deprecated for this model", "cannot both be specified", "may only be set
# to 1 when thinking is enabled", "may not be enabled when tool_choice forces tool use".
_NOT_THIS_VALUE = (*_LACKS, "deprecated", "cannot both", "may only")
_NOT_FORCED = (*_LACKS, "may not", "not compatible", "incompatible")
_FORMS = (
    *("output_config.format", "output_config: extra", "output_format", "response_format"),
    *("json_schema", "structured output", "schema is too complex", "grammar is too large"),
    # Of Gemini's models.
    *("response_json_schema", "json mode is not enabled", "too many states for serving"),
)


def conceded(request: Request, refused: Refused) -> tuple[Request, list[str]]:
    """The request without what the server says that it cannot take, and what to tell of it.

    Raises:
        Refused: it says no such thing, or that was left out already.
    """
    ask = request.ask
    is_forced = ask.tool_choice not in ("auto", "none")
    if ask.tools and _lacks_tools(refused):
        return _asking(request, tools=[]), [_NO_TOOLS] if is_forced else []
    if ask.model.temperature is not None and _says(refused, ("temperature",), _NOT_THIS_VALUE):
        return without_temperature(request)
    if is_forced and _says(refused, ("tool_choice", "tool choice"), _NOT_FORCED):
        return _asking(request, tool_choice="auto"), [_NO_CHOICE]
    if ask.output is not None and _says(refused, _FORMS):
        return _asking(request, output=None), [_NO_FORM]
    raise refused


def without_temperature(request: Request) -> tuple[Request, list[str]]:
    """The request without a temperature, and what to tell of it."""
    settings: ModelSettings = request.ask.model.model_copy(update={"temperature": None})
    return _asking(request, model=settings), [_NO_TEMPERATURE]


def _asking(request: Request, **changes: Any) -> Request:
    return request.asking(request.ask.model_copy(update=changes))


def _says(refused: Refused, of: tuple[str, ...], how: tuple[str, ...] = ("",)) -> bool:
    """Whether a bad request is refused for one of these things, in one of these ways."""
    said = refused.message.lower()
    named = any(word in said for word in of) and any(word in said for word in how)
    return refused.status in (400, 422) and named


def _lacks_tools(refused: Refused) -> bool:
    """Whether the server says that it, or the model, has no tools. Servers whose tools are only
    switched off say how to switch them on: their operator should read that."""
    said = refused.message.lower()
    names_tools = any(word in said for word in _TOOLS)
    lacks = any(word in said for word in (*_LACKS, "that support", "is not enabled for"))
    return refused.status in (400, 404, 422, 500, 501) and names_tools and lacks
