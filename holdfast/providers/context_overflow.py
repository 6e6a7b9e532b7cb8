"""Errors of providers that mean that the conversation is too long, and the limit in them.

Providers have no common term for it, and few have a code, so errors are matched with patterns of
known ones. With most providers the answer takes a part of the window too: the rest is for the
conversation. A shorter conversation fixes that; where the answer may take nearly the whole window,
it does not, and the error is one like any other.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from holdfast.providers.base import ContextOverflow
from holdfast.schemas.base import parsed_or_none

_MAX_DEPTH = 6
_MAX_TEXT_CHARACTERS = 4_000
_MAX_TEXTS = 32
# A conversation with less than this part of the window could not be short enough.
_MIN_LEFT = 1 / 8
_TOO_LARGE = 413
_TOO_MANY = 429
# No model was asked with these, so none of these errors is about the length.
_NOT_ASKED = (401, 402, 403, 404)
# The fields of errors that hold their messages. Others may be the conversation itself, sent back.
# The most telling first: OpenRouter passes a provider's error on as the text `raw` of `metadata`.
_MESSAGE_FIELDS = ("error", "metadata", "raw", "message", "detail", "msg", "errors", "description")
_CODE_FIELDS = ("code", "type", "status", "n_ctx")
_NUMBER = r"(\d[\d,]{0,14})"


# Patterns of errors of some providers, with the window as their one group, or none; and who sends
# them, and where the error was found (September 2026).
_SOURCES = {
    # Those with a number first: the same error may match several.
    r"maximum context length (?:is|of) <N>": (
        "OpenAI, Azure, DeepSeek, vLLM, SGLang, OpenRouter: NextChat#625, fast-agent#621,"
        " earendil-works/pi#5929, refly#1177, pi#4563"
    ),
    r"maximum context length \(<N>\)": "servers like OpenAI's: pi, overflow.ts",
    r"configured limit of <N> tokens": "OpenAI (GPT-5): cline#5474",
    r"context length is only <N> tokens": "vLLM: vllm, renderers/params.py; Meta",
    r"context length of only <N> tokens": "LM Studio: lmstudio-bug-tracker#546",
    r"reached context length of <N> tokens": "LM Studio: lmstudio-bug-tracker#1251",
    r"greater than the context length \(n_keep: <n> ?>=? ?n_ctx: <N>": "openhuman#3550",
    r"longer than the maximum model length of <N>": "vLLM: xorbits inference#3785",
    r"too long to fit into the model \(context length <N>": "vLLM: vllm#12165",
    r"longer than the model's context length \(<N> tokens": "SGLang, Together: pi#129",
    r"available context size \(<N> tokens": "llama.cpp, Ollama: openclaw#64196",
    r"exceed_context_size_error.*n_ctx: <N>": "llama.cpp, Ollama: llama.cpp#15780",
    r"exceed context window of <N>": "llama-cpp-python: llama-cpp-python#416",
    r"prompt is too long: <n> tokens > <N> maximum": "Anthropic: claude-code#12186",
    r"exceed context limit: <n> \+ <n> > <N>": "Anthropic: docker-agent#569",
    r"maximum number of tokens allowed \(<N>\)": "Gemini: gemini-cli#6678",
    r"token count is <n> but model only supports up to <N>": "Vertex AI: its reference",
    r"too large for model with <N> maximum context": "Mistral: pi#129, overflow.ts",
    r"maximum prompt length is <N>": "xAI: pi#129, overflow.ts",
    r"maximum allowed input length of <N> tokens": "Poolside at OpenRouter: pi#4943",
    r"exceeded model token limit: <N>": "Kimi: pi, overflow.ts",
    r"range of input length should be \[1, <N>\]": "DashScope: pi, overflow.ts",
    r"prompt tokens \(<n>\) exceed model maximum \(<N>\)": "Bedrock: pi, overflow.ts",
    r"prompt token count of <n> exceeds the limit of <N>": "GitHub Copilot: pi#129",
    r"configured context size is <N> tokens": "DS4: pi, overflow.ts",
    r"`max_new_tokens` must be <= <N>": "Text Generation Inference: llm-vscode#94",
    # Those without a number.
    r"context_length_exceeded": "OpenAI, Groq, by its code: chathub#320, opencode#6071",
    r"exceeds the maximum number of tokens allowed": "Gemini: arkavo-edge#371",
    r"request payload size exceeds the limit": "Gemini, by the bytes",
    r"request_too_large": "Anthropic, by the bytes: its reference, Errors",
    r"prompt is too long": "Anthropic: its reference, Errors",
    r"prompt too long; exceeded (?:max )?context length": "Ollama: pi, overflow.ts",
    r"greater than the context length": "LM Studio: LmStudioToCursor",
    r"context size has been exceeded": "LM Studio: lmstudio-bug-tracker#2339",
    r"reduce the length of the messages": "Groq: Omnimind_AI, CONTEXT_FIX_COMPLETE.md",
    r"input is too long for (?:the )?requested model": "Bedrock: openclaw#58839",
    r"context window exceeds limit": "MiniMax: pi, overflow.ts",
    r"tokens in request more than max tokens allowed": "Z.AI: opencode#35920",
    (
        r"(?:prompt|input|request|conversation|messages|tokens)\b[^.]{0,80}"
        r"(?:exceed|longer than|larger than|greater than|too (?:long|large))[^.]{0,40}"
        r"context (?:length|window|size|limit)"
    ): "OpenAI, Ollama, llama.cpp, and the likely words of an unknown provider",
}
OVERFLOW_PATTERNS = tuple(
    re.compile(
        pattern.replace("<N>", _NUMBER).replace("<n>", r"[\d,]{1,15}"), re.IGNORECASE | re.DOTALL
    )
    for pattern in _SOURCES
)

# The requested length of the answer, where an error has it.
_REQUESTED = tuple(
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
# (TPM): Limit 30000, Requested 342389". A request that is by itself over the limit of a
# minute is never accepted, however long one waits; a smaller one is, after a while.
_ALLOWANCE = re.compile(
    rf"tokens per \w+[^.]{{0,80}}limit:? {_NUMBER}[^.]{{0,80}}requested:? {_NUMBER}", re.IGNORECASE
)
_IS_RATE = re.compile(r"rate.?limit|too many requests|tokens per (?:min|hour|day)", re.IGNORECASE)


def context_overflow(status: int, message: str, texts: str) -> ContextOverflow | None:
    """Return the error of a conversation that is too long; None if that is not the error.

    `texts` is the whole text of the error (see `error_texts`).
    """
    if status in _NOT_ASKED:
        return None
    if (allowance := _ALLOWANCE.search(texts)) is not None:
        limit, requested = map(_number, allowance.groups())
        return ContextOverflow(status, message, limit) if requested > limit else None
    if status == _TOO_MANY or _IS_RATE.search(texts):
        return None
    for pattern in OVERFLOW_PATTERNS:
        if (found := pattern.search(texts)) is not None:
            if not found.groups():
                return ContextOverflow(status, message)
            window = _number(found[1])
            requests = (each.search(texts) for each in _REQUESTED)
            # The rest is for the conversation, beside the requested answer.
            rest = window - next((_number(request[1]) for request in requests if request), 0)
            is_enough = rest >= window * _MIN_LEFT
            return ContextOverflow(status, message, rest) if is_enough else None
    return ContextOverflow(status, message) if status == _TOO_LARGE else None


def error_texts(error: Any) -> str:
    """Return the texts and codes of an error in JSON, wherever they are in it."""
    texts = (f"{code}: {text}" if code else text for code, text in error_parts(error))
    return "\n".join(text[:_MAX_TEXT_CHARACTERS] for text in islice(texts, _MAX_TEXTS))


def error_parts(value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the messages of an error in JSON, and its codes, each with the name of its field."""
    match value:
        case {"loc": [*place], "msg": str(message)}:
            # Of a server on FastAPI: the message is of no use without the field.
            where = ".".join(str(each) for each in place if each != "body")
            yield "", f"{where}: {message}" if where else message
        case str() if value.strip():
            # Servers pass on errors of other servers as a text of JSON.
            embedded = parsed_or_none(value) if value.lstrip().startswith("{") else None
            yield from error_parts(embedded, depth + 1)
            yield "", value
        case list() if depth < _MAX_DEPTH:
            for each in value:
                yield from error_parts(each, depth + 1)
        case dict() if depth < _MAX_DEPTH:
            yield from ((name, str(value[name])) for name in _CODE_FIELDS if name in value)
            for name in _MESSAGE_FIELDS:
                yield from error_parts(value.get(name), depth + 1)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
