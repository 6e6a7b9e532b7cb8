"""A conversation that is too long for its model is known by what each provider says of it.

The texts are from issues and references, cut to their telling words; `OVERFLOW_PATTERNS` names each
place.
"""

import json
from typing import Any

import httpx
import pytest

from holdfast.providers.base import ContextOverflow, ProviderRefused, ToolNames
from holdfast.providers.context_overflow import OVERFLOW_PATTERNS, error_texts
from holdfast.providers.model_errors import provider_error
from holdfast.providers.openai.answer import OpenAIAnswerReader
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.providers.transport.error_response import error_in_event, error_of_response
from tests.providers.fakes import KEY, Heard, provider, request, target


def openai(message: str, code: Any = None, **more: Any) -> dict[str, Any]:
    """An error as OpenAI's servers and those like them write it."""
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, **more}}


def anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    """An error as Anthropic writes it."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def google(message: str) -> dict[str, Any]:
    """An error as Google writes it."""
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def plain(message: str) -> dict[str, Any]:
    """An error that is only its message."""
    return {"error": message}


CODE = "context_length_exceeded"
MAXIMUM = "This model's maximum context length is"
PLEASE = "Please reduce the length of the messages"
OLLAMA = "the prompt is longer than the context length currently available to the model"
NVIDIA = json.dumps(openai(f"{MAXIMUM} 262144 tokens. {PLEASE}.", 400))
EXCEEDED = {"code": 400, "type": "exceed_context_size_error"}
PER_MINUTE = "on tokens per minute (TPM): Limit"

# Who says it, with what status, how, and how long a conversation may be by that.
TOO_LONG: list[tuple[str, int, Any, int | None]] = [
    ("OpenAI", 400, openai(f"{MAXIMUM} 128000 tokens. Yours resulted in 204308.", CODE), 128_000),
    (
        "OpenAI, with the answer",
        400,
        openai(f"{MAXIMUM} 4097 tokens. (3062 in the messages, 1500 in the completion).", CODE),
        4097 - 1500,
    ),
    ("OpenAI, GPT-5", 400, openai("exceed the configured limit of 272000 tokens."), 272_000),
    (
        "OpenAI, no number",
        400,
        openai("Your input exceeds the context window of this model."),
        None,
    ),
    ("OpenAI, by its code", 400, openai("Bad request", CODE), None),
    (
        "vLLM",
        400,
        {
            "object": "error",
            "type": "BadRequestError",
            "code": 400,
            "message": f"{MAXIMUM} 262144 tokens. However, you requested 0 output tokens",
        },
        262_144,
    ),
    (
        "vLLM, newer",
        400,
        openai(
            "You requested 32000 output tokens. However, the model's context length is only 131072"
            " tokens, resulting in a maximum input length of 99072 tokens."
        ),
        131_072 - 32_000,
    ),
    (
        "vLLM, with a bound of the answer",
        400,
        openai(
            "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum"
            " context length is 4096 tokens and your request has 2104 input tokens"
        ),
        2_096,
    ),
    (
        "vLLM, an engine's",
        500,
        openai("(length 21535) is longer than the maximum model length of 16384.", 500),
        16_384,
    ),
    (
        "vLLM, a pictures'",
        400,
        openai("The prompt is too long to fit into the model (context length 4096)."),
        4_096,
    ),
    (
        "SGLang",
        400,
        openai(
            "Requested token count exceeds the model's maximum context length of 262144 tokens:"
            " 199925 tokens from the input messages and 64000 tokens for the completion."
        ),
        262_144 - 64_000,
    ),
    (
        "SGLang, Together",
        400,
        openai("The input is longer than the model's context length (131072 tokens)."),
        131_072,
    ),
    ("like OpenAI", 400, openai("Over the maximum context length (8192)."), 8_192),
    (
        "OpenRouter, of a provider",
        400,
        openai("Provider returned error", 400, metadata={"raw": NVIDIA, "provider_name": "Nvidia"}),
        262_144,
    ),
    (
        "Poolside",
        400,
        openai("Input length 131393 exceeds the maximum allowed input length of 131040 tokens."),
        131_040,
    ),
    ("LiteLLM", 503, openai("exceeds the model's maximum context length of 131072."), 131_072),
    (
        "llama.cpp, by its fields",
        500,
        {"error": {**EXCEEDED, "code": 500, "message": "too large", "n_ctx": 256}},
        256,
    ),
    (
        "llama.cpp",
        400,
        openai("request (66202 tokens) exceeds the available context size (65536 tokens)"),
        65_536,
    ),
    ("llama.cpp, older", 400, openai("the request exceeds the available context size."), None),
    ("llama-cpp-python", 400, openai("Requested tokens (516) exceed context window of 512"), 512),
    ("LM Studio", 400, plain("loaded with context length of only 7866 tokens"), 7_866),
    (
        "LM Studio, newer",
        400,
        plain("is greater than the context length (n_keep: 10247 >= n_ctx: 4096). Try to"),
        4_096,
    ),
    ("LM Studio, no number", 400, plain("greater than the context length"), None),
    ("LM Studio, MLX", 400, plain("Context size has been exceeded"), None),
    ("LM Studio, in an answer", 500, plain("Reached context length of 4096 tokens with"), 4_096),
    ("Ollama", 400, plain(f"{OLLAMA}; shorten the prompt"), None),
    ("Ollama, embedded", 400, plain("the input length exceeds the context length"), None),
    ("Ollama, of llama.cpp", 400, plain(json.dumps({"error": {**EXCEEDED, "n_ctx": 640}})), 640),
    (
        "Ollama's cloud",
        400,
        plain("prompt too long; exceeded max context length by 5 tokens"),
        None,
    ),
    ("Anthropic", 400, anthropic("prompt is too long: 208310 tokens > 200000 maximum"), 200_000),
    (
        "Anthropic, with the answer",
        400,
        anthropic("input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000,"),
        136_000,
    ),
    ("Anthropic, by the bytes", 413, anthropic("Too large", "request_too_large"), None),
    (
        "Gemini",
        400,
        google("The input token count exceeds the maximum number of tokens allowed (1048576)."),
        1_048_576,
    ),
    (
        "Gemini, without a number",
        400,
        [google("The input token count exceeds the maximum number of tokens allowed.")],
        None,
    ),
    ("Gemini, by the bytes", 400, google("Request payload size exceeds the limit"), None),
    (
        "Vertex AI",
        400,
        google("the input token count is 40000 but model only supports up to 32767."),
        32_767,
    ),
    (
        "Mistral",
        400,
        {"object": "error", "message": "too large for model with 131072 maximum context length"},
        131_072,
    ),
    ("Groq", 400, openai(f"{PLEASE} or completion."), None),
    (
        "xAI",
        400,
        {"code": "x", **plain("This model's maximum prompt length is 131072 but")},
        131_072,
    ),
    (
        "Kimi",
        400,
        openai("Your request exceeded model token limit: 262144 (requested: 3)"),
        262_144,
    ),
    ("DashScope", 400, openai("Range of input length should be [1, 30720]"), 30_720),
    ("Bedrock", 400, openai("prompt tokens (300) exceed model maximum (200)"), 200),
    ("Bedrock, no number", 400, openai("Input is too long for requested model"), None),
    ("Copilot", 400, openai("prompt token count of 300 exceeds the limit of 200"), 200),
    ("DS4", 400, openai("The configured context size is 4096 tokens"), 4_096),
    ("MiniMax", 400, openai("invalid params, context window exceeds limit (2013)"), None),
    ("Z.AI", 400, openai("tokens in request more than max tokens allowed"), None),
    (
        "Text Generation Inference",
        422,
        plain(
            "`inputs` tokens + `max_new_tokens` must be <= 2048."
            " Given: 2244 `inputs` tokens and 1000 `max_new_tokens`"
        ),
        1_048,
    ),
    ("a server of nobody's", 400, openai("Your prompt is larger than the context window."), None),
    # Not their model's window, but as little to be waited for: more than is allowed in a minute.
    ("Groq's allowance", 413, openai(f"{PER_MINUTE} 12000, Requested 14137, please"), 12_000),
    ("OpenAI's allowance", 429, openai(f"{PER_MINUTE} 30,000, Requested 342,389."), 30_000),
]

OTHERWISE: list[tuple[str, int, Any]] = [
    (
        "a bound of the answer beyond the model's",
        400,
        openai("max_tokens is too large: 6000. This model supports at most 4096 completion tokens"),
    ),
    (
        "a bound of the answer as large as the window",
        400,
        openai(f"{MAXIMUM} 8192 tokens. (64 in the messages, 8192 in the completion).", CODE),
    ),
    (
        "a bound of the answer nearly as large as the window",
        400,
        openai("maximum context length is 131072 tokens. (1463 of text, 131000 in the output)."),
    ),
    (
        "an allowance that others have used",
        429,
        openai(f"Rate limit reached {PER_MINUTE} 6000, Used 5034, Requested 1443."),
    ),
    ("a rate limit in like words", 429, openai(f"Rate limit reached. {PLEASE}.", "rate_limit")),
    ("too many requests", 429, anthropic("Number of input tokens has exceeded your rate limit")),
    ("Bedrock's haste", 429, {"message": "Too many tokens, please wait before trying again."}),
    ("a quota", 429, google("Quota exceeded for metric: input_token_count")),
    ("one text", 400, openai("Invalid 'messages[17].content': string too long.")),
    ("a model's name", 404, openai("model `long-context-window` does not exist")),
    ("a schema", 400, anthropic("output_config.format: schema is too complex")),
    (
        "the conversation itself, sent back",
        422,
        {"detail": [{"loc": ["x"], "msg": "Extra", "input": {"text": "prompt is too long"}}]},
    ),
    ("a fault", 500, openai("The server had an error while processing your request")),
]


@pytest.mark.parametrize(
    ("status", "body", "window"), [row[1:] for row in TOO_LONG], ids=[row[0] for row in TOO_LONG]
)
def test_what_providers_say_of_too_long_a_conversation_is_known(
    status: int, body: Any, window: int | None
) -> None:
    in_response = error_of_response(status, {}, json.dumps(body).encode())
    in_stream = error_in_event(body[0] if isinstance(body, list) else body)
    assert isinstance(in_response, ContextOverflow), in_response
    assert isinstance(in_stream, ContextOverflow), in_stream
    assert (in_response.status, in_response.window, in_stream.window) == (status, window, window)


def test_each_pattern_has_an_example() -> None:
    texts = [error_texts(row[2]) for row in TOO_LONG]
    unseen = [
        each.pattern for each in OVERFLOW_PATTERNS if not any(each.search(text) for text in texts)
    ]
    assert unseen == []


@pytest.mark.parametrize(
    ("status", "body"), [row[1:] for row in OTHERWISE], ids=[row[0] for row in OTHERWISE]
)
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
def test_a_body_that_a_server_finds_too_large_is_too_long_whatever_it_says(body: bytes) -> None:
    assert isinstance(error_of_response(413, {}, body), ContextOverflow)


def test_it_is_known_in_plain_text() -> None:
    error = error_of_response(400, {}, b"prompt is too long: 210000 tokens > 200000 maximum\n")
    assert isinstance(error, ContextOverflow)
    assert error.window == 200_000


async def test_it_is_neither_conceded_to_nor_asked_again() -> None:
    asked: list[httpx.Request] = []

    def handler(sent: httpx.Request) -> httpx.Response:
        asked.append(sent)
        return httpx.Response(400, json=TOO_LONG[0][2])

    with pytest.raises(ContextOverflow):
        await provider(handler).solve(request(), Heard())
    assert len(asked) == 1


def test_it_is_known_in_the_middle_of_an_answer() -> None:
    reading = OpenAIAnswerReader(StreamedAnswer(Heard(), ToolNames(())))
    reading.read(json.dumps({"choices": [{"index": 0, "delta": {"content": "So"}}]}))
    with pytest.raises(ContextOverflow):
        reading.read(json.dumps({"error": "Context size has been exceeded"}))


def test_where_it_must_fail_a_run_it_says_what_the_provider_said() -> None:
    refused = ContextOverflow(400, f"prompt is too long for {KEY}")
    error = provider_error(refused, target(), "gpt-test", 1)
    assert (error.type, error.non_retryable) == ("model_error", True)
    assert error.message.endswith("answered 400: prompt is too long for [secret]")
    at_home = target(provider="ollama", baseUrl="http://127.0.0.1:11434")
    assert "`num_ctx`" in provider_error(ContextOverflow(400, OLLAMA), at_home, "qwen3", 1).message


def test_what_a_provider_quotes_of_another_is_told_and_not_that_it_failed() -> None:
    body = next(row[2] for row in TOO_LONG if row[0] == "OpenRouter, of a provider")
    assert error_of_response(400, {}, json.dumps(body).encode()).message.startswith(MAXIMUM)
