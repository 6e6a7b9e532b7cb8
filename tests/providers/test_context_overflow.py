"""A conversation that is too long for its model is known by what each provider says of it.

The texts are those that people were told by the providers, as issues and references quote them
(`activities/providers/too_long.py` names each place).
"""

import json
from typing import Any

import httpx
import pytest

from holdfast.providers.base import ContextOverflow, ProviderRefused, ToolNames
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


CODE = "context_length_exceeded"
MAXIMUM = "This model's maximum context length is"
PLEASE = "Please reduce the length of the messages"
LLAMA = "try increasing the context size or enable context shift"
OLLAMA = "the prompt is longer than the context length currently available to the model"

# Who says it, with what status, how, and how long a conversation may be by that.
TOO_LONG: list[tuple[str, int, Any, int | None]] = [
    (
        "OpenAI",
        400,
        openai(f"{MAXIMUM} 128000 tokens. However, your messages resulted in 204308.", CODE),
        128_000,
    ),
    (
        "OpenAI, with the answer",
        400,
        openai(
            f"{MAXIMUM} 4097 tokens. However, you requested 4562 tokens (3062 in the messages,"
            f" 1500 in the completion). {PLEASE} or completion.",
            CODE,
        ),
        4097 - 1500,
    ),
    (
        "OpenAI, GPT-5",
        400,
        openai(
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted"
            f" in 289650 tokens. {PLEASE}.",
            CODE,
        ),
        272_000,
    ),
    (
        "OpenAI, without a number",
        400,
        openai(
            "Your input exceeds the context window of this model. Please adjust your input and"
            " try again.",
            CODE,
        ),
        None,
    ),
    ("OpenAI, by its code", 400, openai("Bad request", CODE), None),
    (
        "DeepSeek",
        400,
        openai(
            f"{MAXIMUM} 131072 tokens. However, you requested 131134 tokens (122942 in the"
            " messages, 8192 in the completion).",
            "invalid_request_error",
        ),
        131_072 - 8_192,
    ),
    (
        "vLLM",
        400,
        {
            "object": "error",
            "type": "BadRequestError",
            "code": 400,
            "message": f"{MAXIMUM} 262144 tokens. However, you requested 0 output tokens and your"
            " prompt contains at least 262145 input tokens (parameter=input_tokens)",
        },
        262_144,
    ),
    (
        "vLLM, newer",
        400,
        openai(
            "You passed 99073 input tokens and requested 32000 output tokens. However, the"
            " model's context length is only 131072 tokens, resulting in a maximum input length"
            " of 99072 tokens.",
            400,
        ),
        131_072 - 32_000,
    ),
    (
        "vLLM, with a bound of the answer",
        400,
        openai(
            "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum"
            " context length is 4096 tokens and your request has 2104 input tokens",
            400,
        ),
        2_096,
    ),
    (
        "vLLM, an engine's",
        500,
        openai(
            "The decoder prompt (length 21535) is longer than the maximum model length of 16384.",
            500,
        ),
        16_384,
    ),
    (
        "vLLM, a pictures'",
        400,
        openai(
            "The prompt (total length 25938) is too long to fit into the model (context length"
            " 4096).",
            400,
        ),
        4_096,
    ),
    (
        "SGLang",
        400,
        openai(
            "Requested token count exceeds the model's maximum context length of 262144 tokens."
            " You requested a total of 263925 tokens: 199925 tokens from the input messages and"
            " 64000 tokens for the completion.",
            400,
        ),
        262_144 - 64_000,
    ),
    (
        "SGLang, Together",
        400,
        openai(
            "The input (140000 tokens) is longer than the model's context length (131072 tokens).",
            400,
        ),
        131_072,
    ),
    (
        "OpenRouter",
        400,
        openai(
            "This endpoint's maximum context length is 32768 tokens. However, you requested"
            " about 42832 tokens (42832 of text input).",
            400,
        ),
        32_768,
    ),
    (
        "OpenRouter, of a provider",
        400,
        openai(
            "Provider returned error",
            400,
            metadata={
                "raw": json.dumps(
                    openai(
                        f"{MAXIMUM} 262144 tokens. However, your messages resulted in"
                        f" 262897 tokens. {PLEASE}.",
                        400,
                    )
                ),
                "provider_name": "Nvidia",
            },
        ),
        262_144,
    ),
    (
        "Poolside",
        400,
        openai("Input length 131393 exceeds the maximum allowed input length of 131040 tokens."),
        131_040,
    ),
    (
        "LiteLLM",
        503,
        openai(
            "litellm.ServiceUnavailableError: OpenAIException - Requested token count exceeds"
            " the model's maximum context length of 131072 tokens."
        ),
        131_072,
    ),
    (
        "llama.cpp, by its fields",
        500,
        {
            "error": {
                "code": 500,
                "message": f"the request exceeds the available context size. {LLAMA}",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 1407,
                "n_ctx": 256,
            }
        },
        256,
    ),
    (
        "llama.cpp",
        400,
        {
            "error": {
                "code": 400,
                "type": "exceed_context_size_error",
                "n_ctx": 65536,
                "message": "request (66202 tokens) exceeds the available context size (65536"
                " tokens), try increasing it",
            }
        },
        65_536,
    ),
    (
        "llama.cpp, older",
        400,
        openai(f"the request exceeds the available context size. {LLAMA}"),
        None,
    ),
    ("llama-cpp-python", 400, openai("Requested tokens (516) exceed context window of 512"), 512),
    (
        "LM Studio",
        400,
        {
            "error": "Trying to keep the first 10136 tokens when context the overflows. However,"
            " the model is loaded with context length of only 7866 tokens, which is not enough."
        },
        7_866,
    ),
    (
        "LM Studio, newer",
        400,
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the"
            " context length (n_keep: 10247 >= n_ctx: 4096). Try to load the model with a larger"
            " context length, or provide a shorter prompt."
        },
        4_096,
    ),
    ("LM Studio, MLX", 400, {"error": "Context size has been exceeded"}, None),
    (
        "LM Studio, while it answers",
        500,
        {
            "error": "Reached context length of 4096 tokens with model (arch: qwen3vlmoe) that does"
            " not currently support mid-generation context overflow."
        },
        4_096,
    ),
    ("Ollama", 400, {"error": f"{OLLAMA}; shorten the prompt"}, None),
    ("Ollama, embedded", 400, {"error": "the input length exceeds the context length"}, None),
    (
        "Ollama, of llama.cpp",
        400,
        {
            "error": json.dumps(
                {
                    "error": {
                        "code": 400,
                        "type": "exceed_context_size_error",
                        "message": "request too large",
                        "n_ctx": 64000,
                    }
                }
            )
        },
        64_000,
    ),
    (
        "Ollama's cloud",
        400,
        {"error": "prompt too long; exceeded max context length by 5000 tokens"},
        None,
    ),
    ("Anthropic", 400, anthropic("prompt is too long: 208310 tokens > 200000 maximum"), 200_000),
    (
        "Anthropic, with the answer",
        400,
        anthropic(
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000,"
            " decrease input length or `max_tokens` and try again"
        ),
        136_000,
    ),
    (
        "Anthropic, by the bytes",
        413,
        anthropic("Request exceeds the maximum size", "request_too_large"),
        None,
    ),
    (
        "Gemini",
        400,
        google(
            "The input token count (1200293) exceeds the maximum number of tokens allowed"
            " (1048576)."
        ),
        1_048_576,
    ),
    (
        "Gemini, without a number",
        400,
        [google("The input token count exceeds the maximum number of tokens allowed.")],
        None,
    ),
    (
        "Vertex AI",
        400,
        google(
            "Unable to submit request because the input token count is 40000 but model only"
            " supports up to 32767. Reduce the input token count and try again."
        ),
        32_767,
    ),
    (
        "Mistral",
        400,
        {
            "object": "error",
            "type": "invalid_request_prompt",
            "code": "3051",
            "message": "Prompt contains 140000 tokens and 0 draft tokens, too large for model with"
            " 131072 maximum context length",
        },
        131_072,
    ),
    ("Groq", 400, openai("Please reduce the length of the messages or completion.", CODE), None),
    (
        "xAI",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812",
        },
        131_072,
    ),
    (
        "Kimi",
        400,
        openai("Your request exceeded model token limit: 262144 (requested: 300000)"),
        262_144,
    ),
    ("DashScope", 400, openai("Range of input length should be [1, 30720]"), 30_720),
    ("MiniMax", 400, openai("invalid params, context window exceeds limit (2013)"), None),
    ("Z.AI", 400, openai("tokens in request more than max tokens allowed"), None),
    (
        "Text Generation Inference",
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048."
            " Given: 2244 `inputs` tokens and 1000 `max_new_tokens`"
        },
        1_048,
    ),
    ("a server of nobody's", 400, openai("Your prompt is larger than the context window."), None),
    # Not their model's window, but as little to be waited for: more than is allowed in a minute.
    (
        "Groq's allowance",
        413,
        openai(
            "Request too large for model `llama-3.3-70b-versatile` in organization `org_1`"
            " service tier `on_demand` on tokens per minute (TPM): Limit 12000, Requested 14137,"
            " please reduce your message size and try again.",
            "rate_limit_exceeded",
        ),
        12_000,
    ),
    (
        "OpenAI's allowance",
        429,
        openai(
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30,000, Requested"
            " 342,389. The input or output tokens must be reduced in order to run successfully.",
            "rate_limit_exceeded",
        ),
        30_000,
    ),
]

