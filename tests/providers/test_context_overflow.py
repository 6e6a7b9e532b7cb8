"""A conversation that is too long for its model is known by what each provider sends of it.

The texts are from issues and references, cut to their telling words; `OVERFLOW_PATTERNS` names each
place.
"""

import json
from typing import Any

import httpx
import pytest

from holdfast.providers.answer.streamed_answer import StreamedAnswer
from holdfast.providers.base import ContextOverflow, ProviderRefused, ToolNames
from holdfast.providers.context_overflow import OVERFLOW_PATTERNS, error_texts
from holdfast.providers.model_errors import provider_error
from holdfast.providers.openai.answer import OpenAIAnswerReader
from holdfast.providers.transport.error_response import error_in_event, error_of_response
from tests.providers.fakes import KEY, ReceivedText, provider, request, target


def openai(message: str, code: Any = None, **more: Any) -> dict[str, Any]:
    """An error as OpenAI's servers and those like them write it."""
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, **more}}


def anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def google(message: str) -> dict[str, Any]:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def plain(message: str) -> dict[str, Any]:
    return {"error": message}


CODE = "context_length_exceeded"
MAXIMUM = "This model's maximum context length is"
PLEASE = "Please reduce the length of the messages"
OLLAMA = "the prompt is longer than the context length currently available to the model"
NVIDIA = json.dumps(openai(f"{MAXIMUM} 262144 tokens. {PLEASE}.", 400))
EXCEEDED = {"code": 400, "type": "exceed_context_size_error"}
PER_MINUTE = "on tokens per minute (TPM): Limit"

WITH_ANSWER = f"{MAXIMUM} 4097 tokens. (3062 in the messages, 1500 in the completion)."
VLLM = {"object": "error", "message": f"{MAXIMUM} 262144 tokens.", "code": 400}
BOUND = (
    "'max_tokens' is too large: 2000. This model's maximum context length is 4096 tokens and your"
)
REQUESTED = (
    "You requested 32000 output tokens. However, the model's context length is only 131072 tokens"
)
SGLANG = (
    "maximum context length of 262144 tokens: 199925 tokens, and 64000 tokens for the completion."
)
OPENROUTER = openai("Provider returned error", 400, metadata={"raw": NVIDIA, "provider_name": "N"})
TGI = "`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2244 and 1000 `max_new_tokens`"
XAI = {"code": "x", **plain("This model's maximum prompt length is 131072 but")}
MISTRAL = {"object": "error", "message": "too large for model with 131072 maximum context length"}

