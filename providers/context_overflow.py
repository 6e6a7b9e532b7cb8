"""Whether a provider refused a conversation because it is too long, and for how long a one.

Providers have no common word for it, and few have a code, so what they say is compared with what
they are known to say. With most, what is wanted for the answer takes of the window too: what is
left without it is for the conversation. A shorter conversation mends that; where the answer is
allowed nearly the whole window, it does not, and the refusal is one like any other.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

_MAX_DEPTH = 6
_MAX_TEXT_CHARACTERS = 4_000
_MAX_TEXTS = 32
# With less than this part of the window left for it, no conversation would be short enough.
_MIN_LEFT = 1 / 8
_TOO_LARGE = 413
_TOO_MANY = 429
# No request was made with these, so nothing that is said with them is of its length.
_NOT_ASKED = (401, 402, 403, 404)
# Where errors say what is wrong, in their several shapes. What else stands in them may be the
# conversation itself, sent back.
_TELLING = ("error", "errors", "message", "detail", "msg", "description", "metadata", "raw")
_NAMING = ("code", "type", "status", "n_ctx")
_NUMBER = r"(\d[\d,]{0,14})"


@dataclass(frozen=True)
class OverflowPattern:
    """What some providers say. `pattern` may have the window as its one group; `by` names who was
    seen to say it, and where that was read (September 2026)."""

    pattern: re.Pattern[str]
    by: str


def _wording(pattern: str, by: str) -> OverflowPattern:
    written = pattern.replace("<N>", _NUMBER).replace("<n>", r"[\d,]{1,15}")
    return OverflowPattern(re.compile(written, re.IGNORECASE | re.DOTALL), by)


OVERFLOW_PATTERNS = (
    # Those that say a number, first: the same error may say it in several ways.
    _wording(
        r"maximum context length (?:is|of) <N>",
        "OpenAI, Azure, DeepSeek, vLLM, SGLang, OpenRouter: NextChat#625, fast-agent#621,"
        " earendil-works/pi#5929, refly#1177, pi#4563",
    ),
    _wording(r"maximum context length \(<N>\)", "servers like OpenAI's: pi, overflow.ts"),
    _wording(r"configured limit of <N> tokens", "OpenAI (GPT-5): cline#5474"),
    _wording(r"context length is only <N> tokens", "vLLM: vllm, renderers/params.py; Meta"),
    _wording(r"context length of only <N> tokens", "LM Studio: lmstudio-bug-tracker#546"),
    _wording(r"reached context length of <N> tokens", "LM Studio: lmstudio-bug-tracker#1251"),
    _wording(r"greater than the context length \(n_keep: <n> ?>=? ?n_ctx: <N>", "openhuman#3550"),
    _wording(r"longer than the maximum model length of <N>", "vLLM: xorbits inference#3785"),
    _wording(r"too long to fit into the model \(context length <N>", "vLLM: vllm#12165"),
    _wording(r"longer than the model's context length \(<N> tokens", "SGLang, Together: pi#129"),
    _wording(r"available context size \(<N> tokens", "llama.cpp, Ollama: openclaw#64196"),
    _wording(r"exceed_context_size_error.*n_ctx: <N>", "llama.cpp, Ollama: llama.cpp#15780"),
    _wording(r"exceed context window of <N>", "llama-cpp-python: llama-cpp-python#416"),
    _wording(r"prompt is too long: <n> tokens > <N> maximum", "Anthropic: claude-code#12186"),
    _wording(r"exceed context limit: <n> \+ <n> > <N>", "Anthropic: docker-agent#569"),
    _wording(r"maximum number of tokens allowed \(<N>\)", "Gemini: gemini-cli#6678"),
    _wording(r"token count is <n> but model only supports up to <N>", "Vertex AI: its reference"),
    _wording(r"too large for model with <N> maximum context", "Mistral: pi#129, overflow.ts"),
    _wording(r"maximum prompt length is <N>", "xAI: pi#129, overflow.ts"),
    _wording(r"maximum allowed input length of <N> tokens", "Poolside at OpenRouter: pi#4943"),
    _wording(r"exceeded model token limit: <N>", "Kimi: pi, overflow.ts"),
    _wording(r"range of input length should be \[1, <N>\]", "DashScope: pi, overflow.ts"),
    _wording(r"prompt tokens \(<n>\) exceed model maximum \(<N>\)", "Bedrock: pi, overflow.ts"),
    _wording(r"prompt token count of <n> exceeds the limit of <N>", "GitHub Copilot: pi#129"),
    _wording(r"configured context size is <N> tokens", "DS4: pi, overflow.ts"),
    _wording(r"`max_new_tokens` must be <= <N>", "Text Generation Inference: llm-vscode#94"),
    # Those that say none.
    _wording(r"context_length_exceeded", "OpenAI, Groq, by its code: chathub#320, opencode#6071"),
    _wording(r"exceeds the context window", "OpenAI: opencode#6071, onyx#6051"),
    _wording(r"exceeds the maximum number of tokens allowed", "Gemini: arkavo-edge#371"),
    _wording(r"request payload size exceeds the limit", "Gemini, by the bytes"),
    _wording(r"request_too_large", "Anthropic, by the bytes: its reference, Errors"),
    _wording(r"prompt is too long", "Anthropic: its reference, Errors"),
    _wording(r"prompt is longer than the context length", "Ollama: ollama#18399"),
    _wording(r"prompt too long; exceeded (?:max )?context length", "Ollama: pi, overflow.ts"),
    _wording(r"input length exceeds the context length", "Ollama: server/routes.go"),
    _wording(r"exceeds the available context size", "llama.cpp: llama.cpp#15780, textgen#7257"),
    _wording(r"greater than the context length", "LM Studio: LmStudioToCursor"),
    _wording(r"context size has been exceeded", "LM Studio: lmstudio-bug-tracker#2339"),
    _wording(r"reduce the length of the messages", "Groq: Omnimind_AI, CONTEXT_FIX_COMPLETE.md"),
    _wording(r"input is too long for (?:the )?requested model", "Bedrock: openclaw#58839"),
    _wording(r"context window exceeds limit", "MiniMax: pi, overflow.ts"),
    _wording(r"tokens in request more than max tokens allowed", "Z.AI: opencode#35920"),
    _wording(
        r"(?:prompt|input|request|conversation|messages|tokens)\b[^.]{0,80}"
        r"(?:exceed|longer than|larger than|greater than|too (?:long|large))[^.]{0,40}"
        r"context (?:length|window|size|limit)",
        "nobody yet: what servers nobody has seen may say",
    ),
)

# How long an answer was wanted, where an error says so.
_WANTED = tuple(
    re.compile(pattern.replace("<N>", _NUMBER), re.IGNORECASE)
    for pattern in (
        r"<N> (?:tokens )?(?:in|for) the (?:completion|output)",
        r"requested <N> output tokens",
        r"max_(?:completion_)?tokens'? is too large: <N>",
        r"context limit: \d+ \+ <N> >",
        r"and <N> `max_new_tokens`",
    )
)
# Of Groq (413; eliza#4040) and OpenAI (429; vanna-flask#11): "Request too large … on tokens per min
# (TPM): Limit 30000, Requested 342389". A request that is by itself more than the allowance of a
# minute is never let through, however long one waits; a smaller one is, once others are forgotten.
_ALLOWANCE = re.compile(
    rf"tokens per \w+[^.]{{0,80}}limit:? {_NUMBER}[^.]{{0,80}}requested:? {_NUMBER}", re.IGNORECASE
)
_IS_RATE = re.compile(r"rate.?limit|too many requests|tokens per (?:min|hour|day)", re.IGNORECASE)


@dataclass(frozen=True)
class ContextLimit:
    """What a conversation is too long for: so many tokens, where that is said."""

    window: int | None


def context_limit(status: int, told: str) -> ContextLimit | None:
    """What the conversation is too long for, by an error; None where that is not the error.

    `told` is all that the error says (see `told_in`).
    """
    if status in _NOT_ASKED:
        return None
    if (allowance := _ALLOWANCE.search(told)) is not None:
        limit, requested = map(_number, allowance.groups())
        return ContextLimit(limit) if requested > limit else None
    if status == _TOO_MANY or _IS_RATE.search(told):
        return None
    for wording in OVERFLOW_PATTERNS:
        if (found := wording.pattern.search(told)) is not None:
            return _without_answer(_number(found[1]) if found.groups() else None, told)
    return ContextLimit(None) if status == _TOO_LARGE else None


def error_texts(error: Any) -> str:
    """All that an error in JSON says of what is wrong: its texts and codes, wherever they stand."""
    return "\n".join(text[:_MAX_TEXT_CHARACTERS] for text in islice(_told(error), _MAX_TEXTS))


def _told(value: Any, depth: int = 0) -> Iterator[str]:
    if depth >= _MAX_DEPTH:
        return
    match value:
        case str():
            yield value
            yield from _told(_inner(value), depth + 1)
        case list():
            for each in value:
                yield from _told(each, depth + 1)
        case dict():
            named = (f"{name}: {value[name]}" for name in _NAMING if name in value)
            yield " ".join(named)
            for name in _TELLING:
                yield from _told(value.get(name), depth + 1)


def _inner(text: str) -> Any:
    """The error that a text is the JSON of: servers hand on what others told them."""
    try:
        return json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None


def _without_answer(window: int | None, told: str) -> ContextLimit | None:
    """What is left of the window for the conversation, beside an answer as long as was wanted."""
    wanted = next((_number(found[1]) for each in _WANTED if (found := each.search(told))), 0)
    if window is None:
        return ContextLimit(None)
    left = window - wanted
    return ContextLimit(left) if left >= window * _MIN_LEFT else None


def _number(text: str) -> int:
    return int(text.replace(",", ""))