OTHERWISE: list[tuple[str, int, Any]] = [
    (
        "a bound of the answer beyond the model's",
        400,
        openai(
            "max_tokens is too large: 6000. This model supports at most 4096 completion tokens,"
            " whereas you provided 6000.",
            "invalid_value",
        ),
    ),
    (
        "a bound of the answer as large as the window",
        400,
        openai(
            f"{MAXIMUM} 8192 tokens. However, you requested 8256 tokens (64 in the messages,"
            " 8192 in the completion).",
            CODE,
        ),
    ),
    (
        "a bound of the answer nearly as large as the window",
        400,
        openai(
            "This endpoint's maximum context length is 131072 tokens. However, you requested"
            " about 132463 tokens (1463 of text input, 131000 in the output).",
            400,
        ),
    ),
    (
        "an allowance that others have used",
        429,
        openai(
            "Rate limit reached for model `llama-3.1-8b-instant` on tokens per minute (TPM):"
            " Limit 6000, Used 5034, Requested 1443. Please try again in 4.77s.",
            "rate_limit_exceeded",
        ),
    ),
    (
        "a rate limit in like words",
        429,
        openai("Rate limit reached. Please reduce the length of the messages.", "rate_limit"),
    ),
    ("too many requests", 429, anthropic("Number of input tokens has exceeded your rate limit")),
    ("Bedrock's haste", 429, {"message": "Too many tokens, please wait before trying again."}),
    (
        "a quota",
        429,
        google("You exceeded your current quota. Quota exceeded for metric: input_token_count"),
    ),
    (
        "one text",
        400,
        openai(
            "Invalid 'messages[17].content': string too long. Expected a string"
            " with maximum length 1048576",
            "string_above_max_length",
        ),
    ),
    ("a name", 400, openai("Invalid 'tools[0].function.name': string too long", "x")),
    ("a model's name", 404, openai("model `long-context-window` does not exist")),
    ("a schema", 400, anthropic("output_config.format: schema is too complex")),
    (
        "the conversation itself, sent back",
        422,
        {
            "detail": [
                {
                    "loc": ["body", "x"],
                    "msg": "Extra inputs are not permitted",
                    "input": {"text": "prompt is too long: 9 tokens > 8 maximum"},
                }
            ]
        },
    ),
    ("a fault", 500, openai("The server had an error while processing your request")),
]


@pytest.mark.parametrize(
    ("status", "body", "window"), [row[1:] for row in TOO_LONG], ids=[row[0] for row in TOO_LONG]
)
def test_what_providers_say_of_too_long_a_conversation_is_known(
    status: int, body: Any, window: int | None
) -> None:
    error = error_of_response(status, {}, json.dumps(body).encode())
    assert isinstance(error, ContextOverflow), error
    assert (error.status, error.window) == (status, window)


@pytest.mark.parametrize(
    ("body", "window"), [row[2:] for row in TOO_LONG], ids=[row[0] for row in TOO_LONG]
)
def test_it_is_known_in_a_stream_that_has_begun(body: Any, window: int | None) -> None:
    event = body[0] if isinstance(body, list) else body
    error = error_in_event(event)
    assert isinstance(error, ContextOverflow), error
    assert error.window == window


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