# The server, its text (as OpenAI's servers send it), and how long a conversation may be by that.
SAID: dict[str, tuple[Any, int | None]] = {
    "OpenAI": (openai(f"{MAXIMUM} 128000 tokens. Yours resulted in 204308.", CODE), 128_000),
    "OpenAI, with the answer": (openai(WITH_ANSWER, CODE), 4097 - 1500),
    "OpenAI, GPT-5": ("exceed the configured limit of 272000 tokens.", 272_000),
    "OpenAI, no number": ("Your input exceeds the context window of this model.", None),
    "OpenAI, by its code": (openai("Bad request", CODE), None),
    "vLLM": (VLLM, 262_144),
    "vLLM, newer": (REQUESTED, 131_072 - 32_000),
    "vLLM, with a bound of the answer": (BOUND, 2_096),
    "vLLM, an engine's": ("is longer than the maximum model length of 16384.", 16_384),
    "vLLM, no room for an answer": ("max_tokens must be at least 1, got -1024.", None),
    "vLLM, a pictures'": ("too long to fit into the model (context length 4096).", 4_096),
    "SGLang": (f"Requested token count exceeds the model's {SGLANG}", 262_144 - 64_000),
    "Together": ("is longer than the model's context length (131072 tokens).", 131_072),
    "like OpenAI": ("Over the maximum context length (8192).", 8_192),
    "OpenRouter, of a provider": (OPENROUTER, 262_144),
    "Poolside": ("exceeds the maximum allowed input length of 131040 tokens.", 131_040),
    "LiteLLM": ("exceeds the model's maximum context length of 131072.", 131_072),
    "llama.cpp, by its fields": ({"error": {**EXCEEDED, "message": "large", "n_ctx": 256}}, 256),
    "llama.cpp": ("exceeds the available context size (65536 tokens)", 65_536),
    "llama.cpp, older": ("the request exceeds the available context size.", None),
    "llama-cpp-python": ("Requested tokens (516) exceed context window of 512", 512),
    "LM Studio": (plain("loaded with context length of only 7866 tokens"), 7_866),
    "LM Studio, newer": (
        plain("greater than the context length (n_keep: 9 >= n_ctx: 4096)"),
        4_096,
    ),
    "LM Studio, no number": (plain("greater than the context length"), None),
    "LM Studio, MLX": (plain("Context size has been exceeded"), None),
    "LM Studio, in an answer": (plain("Reached context length of 4096 tokens with"), 4_096),
    "Ollama": (plain(f"{OLLAMA}; shorten the prompt"), None),
    "Ollama, embedded": (plain("the input length exceeds the context length"), None),
    "Ollama, of llama.cpp": (plain(json.dumps({"error": {**EXCEEDED, "n_ctx": 640}})), 640),
    "Ollama's cloud": (plain("prompt too long; exceeded max context length by 5 tokens"), None),
    "Anthropic": (anthropic("prompt is too long: 208310 tokens > 200000 maximum"), 200_000),
    "with the answer": (anthropic("exceed context limit: 178959 + 64000 > 200000,"), 136_000),
    "Anthropic, by the bytes": (anthropic("Too large", "request_too_large"), None),
    "Gemini": (google("exceeds the maximum number of tokens allowed (1048576)."), 1_048_576),
    "Gemini, listed": ([google("exceeds the maximum number of tokens allowed.")], None),
    "Gemini, by the bytes": (google("Request payload size exceeds the limit"), None),
    "Vertex AI": (google("token count is 40000 but model only supports up to 32767."), 32_767),
    "Mistral": (MISTRAL, 131_072),
    "Groq": (f"{PLEASE} or completion.", None),
    "xAI": (XAI, 131_072),
    "Kimi": ("Your request exceeded model token limit: 262144 (requested: 3)", 262_144),
    "DashScope": ("Range of input length should be [1, 30720]", 30_720),
    "Bedrock": ("prompt tokens (9000) exceed model maximum (8192)", 8_192),
    "Bedrock, no number": ("Input is too long for requested model", None),
    "Copilot": ("prompt token count of 9000 exceeds the limit of 8192", 8_192),
    "DS4": ("The configured context size is 4096 tokens", 4_096),
    "MiniMax": ("invalid params, context window exceeds limit (2013)", None),
    "Z.AI": ("tokens in request more than max tokens allowed", None),
    "Text Generation Inference": (plain(TGI), 1_048),
    "an unknown server": ("Your prompt is larger than the context window.", None),
    # Not their model's window, but as little to be waited for: more than is allowed in a minute.
    "Groq's allowance": (f"{PER_MINUTE} 12000, Requested 14137, please", 12_000),
    "OpenAI's allowance": (f"{PER_MINUTE} 30,000, Requested 342,389.", 30_000),
}
# Messages that no exact pattern has, most of them from issues, and the window in each.
LIKELY: dict[str, int | None] = {
    "too many tokens: total number of tokens in the prompt cannot exceed 4081 - got 5210": 4_081,
    "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please try again": None,
    "Too many input tokens. Max input tokens: 8192, request input token count: 9001": 8_192,
    "Prompt exceeds max length": None,
    "Prompt 超长": None,
    "输入内容过长": None,
    "Input length 9000 exceeds maximum allowed token size 8192": 8_192,
    "Prompt and expected output are too long: 300000 tokens, max is 262144": 262_144,
    "max sequence length exceeded": None,
    "Total tokens of image and text exceed max message tokens. Request id: 021": None,
    "Input length 300000 exceeds the maximum length 229376": 229_376,
    "the total number of tokens exceeds the limit, max input length is 28672": 28_672,
    "Input token length too long": None,
    "The prompt exceeds the maximum number of tokens": None,
    "Exceeded max_input_length: 8192": 8_192,
    "Input validation error: `inputs` must have less than 4095 tokens. Given: 6000": 4_095,
    "The prompt is too long: 150000, model maximum context length: 131071": None,
    "Prompt length (9000) exceeds the model context window (8192)": 8_192,
    "the prompt exceeds the context length; reduce the prompt": None,
    "The total number of tokens in the messages exceeds the model's context window": None,
    "the prompt tokens exceed the max context length": None,
    "Sequence length (9000) exceeds max model len 8192": 8_192,
    "total tokens (9001) exceeds limit by 809 tokens": None,
    "prompt has 9001 tokens but the limit is 8192": 8_192,
    "ContextWindowExceededError: the request failed": None,
    "Your messages are 9000 tokens long, at most 8192 are allowed": 8_192,
    "the conversation does not fit the model": None,
}

