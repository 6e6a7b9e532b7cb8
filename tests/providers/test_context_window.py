"""How long a conversation a model takes is known by what is set, and by some models' names."""

from typing import Any

import pytest

from holdfast.providers.context_window import window_of, with_window
from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.internal.solution import Solution, Usage
from holdfast.schemas.settings.endpoints import Endpoint


def window(name: str, *, provider: str = "openai", **more: Any) -> int | None:
    """The window of a model so named; `more` are its settings, but for `contextWindow`."""
    endpoint: dict[str, Any] = {"provider": provider, "baseUrl": "http://models"}
    if "contextWindow" in more:
        endpoint["contextWindow"] = more.pop("contextWindow")
    model = ModelSettings.model_validate({"endpoint": "models", "name": name, **more})
    return window_of(Endpoint.model_validate(endpoint), model)


NAMES = {
    128_000: "gpt-4o gpt-4o-mini-2024-07-18 gpt-4-turbo gpt-5.2-chat-latest o1-preview",
    1_047_576: "openai/gpt-4.1-mini",
    8_192: "gpt-4",
    272_000: "gpt-5 gpt-5-mini-2025-08-07 gpt-5.4-mini",
    922_000: "gpt-5.6-sol",
    200_000: "o3-mini claude-sonnet-4-5-20250929 claude-sonnet-4-20250514 claude-3-5-haiku-latest"
    " anthropic/claude-sonnet-4.5 us.anthropic.claude-opus-4-1-20250805-v1:0",
    1_000_000: "claude-opus-4-6 claude-sonnet-5 deepseek-chat",
    1_048_576: "models/gemini-2.5-pro gemini-3.1-flash-lite",
    163_840: "deepseek-ai/DeepSeek-V3.1",
    262_144: "mistral-large-latest Qwen/Qwen3-30B-A3B-Instruct-2507",
    131_072: "mistral-large-2411 meta-llama/Llama-3.3-70B-Instruct llama-3.1-8b-instant"
    " qwen2.5-72b-instruct",
    None: "my-deployment gpt-6 gpt-40 claude claude-haiku-9 opus gemini-2.5-flash-image"
    " gemini-2.5-pro-preview-tts o30 llama-4-scout",
}


@pytest.mark.parametrize(
    ("name", "tokens"),
    [(name, tokens) for tokens, names in NAMES.items() for name in names.split()],
)
def test_some_are_known_by_their_names(name: str, tokens: int | None) -> None:
    assert window(name) == tokens


def test_the_setting_of_an_operator_comes_first() -> None:
    assert window("gpt-4o", contextWindow=32_000) == 32_000
    assert window("my-deployment", contextWindow=32_000) == 32_000


def test_an_answer_takes_of_it_where_it_does() -> None:
    assert window("gpt-4o", maxOutputTokens=8_000) == 120_000
    assert window("gpt-5", maxOutputTokens=8_000) == 272_000
    assert window("my-deployment", contextWindow=8_000, maxOutputTokens=2_000) == 6_000
    assert window("my-deployment", contextWindow=8_000, maxOutputTokens=8_000) == 1_000


def test_the_window_of_ollama_is_the_configured_one_and_otherwise_unknown() -> None:
    assert window("qwen3", provider="ollama") is None
    assert window("qwen3", provider="ollama", options={"num_ctx": 32_768}) == 32_768
    nested = {"options": {"num_ctx": 16_384}}
    assert window("qwen3", provider="ollama", options=nested) == 16_384
    assert window("qwen3", provider="ollama", options={"num_ctx": "all"}) is None
    assert window("qwen3", provider="ollama", contextWindow=4_096) == 4_096


@pytest.mark.parametrize(
    ("tokens", "of", "told"),
    [
        ((499, 1), 1_000, 1_000),
        ((499, 0), 1_000, None),
        ((2_000, 0), 1_000, 1_000),
        ((500, None), 1_000, 1_000),
        ((None, 500), 1_000, None),
        ((500, 500), None, None),
    ],
)
def test_it_is_reported_once_half_of_it_is_taken(
    tokens: tuple[int | None, int | None], of: int | None, told: int | None
) -> None:
    solution = Solution(usage=Usage(input_tokens=tokens[0], output_tokens=tokens[1]))
    assert with_window(solution, of).window == told
