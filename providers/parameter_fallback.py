"""What is left out of a request once a server has said that it cannot take it.

What servers and models take differs, and they tell it only when they are asked. Each thing is left
out once, so a request is made again a few times at most.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.providers.base import ProviderRefused, ProviderRequest

_NO_TOOLS = "the endpoint has no tools: it was asked without, so no call could be made"
_NO_TEMPERATURE = "the model takes no `temperature`: it was asked without; set it to null"
_NO_CHOICE = "the model cannot be made to call a tool: whether to call one was left to it"
_NO_FORM = "the model cannot be held to the output's schema: its answer is only checked by it"
_NO_USAGE = "the endpoint cannot be asked for the usage of a streamed answer, so it may be unknown"

_LACKS = ("not support", "unsupported")
_TOOLS = ("tools", "tool use", "tool call", "function call")
# Of Claude's models: "deprecated for this model", "cannot both be specified", "may only be set
# to 1 when thinking is enabled", "may not be enabled when tool_choice forces tool use".
_NOT_THIS_VALUE = (*_LACKS, "deprecated", "cannot both", "may only")
_NOT_FORCED = (*_LACKS, "may not", "not compatible", "incompatible")
_FORMS = (
    *("output_config.format", "output_config: extra", "output_format", "response_format"),
    *("json_schema", "structured output", "schema is too complex", "grammar is too large"),
    *("schemas contains too many", "schema contains too many"),
    # Of Gemini's models.
    *("response_json_schema", "json mode is not enabled", "too many states for serving"),
)
# Of templates of Gemma's and Mistral's models, of Mistral's own server, and of Qwen's templates.
_TURNS = ("must alternate", "unexpected role", "system message must be at the beginning")
# Of strict servers, and of the template of gpt-oss; but others refuse a request without thoughts.
_THOUGHTS = ("reasoning_content", "both content and thinking")
_MISSES_THOUGHTS = ("missing", "passed back", "required")


@dataclass(frozen=True)
class ParameterFallback:
    """One thing that can be left out of a request.

    `applies` says whether it stands in a request that was refused because of it; `made` gives the
    request without it. `lasts`: it depends on the model and its settings alone, so whoever asks
    with them again need not try.
    """

    applies: Callable[[ProviderRequest, ProviderRefused], bool]
    apply: Callable[[ProviderRequest], ProviderRequest]
    is_permanent: bool = False


def fallback_for(refused: ProviderRefused, request: ProviderRequest) -> ParameterFallback:
    """What can be left out of the request that was refused.

    Raises:
        Refused: nothing that the server speaks of, or that was left out already.
    """
    for concession in _CONCESSIONS:
        if concession.applies(request, refused):
            return concession
    raise refused


def _lacks_tools(request: ProviderRequest, refused: ProviderRefused) -> bool:
    """Whether the server says that it, or the model, has no tools. Servers whose tools are only
    switched off say how to switch them on: their operator should read that."""
    is_such = refused.status in (400, 404, 422, 500, 501)
    lacks = (*_LACKS, "that support", "is not enabled for")
    return bool(request.ask.tools) and is_such and _names(refused, _TOOLS, lacks)


def _without_tools(request: ProviderRequest) -> ProviderRequest:
    return request.with_changes(*([_NO_TOOLS] if _is_forced(request) else []), tools=[])


def _lacks_temperature(request: ProviderRequest, refused: ProviderRefused) -> bool:
    has_one = request.ask.model.temperature is not None
    return has_one and _is_bad(refused, ("temperature",), _NOT_THIS_VALUE)


def _without_temperature(request: ProviderRequest) -> ProviderRequest:
    settings = request.ask.model.model_copy(update={"temperature": None})
    return request.with_changes(_NO_TEMPERATURE, model=settings)


def _lacks_choice(request: ProviderRequest, refused: ProviderRefused) -> bool:
    is_named = _is_bad(refused, ("tool_choice", "tool choice"), _NOT_FORCED)
    return is_named and _is_forced(request)


def _without_choice(request: ProviderRequest) -> ProviderRequest:
    return request.with_changes(_NO_CHOICE, tool_choice="auto")


def _lacks_form(request: ProviderRequest, refused: ProviderRefused) -> bool:
    return request.ask.output is not None and _is_bad(refused, _FORMS)


def _without_form(request: ProviderRequest) -> ProviderRequest:
    return request.with_schema_in_instructions().with_changes(_NO_FORM, output=None)


def _lacks_usage(request: ProviderRequest, refused: ProviderRefused) -> bool:
    has_own = "stream_options" in request.ask.model.options
    return not has_own and _is_bad(refused, ("stream_options",))


def _without_usage(request: ProviderRequest) -> ProviderRequest:
    options = {**request.ask.model.options, "stream_options": None}
    settings = request.ask.model.model_copy(update={"options": options})
    return request.with_changes(_NO_USAGE, model=settings)


def _lacks_key(request: ProviderRequest, refused: ProviderRefused) -> bool:
    return bool(request.cache_key) and _is_bad(refused, ("prompt_cache_key",))


def _without_key(request: ProviderRequest) -> ProviderRequest:
    return replace(request, cache_key="")


def _insists_on_turns(request: ProviderRequest, refused: ProviderRefused) -> bool:
    is_such = refused.status in (400, 422, 500)
    return not request.alternates_roles and is_such and _names(refused, _TURNS)


def _in_turns(request: ProviderRequest) -> ProviderRequest:
    return replace(request, alternates_roles=True)


def _refuses_thoughts(request: ProviderRequest, refused: ProviderRefused) -> bool:
    is_such = refused.status in (400, 422, 500) and not _names(refused, _MISSES_THOUGHTS)
    return not request.omits_reasoning and is_such and _names(refused, _THOUGHTS)


def _without_thoughts(request: ProviderRequest) -> ProviderRequest:
    return replace(request, omits_reasoning=True)


def _is_forced(request: ProviderRequest) -> bool:
    return request.ask.tool_choice not in ("auto", "none")


def _is_bad(refused: ProviderRefused, of: tuple[str, ...], how: tuple[str, ...] = ("",)) -> bool:
    """Whether a bad request is refused for one of these things, in one of these ways."""
    return refused.status in (400, 422) and _names(refused, of, how)


def _names(refused: ProviderRefused, of: tuple[str, ...], how: tuple[str, ...] = ("",)) -> bool:
    said = refused.message.lower()
    return any(word in said for word in of) and any(word in said for word in how)


_CONCESSIONS = (
    ParameterFallback(_lacks_tools, _without_tools),
    ParameterFallback(_lacks_temperature, _without_temperature, is_permanent=True),
    ParameterFallback(_lacks_choice, _without_choice),
    ParameterFallback(_lacks_form, _without_form),
    ParameterFallback(_lacks_usage, _without_usage, is_permanent=True),
    ParameterFallback(_lacks_key, _without_key, is_permanent=True),
    ParameterFallback(_insists_on_turns, _in_turns, is_permanent=True),
    ParameterFallback(_refuses_thoughts, _without_thoughts, is_permanent=True),
)
