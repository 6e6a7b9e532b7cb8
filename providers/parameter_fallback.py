"""Parts of a request that are left out once a server has rejected them.

Servers and models differ in what they accept, and report it only in an error. Each part is left out
once, so a request is repeated a few times at most.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from holdfast.providers.base import ProviderRefused, ProviderRequest

_NO_TEMPERATURE = "the model takes no `temperature`: it was asked without; set it to null"
_NO_CHOICE = "the model cannot be made to call a tool: whether to call one was left to it"
_NO_SCHEMA = "the model cannot be held to the output's schema: its answer is only checked by it"
_NO_STREAM = "the model cannot stream such an answer: it came whole"
_NO_EFFORT = (
    "the model does not take its `reasoning`: it was asked without; set another, or leave it out"
)
_NO_NONE = "the model always reasons: it was asked for low `reasoning` in place of none"
_NO_USAGE = "the endpoint cannot be asked for the usage of a streamed answer, so it may be unknown"

_LACKS = ("not support", "n't support", "unsupported")
# Of Claude's models: "deprecated for this model", "cannot both be specified", "may only be set
# to 1 when thinking is enabled", "may not be enabled when tool_choice forces tool use".
_WRONG_VALUE = (*_LACKS, "deprecated", "cannot both", "may only")
_NOT_FORCED = (*_LACKS, "may not", "not compatible", "incompatible")
_SCHEMAS = (
    *("output_config.format", "output_config: extra", "output_format", "response_format"),
    *("json_schema", "structured output", "schema is too complex", "grammar is too large"),
    *("schemas contains too many", "schema contains too many"),
    # Of Bedrock's.
    *("outputconfig", "textformat"),
    # Of Gemini's models.
    *("response_json_schema", "json mode is not enabled", "too many states for serving"),
)
# Of templates of Gemma's and Mistral's models, of Mistral's own server, and of Qwen's templates.
_ALTERNATION = ("must alternate", "unexpected role", "system message must be at the beginning")
# Of strict servers, and of the template of gpt-oss; but others reject a request without reasoning.
_REASONING = ("reasoning_content", "both content and thinking")
# Of models that do not reason, at OpenAI's Responses API; and of other keys than the reasoning was
# encrypted with, or of none: those of another model, organization or region.
_NOT_ENCRYPTED = ("encrypted content is not supported",)
_NOT_DECRYPTED = ("encrypted content", "encrypted_content", "items are not persisted")
_REQUIRES_REASONING = ("missing", "passed back", "required")


@dataclass(frozen=True)
class ParameterFallback:
    """One part of a request that can be left out.

    `applies` reports whether a rejection can be about that part of the request: it is, if it has
    one of the `statuses`, and its message one of the words in `of`, one in `how`, none in `unless`.
    `apply` returns the request without the part. `is_permanent`: it depends only on the model and
    its settings, so later requests with them omit it at once.
    """

    applies: Callable[[ProviderRequest], bool]
    apply: Callable[[ProviderRequest], ProviderRequest]
    of: tuple[str, ...]
    how: tuple[str, ...] = ("",)
    unless: tuple[str, ...] = ()
    statuses: tuple[int, ...] = (400, 422)
    is_permanent: bool = False


def fallback_for(refused: ProviderRefused, request: ProviderRequest) -> ParameterFallback:
    """Return the part to leave out of the request that was rejected.

    Raises:
        ProviderRefused: it is about no such part, or about one that was left out already.
    """
    message = refused.message.lower()
    for fallback in _FALLBACKS:
        if (
            refused.status in fallback.statuses
            and fallback.applies(request)
            and any(word in message for word in fallback.of)
            and any(word in message for word in fallback.how)
            and not any(word in message for word in fallback.unless)
        ):
            return fallback
    raise refused


def _is_forced(request: ProviderRequest) -> bool:
    return request.ask.tool_choice not in ("auto", "none")


def _with_model(request: ProviderRequest, notice: str, **changes: Any) -> ProviderRequest:
    return request.with_changes(notice, model=request.ask.model.model_copy(update=changes))


def _has_reasoning(request: ProviderRequest) -> bool:
    return not request.omits_reasoning


def _without_reasoning(request: ProviderRequest) -> ProviderRequest:
    return replace(request, omits_reasoning=True)


_FALLBACKS = (
    # Of Bedrock's: some models have tools only without a stream.
    ParameterFallback(
        lambda request: request.ask.model.options.get("stream") is not False,
        lambda request: _with_model(
            request, _NO_STREAM, options={**request.ask.model.options, "stream": False}
        ),
        of=("streaming mode", "support streaming", "for streaming"),
        how=_LACKS,
        is_permanent=True,
    ),
    ParameterFallback(
        lambda request: request.ask.model.temperature is not None,
        lambda request: _with_model(request, _NO_TEMPERATURE, temperature=None),
        of=("temperature",),
        how=_WRONG_VALUE,
        is_permanent=True,
    ),
    ParameterFallback(
        _is_forced,
        lambda request: request.with_changes(_NO_CHOICE, tool_choice="auto"),
        of=("tool_choice", "tool choice", "toolchoice"),
        how=_NOT_FORCED,
    ),
    ParameterFallback(
        lambda request: request.ask.output is not None,
        lambda request: request.with_schema_in_instructions().with_changes(_NO_SCHEMA, output=None),
        of=_SCHEMAS,
    ),
    ParameterFallback(
        lambda request: "stream_options" not in request.ask.model.options,
        lambda request: _with_model(
            request, _NO_USAGE, options={**request.ask.model.options, "stream_options": None}
        ),
        of=("stream_options",),
        is_permanent=True,
    ),
    ParameterFallback(
        lambda request: bool(request.cache_key),
        lambda request: replace(request, cache_key=""),
        # The second is of Bedrock's models without cache marks.
        of=("prompt_cache_key", "prompt caching"),
        statuses=(400, 403, 422),
        is_permanent=True,
    ),
    ParameterFallback(
        lambda request: not request.alternates_roles,
        lambda request: replace(request, alternates_roles=True),
        of=_ALTERNATION,
        statuses=(400, 422, 500),
        is_permanent=True,
    ),
    ParameterFallback(
        _has_reasoning,
        _without_reasoning,
        of=_REASONING,
        unless=_REQUIRES_REASONING,
        statuses=(400, 422, 500),
        is_permanent=True,
    ),
    ParameterFallback(_has_reasoning, _without_reasoning, of=_NOT_ENCRYPTED, is_permanent=True),
    ParameterFallback(_has_reasoning, _without_reasoning, of=_NOT_DECRYPTED, statuses=(400, 404)),
    ParameterFallback(
        lambda request: request.ask.model.reasoning == "none",
        lambda request: _with_model(request, _NO_NONE, reasoning="low"),
        of=("'none'", "thinking.type.disabled", "budget 0 is invalid", "level minimal"),
        is_permanent=True,
    ),
    ParameterFallback(
        lambda request: request.ask.model.reasoning is not None,
        lambda request: _with_model(request, _NO_EFFORT, reasoning=None),
        of=("reasoning", "think", "effort"),
        how=(*_WRONG_VALUE, "invalid", "unrecognized", "unknown", "not permitted"),
        is_permanent=True,
    ),
)
