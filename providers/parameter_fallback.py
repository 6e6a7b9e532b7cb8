"""Parts of a request that are left out once a server has rejected them.

Servers and models differ in what they accept, and report it only in an error. Each part is left out
once, so a request is repeated a few times at most.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.providers.base import ProviderRefused, ProviderRequest

_NO_TOOLS = "the endpoint has no tools: it was asked without, so no call could be made"
_NO_TEMPERATURE = "the model takes no `temperature`: it was asked without; set it to null"
_NO_CHOICE = "the model cannot be made to call a tool: whether to call one was left to it"
_NO_SCHEMA = "the model cannot be held to the output's schema: its answer is only checked by it"
_NO_USAGE = "the endpoint cannot be asked for the usage of a streamed answer, so it may be unknown"

_LACKS = ("not support", "unsupported")
_TOOLS = ("tools", "tool use", "tool call", "function call")
# Of Claude's models: "deprecated for this model", "cannot both be specified", "may only be set
# to 1 when thinking is enabled", "may not be enabled when tool_choice forces tool use".
_WRONG_VALUE = (*_LACKS, "deprecated", "cannot both", "may only")
_NOT_FORCED = (*_LACKS, "may not", "not compatible", "incompatible")
_SCHEMAS = (
    *("output_config.format", "output_config: extra", "output_format", "response_format"),
    *("json_schema", "structured output", "schema is too complex", "grammar is too large"),
    *("schemas contains too many", "schema contains too many"),
    # Of Gemini's models.
    *("response_json_schema", "json mode is not enabled", "too many states for serving"),
)
# Of templates of Gemma's and Mistral's models, of Mistral's own server, and of Qwen's templates.
_ALTERNATION = ("must alternate", "unexpected role", "system message must be at the beginning")
# Of strict servers, and of the template of gpt-oss; but others reject a request without reasoning.
_REASONING = ("reasoning_content", "both content and thinking")
_REQUIRES_REASONING = ("missing", "passed back", "required")


@dataclass(frozen=True)
class ParameterFallback:
    """One part of a request that can be left out.

    `applies` reports whether a request with that part was rejected because of it; `apply` returns
    the request without it. `is_permanent`: it depends only on the model and its settings, so later
    requests with them omit it at once.
    """

    applies: Callable[[ProviderRequest, ProviderRefused], bool]
    apply: Callable[[ProviderRequest], ProviderRequest]
    is_permanent: bool = False


def fallback_for(refused: ProviderRefused, request: ProviderRequest) -> ParameterFallback:
    """Return the part to leave out of the request that was rejected.

    Raises:
        ProviderRefused: it is about no such part, or about one that was left out already.
    """
    for fallback in _FALLBACKS:
        if fallback.applies(request, refused):
            return fallback
    raise refused


def _lacks_tools(request: ProviderRequest, refused: ProviderRefused) -> bool:
    """Report whether the server, or the model, has no tools.

    A server whose tools are only switched off reports how to switch them on: its operator needs
    that error.
    """
    has_status = refused.status in (400, 404, 422, 500, 501)
    lacks = (*_LACKS, "that support", "is not enabled for")
    return bool(request.ask.tools) and has_status and _names(refused, _TOOLS, lacks)


def _without_tools(request: ProviderRequest) -> ProviderRequest:
    return request.with_changes(*([_NO_TOOLS] if _is_forced(request) else []), tools=[])


def _lacks_temperature(request: ProviderRequest, refused: ProviderRefused) -> bool:
    has_one = request.ask.model.temperature is not None
    return has_one and _is_bad(refused, ("temperature",), _WRONG_VALUE)


def _without_temperature(request: ProviderRequest) -> ProviderRequest:
    settings = request.ask.model.model_copy(update={"temperature": None})
    return request.with_changes(_NO_TEMPERATURE, model=settings)


def _lacks_choice(request: ProviderRequest, refused: ProviderRefused) -> bool:
    is_named = _is_bad(refused, ("tool_choice", "tool choice"), _NOT_FORCED)
    return is_named and _is_forced(request)


def _lacks_schema(request: ProviderRequest, refused: ProviderRefused) -> bool:
    return request.ask.output is not None and _is_bad(refused, _SCHEMAS)


def _without_schema(request: ProviderRequest) -> ProviderRequest:
    return request.with_schema_in_instructions().with_changes(_NO_SCHEMA, output=None)


def _lacks_usage(request: ProviderRequest, refused: ProviderRefused) -> bool:
    has_own = "stream_options" in request.ask.model.options
    return not has_own and _is_bad(refused, ("stream_options",))


def _without_usage(request: ProviderRequest) -> ProviderRequest:
    options = {**request.ask.model.options, "stream_options": None}
    settings = request.ask.model.model_copy(update={"options": options})
    return request.with_changes(_NO_USAGE, model=settings)


def _lacks_key(request: ProviderRequest, refused: ProviderRefused) -> bool:
    return bool(request.cache_key) and _is_bad(refused, ("prompt_cache_key",))


def _requires_alternation(request: ProviderRequest, refused: ProviderRefused) -> bool:
    has_status = refused.status in (400, 422, 500)
    return not request.alternates_roles and has_status and _names(refused, _ALTERNATION)


def _rejects_reasoning(request: ProviderRequest, refused: ProviderRefused) -> bool:
    has_status = refused.status in (400, 422, 500) and not _names(refused, _REQUIRES_REASONING)
    return not request.omits_reasoning and has_status and _names(refused, _REASONING)


def _is_forced(request: ProviderRequest) -> bool:
    return request.ask.tool_choice not in ("auto", "none")


def _is_bad(refused: ProviderRefused, of: tuple[str, ...], how: tuple[str, ...] = ("",)) -> bool:
    """Report whether a bad request is rejected for one of these parts, in one of these ways."""
    return refused.status in (400, 422) and _names(refused, of, how)


def _names(refused: ProviderRefused, of: tuple[str, ...], how: tuple[str, ...] = ("",)) -> bool:
    message = refused.message.lower()
    return any(word in message for word in of) and any(word in message for word in how)


_FALLBACKS = (
    ParameterFallback(_lacks_tools, _without_tools),
    ParameterFallback(_lacks_temperature, _without_temperature, is_permanent=True),
    ParameterFallback(
        _lacks_choice, lambda request: request.with_changes(_NO_CHOICE, tool_choice="auto")
    ),
    ParameterFallback(_lacks_schema, _without_schema),
    ParameterFallback(_lacks_usage, _without_usage, is_permanent=True),
    ParameterFallback(
        _lacks_key, lambda request: replace(request, cache_key=""), is_permanent=True
    ),
    ParameterFallback(
        _requires_alternation,
        lambda request: replace(request, alternates_roles=True),
        is_permanent=True,
    ),
    ParameterFallback(
        _rejects_reasoning,
        lambda request: replace(request, omits_reasoning=True),
        is_permanent=True,
    ),
)
