"""Errors of providers that mean that the conversation is too long, and the limit in them.

Providers have no common term for it, and few have a code, so errors are matched with patterns of
known ones, and then with the words that unknown ones are likely to use. With most providers the
answer takes a part of the window too: the rest is for the conversation. A shorter conversation
fixes that; where the answer may take nearly the whole window, it does not, and the error is one
like any other.
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
# The likely words are only those of a request that was read, or of a server that failed with it.
_LIKELY_STATUSES = (400, _TOO_LARGE, 422, 500)
# No model was asked with these, so none of these errors is about the length.
_NOT_ASKED = (401, 402, 403, 404)
# The fields of errors that hold their messages. Others may be the conversation itself, sent back.
# The most telling first: OpenRouter passes a provider's error on as the text `raw` of `metadata`.
_MESSAGE_FIELDS = ("error", "metadata", "raw", "message", "detail", "msg", "errors", "description")
_CODE_FIELDS = ("code", "type", "status", "param", "n_ctx")
_NUMBER = r"(\d[\d,]{0,14})"


# Patterns of errors of some providers, with the window as their one group, or none; and who sends
# them, and where the error was found (September 2026).
_SOURCES = {
    # Those with a number first: the same error may match several.
    r"maximum context length (?:is|of) <N>": (
        "OpenAI, Azure, DeepSeek, vLLM, SGLang, OpenRouter: NextChat#625, fast-agent#621,"
        " earendil-works/pi#5929, refly#1177, pi#4563"
    ),
    r"context length is only <N> tokens": "vLLM: vllm, renderers/params.py; Meta",
    r"context length of only <N> tokens": "LM Studio: lmstudio-bug-tracker#546",
    r"greater than the context length \(n_keep: <n> ?>=? ?n_ctx: <N>": "openhuman#3550",
    r"exceed_context_size_error.*n_ctx: <N>": "llama.cpp, Ollama: llama.cpp#15780",
    r"prompt is too long: <n> tokens > <N> maximum": "Anthropic: claude-code#12186",
    r"exceed context limit: <n> \+ <n> > <N>": "Anthropic: docker-agent#569",
    r"too large for model with <N> maximum context": "Mistral: pi#129, overflow.ts",
    r"range of input length should be \[1, <N>\]": "DashScope: pi, overflow.ts",
    r"configured context size is <N> tokens": "DS4: pi, overflow.ts",
    r"`max_new_tokens` must be <= <N>": "Text Generation Inference: llm-vscode#94",
    r"max_(?:completion_)?tokens must be at least 1, got -": "vLLM, without room for an answer",
    # Those without a number.
    r"request payload size exceeds the limit": "Gemini, by the bytes",
    r"prompt is too long": "Anthropic: its reference, Errors",
    r"reduce the length of the messages": "Groq: Omnimind_AI, CONTEXT_FIX_COMPLETE.md",
    r"context window exceeds limit": "MiniMax: pi, overflow.ts",
    r"tokens in request more than max tokens allowed": "Z.AI: opencode#35920",
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
_IS_RATE = re.compile(
    r"rate.?limit|too many requests|per.(?:sec|min|hour|day)|daily|monthly|quota|please wait",
    re.IGNORECASE,
)
# The second tier: a sentence with a word of each of the first two, and none of the third, which has
# those of the answer too, unless a part of the request is named.
_LENGTH = re.compile(
    r"\b(?:tokens?|prompts?|context|context_?(?:window|length|size|limit|overflow)\w*|conversation"
    r"|(?:sequence|model) length|max_(?:input|prompt|seq|context|model)\w*"
    r"|inputs?(?= (?:is|are|was|has|text|length|size|too|exceed|sequence)))\b|输入|上下文",
    re.IGNORECASE,
)
_EXCESS = re.compile(
    r"exceed|overflow|too (?:long|many|large|big)|(?:longer|larger|greater|more) than\b(?! one)"
    r"|(?:less|fewer) than|at most|up to|(?:over|above|beyond) the|n[o']t fit|reached context"
    r"|limit (?:is )?reached|(?:limit|max\w*)\W+(?:\w+\W+){0,3}\d|超|过长",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"tools?\b|functions?\b|schema|propert|string|stop.sequence|logprob|logit|cach|memory"
    r"|(?:list|value|input) should|(?:image|audio|video|file|document)s?\b(?!.*\btokens)"
    r"|^(?!.*(?:prompt|input|context|messages|total)).*"
    r"(?:max(?:imum)?[ _](?:\w+_)?tokens|completion|output|generat|produce|budget)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"\n|[.;!?](?=\s|$)|。")
_LIKELY_LIMIT = re.compile(
    r"(?:max\w*|limit|exceed\w*|than|at most|up to|only|context (?:length|size|window))"
    r"(?:(?!\bby\b)[^\d\n]){0,40}" + _NUMBER,
    re.IGNORECASE,
)
# A smaller number is no window.
_MIN_LIKELY_WINDOW = 512


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
    sentences = _SENTENCE_END.split(texts) if status in _LIKELY_STATUSES else ()
    if any(_LENGTH.search(s) and _EXCESS.search(s) and not _OTHER.search(s) for s in sentences):
        limits = [_number(found[1]) for found in _LIKELY_LIMIT.finditer(texts)]
        likely = [limit for limit in limits if limit >= _MIN_LIKELY_WINDOW]
        return ContextOverflow(status, message, min(likely, default=None))
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
