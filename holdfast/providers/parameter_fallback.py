"""Parts of a request that are left out once a server has rejected them.

Servers and models differ in what they accept, and report it only in an error. Each part is left out
once, so a request is repeated a few times at most.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.providers.base import ProviderRefused, ProviderRequest, ToolsUnsupported

_NO_TEMPERATURE = (
    "the model does not accept `temperature`: the request was sent without it; set it to null"
)
_NO_CHOICE = "the model cannot be forced to call a tool: it decides whether to call one"
_NO_SCHEMA = "the model cannot enforce the output's schema: its answer is only validated"
_NO_STREAM = "the model cannot stream such an answer: it was sent whole"
_NO_EFFORT = (
    "the model does not accept its `reasoning`: the request was sent without it; set another, or"
    " leave it out"
)
_NO_NONE = "the model always reasons: low `reasoning` was requested in place of none"
_NO_USAGE = "the endpoint does not report the usage of a streamed answer, which may be unknown"

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
# The whole message that a model or a server takes no tools, who sends it, and where it was found
# (November 2026). An error about a tool's schema, an image or an account may name tools too, and
# the agent's tools must not be lost for it. The operator needs the error about tools that are only
# switched off (vLLM's `--enable-auto-tool-choice`, llama.cpp's `--jinja`).
_NO_TOOLS_SOURCES = {
    r"\S+ does not support tools": "Ollama, its OpenAI format too: ollama#6027, #14795",
    r"No endpoints found that support tool use\..*": "OpenRouter: pydantic-ai#2896, kilocode#9006",
    r"tools is not supported in this model\..*": "OpenAI: flexeval#242, inspect_ai#1290",
    r"\S+ does not support Function Calling\.?": "DeepSeek: spring-ai#2643, AstrBot#2697",
    r"Function calling is not enabled for (?:this model|models/\S+)": "Gemini: litellm#10313",
    r"This model doesn't support tool use\.?": "Bedrock: langchain-aws#447",
    r"Tool calling is not supported for this model": "Perplexity: `sonar`, by its API",
    r"Unsupported param: tools": "llama.cpp and others, by their servers: Qwen#1298",
}
_NO_TOOLS = re.compile("|".join(f"(?:{text})" for text in _NO_TOOLS_SOURCES), re.IGNORECASE)
_NO_TOOLS_STATUSES = (400, 404, 422, 500, 501)


# Returns the request without a part; None if it has none.
Change = Callable[[ProviderRequest], ProviderRequest | None]


@dataclass(frozen=True)
class ParameterFallback:
    """One part of a request that can be left out, by `change`.

    A rejection is about that part if it has one of the `statuses`, and its message one of the words
    in `of`, one in `how`, none in `unless`. `is_permanent`: it depends only on the model and its
    settings, so later requests with them omit it at once.
    """

    change: Change
    of: tuple[str, ...]
    how: tuple[str, ...] = ("",)
    unless: tuple[str, ...] = ()
    statuses: tuple[int, ...] = (400, 422)
    is_permanent: bool = True


def fallback_for(
    refused: ProviderRefused, request: ProviderRequest
) -> tuple[ParameterFallback, ProviderRequest]:
    """Return the part to leave out of the request that was rejected, and the request without it.

    Raises:
        ToolsUnsupported: the provider states that the model or the server takes no tools.
        ProviderRefused: it is about no such part, or about one that was left out already.
    """
    is_statement = _NO_TOOLS.fullmatch(refused.message.strip()) is not None
    if request.ask.tools and refused.status in _NO_TOOLS_STATUSES and is_statement:
        raise ToolsUnsupported(refused.status, refused.message) from None
    message = refused.message.lower()
    for fallback in _FALLBACKS:
        if (
            refused.status in fallback.statuses
            and any(word in message for word in fallback.of)
            and any(word in message for word in fallback.how)
            and not any(word in message for word in fallback.unless)
            and (changed := fallback.change(request)) is not None
        ):
            return fallback, changed
    raise refused


def _model(notice: str, options: Mapping[str, Any] = {}, **settings: Any) -> Change:
    def change(request: ProviderRequest) -> ProviderRequest | None:
        model = request.ask.model
        changes = {**settings, "options": {**model.options, **options}}
        changed = model.model_copy(update=changes)
        return None if changed == model else request.with_changes(notice, model=changed)

    return change


def _flag(name: str, value: Any) -> Change:
    def change(request: ProviderRequest) -> ProviderRequest | None:
        return None if getattr(request, name) == value else replace(request, **{name: value})

    return change


def _without_choice(request: ProviderRequest) -> ProviderRequest | None:
    is_forced = request.ask.tool_choice not in ("auto", "none")
    return request.with_changes(_NO_CHOICE, tool_choice="auto") if is_forced else None


def _without_schema(request: ProviderRequest) -> ProviderRequest | None:
    if request.ask.output is None:
        return None
    return request.with_schema_in_instructions().with_changes(_NO_SCHEMA, output=None)


_FALLBACKS = (
    # Of Bedrock's: some models have tools only without a stream.
    ParameterFallback(
        _model(_NO_STREAM, {"stream": False}),
        of=("streaming mode", "support streaming", "for streaming"),
        how=_LACKS,
    ),
    ParameterFallback(_model(_NO_TEMPERATURE, temperature=None), ("temperature",), _WRONG_VALUE),
    ParameterFallback(
        _without_choice,
        of=("tool_choice", "tool choice", "toolchoice"),
        how=_NOT_FORCED,
        is_permanent=False,
    ),
    ParameterFallback(_without_schema, of=_SCHEMAS, is_permanent=False),
    ParameterFallback(_model(_NO_USAGE, {"stream_options": None}), of=("stream_options",)),
    # The second is of Bedrock's models without cache marks.
    ParameterFallback(
        _flag("cache_key", ""), of=("prompt_cache_key", "prompt caching"), statuses=(400, 403, 422)
    ),
    ParameterFallback(_flag("alternates_roles", True), of=_ALTERNATION, statuses=(400, 422, 500)),
    ParameterFallback(
        _flag("omits_reasoning", True),
        of=_REASONING,
        unless=_REQUIRES_REASONING,
        statuses=(400, 422, 500),
    ),
    ParameterFallback(_flag("omits_reasoning", True), of=_NOT_ENCRYPTED),
    ParameterFallback(
        _flag("omits_reasoning", True), of=_NOT_DECRYPTED, statuses=(400, 404), is_permanent=False
    ),
    ParameterFallback(
        _model(_NO_NONE, reasoning="low"),
        of=("value: 'none'", "thinking.type.disabled", "budget 0 is invalid", "level minimal"),
    ),
    ParameterFallback(
        _model(_NO_EFFORT, reasoning=None),
        of=("reasoning", "think", "effort"),
        how=(*_WRONG_VALUE, "invalid", "unrecognized", "unknown", "not permitted"),
    ),
)