# Of others it is 400.
STATUS = {
    "vLLM, an engine's": 500,
    "LiteLLM": 503,
    "llama.cpp, by its fields": 500,
    "LM Studio, in an answer": 500,
    "Anthropic, by the bytes": 413,
    "Text Generation Inference": 422,
    "Groq's allowance": 413,
    "OpenAI's allowance": 429,
}
TOO_LONG = {
    who: (STATUS.get(who, 400), openai(said) if isinstance(said, str) else said, window)
    for who, (said, window) in SAID.items()
} | {message: (400, openai(message), window) for message, window in LIKELY.items()}

NOT_SUPPORTED = "max_tokens is too large: 6000. This model supports at most 4096 completion tokens"
AS_LARGE = f"{MAXIMUM} 8192 tokens. (64 in the messages, 8192 in the completion)."
NEARLY = "maximum context length is 131072 tokens. (1463 of text, 131000 in the output)."
SENT_BACK = {"detail": [{"loc": ["x"], "msg": "Extra", "input": {"text": "prompt is too long"}}]}
# No shorter conversation fixes these.
UNLIKELY = (
    "temperature: Input should be less than or equal to 2",
    "Input validation error: `temperature` must be less than 2",
    "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64",
    "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens",
    "Max tokens must be less than or equal to 4096",
    "The maximum tokens you requested exceeds the model limit of 4096",
    "thinking.budget_tokens: must be less than max_tokens",
    "Too many tools: at most 128 tools",
    "The input image is too large",
    "Too many images in the input: at most 20",
    "This model only supports text input",
    "stop: too many stop sequences, at most 4",
    "number of top_logprobs must be less than 20 tokens",
    "Request contains more than one system prompt",
    "Token usage limit per day exceeded",
    "Too many tokens, please wait before trying again",
    "Quota exceeded for input tokens, limit: 1000",
    "model requires more system memory than is available: the context does not fit",
)
OTHERWISE: dict[str, tuple[int, Any]] = {
    **{message: (400, openai(message)) for message in UNLIKELY},
    "a bound of the answer beyond the model's": (400, openai(NOT_SUPPORTED)),
    "a bound of the answer as large as the window": (400, openai(AS_LARGE, CODE)),
    "a bound of the answer nearly as large as the window": (400, openai(NEARLY)),
    "used by others": (429, openai(f"{PER_MINUTE} 6000, Used 5034, Requested 1443.")),
    "a rate limit in like words": (429, openai(f"Rate limit reached. {PLEASE}.", "rate_limit")),
    "too many requests": (429, anthropic("input tokens has exceeded your rate limit")),
    "Bedrock's haste": (429, {"message": "Too many tokens, please wait before trying again."}),
    "a quota": (429, google("Quota exceeded for metric: input_token_count")),
    "one text": (400, openai("Invalid 'messages[17].content': string too long.")),
    "a model's name": (404, openai("model `long-context-window` does not exist")),
    "a schema": (400, anthropic("output_config.format: schema is too complex")),
    "the conversation itself, sent back": (422, SENT_BACK),
    "a fault": (500, openai("The server had an error while processing your request")),
}


