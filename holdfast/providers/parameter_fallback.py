"""Parts of a request that are left out once a server has rejected them.

Servers and models differ in what they accept, and report it only in an error. A setting that the
agent did not set is left out at any error that names it; one that it did set, only where the model
does not have it: otherwise the agent's value must be fixed. Each part is left out once, so a
request is repeated a few times at most.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from holdfast.providers import base
from holdfast.providers.base import ProviderRefused, ProviderRequest, ToolsUnsupported
from holdfast.providers.message_list import further_fields, with_thought
from holdfast.schemas.agent import ModelSettings

_DEFAULT_TEMPERATURE = ModelSettings.model_fields["temperature"].default
# The names of the longest answer in OpenAI's format, the older first.
LENGTH_OPTIONS = ("max_tokens", "max_completion_tokens")

_NO_TEMPERATURE = (
    "the model does not accept the `temperature`: the request was sent without it; set it to null"
)
_NO_ZERO = "the model does not accept a `temperature` of 0: the request was sent with 0.01"
_NO_CHOICE = "the model cannot be forced to call a tool: it decides whether to call one"
_NO_SCHEMA = "the model cannot enforce the output's schema: its answer is only validated"
_NO_STREAM = "the model cannot stream such an answer: it was sent whole"
_NO_EFFORT = (
    "the model does not accept its `reasoning`: the request was sent without it; set another, or"
    " leave it out"
)
_NO_THOUGHTS = "an answer lacks the thoughts that the model requires: it did not reason this time"
_NO_NONE = "the model always reasons: low `reasoning` was requested in place of none"
_NO_USAGE = "the endpoint does not report the usage of a streamed answer, which may be unknown"

# Statements that a parameter does not exist for a model. The last two rows are of Claude's models:
# "cannot both be specified", "may only be set to 1 when thinking is enabled".
_NOT_TAKEN = (
    *("not support", "n't support", "unsupported", "unrecognized", "unknown", "extra inputs"),
    *("not permitted", "not allowed", "deprecated"),
    *("cannot both", "may only"),
)
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
# Of strict servers, of the template of gpt-oss, and of models that do not reason, at OpenAI's
# Responses API; but others reject a request without reasoning.
_REASONING = (
    *("reasoning_content", "both content and thinking", "encrypted content is not supported"),
    *("'include'", "include: extra", "param: include"),
)
# Reasoning encrypted or signed with other keys, or none: of another model, organization or region.
# The last one is in all of Claude's: "Invalid `signature` in `thinking` block", "Invalid `data` in
# `redacted_thinking` block", "`redacted_thinking` blocks … cannot be modified".
_NOT_DECRYPTED = ("encrypted content", "encrypted_content", "not persisted", "thinking` block")
_REQUIRED = ("missing", "passed back", "required")
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
# Where an error is about the id of a call.
_CALL_IDS = ("tool call id", "tool_call_id", "tool_calls", "call_id")


# Returns the request without a part; None if it has none.
Change = Callable[[ProviderRequest], ProviderRequest | None]


@dataclass(frozen=True)
class ParameterFallback:
    """One part of a request that can be left out, by `change`.

    A rejection is about that part if it has one of the `statuses` and of the words `of`, and its
    message one in `how`, none in `unless`. `scope`: later requests of the same model, or with all
    the same settings of it, omit the part at once; or each request tries it again.
    """

    change: Change
    of: tuple[str, ...]
    how: tuple[str, ...] = ("",)
    unless: tuple[str, ...] = ()
    statuses: tuple[int, ...] = (400, 422)
    scope: Literal["model", "settings", "request"] = "model"


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
    texts = f"{message}\n{refused.texts.lower()}"
    fields = frozenset(name for name in further_fields(request.fragments) if name in texts)
    for fallback in (*_FALLBACKS, _omitting(fields)):
        if (
            refused.status in fallback.statuses
            and any(word in texts for word in fallback.of)
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


def _only_if(setting: str, value: Any, change: Change) -> Change:
    return lambda request: change(request) if getattr(request.ask.model, setting) == value else None


def _with_newer_length(request: ProviderRequest) -> ProviderRequest | None:
    model = request.ask.model
    older, newer = LENGTH_OPTIONS
    limit = model.options.get(older, model.max_output_tokens)
    if limit is None or newer in model.options:
        return None
    options = {name: each for name, each in model.options.items() if name != older}
    renamed = model.model_copy(update={"options": {**options, newer: limit}})
    return request.with_changes(model=renamed)


def _with_thoughts(request: ProviderRequest) -> ProviderRequest | None:
    fragments = tuple(map(with_thought, request.fragments))
    return None if fragments == request.fragments else replace(request, fragments=fragments)


def _flag(name: str, value: Any) -> Change:
    def change(request: ProviderRequest) -> ProviderRequest | None:
        return None if getattr(request, name) == value else replace(request, **{name: value})

    return change


def _omitting(fields: frozenset[str]) -> ParameterFallback:
    """Return the fallback to a request whose answers have none of these fields."""
    # Thoughts that lack this field are left out because it is required.
    is_lacking = fields == {"signature"}
    named = ", ".join(f"`{name}`" for name in sorted(fields))
    refused = "thought without a `signature`" if is_lacking else f"{named} in an answer"
    notice = f"the server takes no {refused}: it was left out"

    def change(request: ProviderRequest) -> ProviderRequest | None:
        omitted = request.omitted_fields | fields
        if omitted == request.omitted_fields:
            return None
        return replace(request, omitted_fields=omitted, notices=(*request.notices, notice))

    return ParameterFallback(change, of=tuple(fields), unless=() if is_lacking else _REQUIRED)


_without_temperature = _model(_NO_TEMPERATURE, temperature=None)
_FALLBACKS = (
    # Of Bedrock's: some models have tools only without a stream.
    ParameterFallback(
        _model(_NO_STREAM, {"stream": False}),
        of=("streaming mode", "support streaming", "for streaming"),
        how=_NOT_TAKEN,
    ),
    ParameterFallback(
        _only_if("temperature", _DEFAULT_TEMPERATURE, _without_temperature), of=("temperature",)
    ),
    ParameterFallback(_without_temperature, of=("temperature",), how=_NOT_TAKEN, scope="settings"),
    # Some servers have only the temperatures above it: "must be strictly positive".
    ParameterFallback(
        _only_if("temperature", 0, _model(_NO_ZERO, temperature=0.01)),
        of=("temperature",),
        scope="settings",
    ),
    ParameterFallback(
        _with_newer_length, of=("max_tokens",), how=(*_NOT_TAKEN, "max_completion_tokens")
    ),
    ParameterFallback(
        lambda request: (
            request.with_changes(_NO_CHOICE, tool_choice="auto")
            if request.ask.tool_choice not in ("auto", "none")
            else None
        ),
        of=("tool_choice", "tool choice", "toolchoice"),
        scope="request",
    ),
    ParameterFallback(
        lambda request: (
            request.with_schema_in_instructions().with_changes(_NO_SCHEMA, output=None)
            if request.ask.output is not None
            else None
        ),
        of=_SCHEMAS,
        scope="request",
    ),
    ParameterFallback(_model(_NO_USAGE, {"stream_options": None}), of=("stream_options",)),
    # The second is of Bedrock's models without cache marks.
    ParameterFallback(
        _flag("cache_key", ""), of=("prompt_cache_key", "prompt caching"), statuses=(400, 403, 422)
    ),
    ParameterFallback(_flag("id_form", base.NINE), of=_CALL_IDS, how=("length of 9",)),
    ParameterFallback(_flag("id_form", base.FORTY), of=_CALL_IDS, how=("40",)),
    ParameterFallback(_flag("id_form", base.SIXTY_FOUR), of=_CALL_IDS, how=("64",)),
    ParameterFallback(_flag("alternates_roles", True), of=_ALTERNATION, statuses=(400, 422, 500)),
    ParameterFallback(
        _flag("omits_reasoning", True), of=_REASONING, unless=_REQUIRED, statuses=(400, 422, 500)
    ),
    ParameterFallback(
        _flag("omits_reasoning", True), of=_NOT_DECRYPTED, statuses=(400, 404), scope="request"
    ),
    # Of answers by another model of the agent's list.
    ParameterFallback(_with_thoughts, of=("reasoning_content",), how=_REQUIRED),
    ParameterFallback(
        _model(_NO_THOUGHTS, {"thinking": None}, reasoning=None),
        of=("must start with a thinking block",),
        scope="request",
    ),
    ParameterFallback(
        _model(_NO_NONE, reasoning="low"),
        of=("value: 'none'", "thinking.type.disabled", "budget 0 is invalid", "level minimal"),
        scope="settings",
    ),
    ParameterFallback(
        _model(_NO_EFFORT, reasoning=None),
        of=("reasoning", "think", "effort"),
        how=(*_NOT_TAKEN, "invalid"),
        scope="settings",
    ),
)