@pytest.mark.parametrize(("status", "body", "window"), TOO_LONG.values(), ids=TOO_LONG)
def test_the_errors_of_providers_for_too_long_a_conversation_are_recognized(
    status: int, body: Any, window: int | None
) -> None:
    in_response = error_of_response(status, {}, json.dumps(body).encode())
    in_stream = error_in_event(body[0] if isinstance(body, list) else body)
    assert isinstance(in_response, ContextOverflow), in_response
    assert isinstance(in_stream, ContextOverflow), in_stream
    assert (in_response.status, in_response.window, in_stream.window) == (status, window, window)


def test_each_pattern_has_an_example() -> None:
    texts = [error_texts(body) for _, body, _ in TOO_LONG.values()]
    unseen = [
        each.pattern for each in OVERFLOW_PATTERNS if not any(each.search(text) for text in texts)
    ]
    assert unseen == []


@pytest.mark.parametrize(("status", "body"), OTHERWISE.values(), ids=OTHERWISE)
def test_other_refusals_are_not_taken_for_it(status: int, body: Any) -> None:
    error = error_of_response(status, {}, json.dumps(body).encode())
    assert isinstance(error, ProviderRefused), error
    event = body[0] if isinstance(body, list) else body
    assert not isinstance(error_in_event(event), ContextOverflow)


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_what_was_not_asked_was_not_too_long(status: int) -> None:
    assert isinstance(
        error_of_response(status, {}, b'{"error": "prompt is too long"}'), ProviderRefused
    )


@pytest.mark.parametrize("body", [b"", b"<html><h1>413 Request Entity Too Large</h1>", b"{}"])
def test_a_body_that_a_server_finds_too_large_is_too_long_whatever_its_text(body: bytes) -> None:
    assert isinstance(error_of_response(413, {}, body), ContextOverflow)


def test_it_is_known_in_plain_text() -> None:
    error = error_of_response(400, {}, b"prompt is too long: 210000 tokens > 200000 maximum\n")
    assert isinstance(error, ContextOverflow)
    assert error.window == 200_000


async def test_it_is_neither_conceded_to_nor_asked_again() -> None:
    asked: list[httpx.Request] = []

    def handler(sent: httpx.Request) -> httpx.Response:
        asked.append(sent)
        return httpx.Response(400, json=TOO_LONG["OpenAI"][1])

    with pytest.raises(ContextOverflow):
        await provider(handler).solve(request(), ReceivedText())
    assert len(asked) == 1


def test_it_is_known_in_the_middle_of_an_answer() -> None:
    reading = OpenAIAnswerReader(StreamedAnswer(ReceivedText(), ToolNames(())))
    reading.read(json.dumps({"choices": [{"index": 0, "delta": {"content": "So"}}]}))
    with pytest.raises(ContextOverflow):
        reading.read(json.dumps({"error": "Context size has been exceeded"}))


def test_where_it_must_fail_a_run_it_quotes_the_provider() -> None:
    refused = ContextOverflow(400, f"prompt is too long for {KEY}")
    error = provider_error(refused, target(), "gpt-test", 1)
    assert (error.type, error.non_retryable) == ("model_error", True)
    assert error.message.endswith("answered 400: prompt is too long for [secret]")
    at_home = target(provider="ollama", baseUrl="http://127.0.0.1:11434")
    assert "`num_ctx`" in provider_error(ContextOverflow(400, OLLAMA), at_home, "qwen3", 1).message


def test_a_quoted_error_of_another_provider_is_reported() -> None:
    assert error_of_response(400, {}, json.dumps(OPENROUTER).encode()).message.startswith(MAXIMUM)
