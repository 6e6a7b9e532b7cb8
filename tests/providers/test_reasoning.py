"""`reasoning` of a model, in each provider's terms: none, low, medium and high are one setting."""

import json
from typing import Any

import httpx
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from holdfast.catalog.endpoints import FORMATS
from holdfast.providers.base import ProviderRequest
from holdfast.providers.transport.http import HttpProvider
from holdfast.schemas.settings.endpoints import ProviderName
from tests.providers.fakes import ReceivedText, ask, chat_message, target
from tests.providers.test_conformance import BY_KIND

ADAPTIVE: dict[str, Any] = {"thinking": {"type": "adaptive"}}


async def sent(
    kind: ProviderName, name: str, refusal: str | None = None, **model: Any
) -> tuple[list[dict[str, Any]], list[str]]:
    """The bodies of two requests, to a server that refuses the first one so; and the notices."""
    bodies: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        if refusal is not None and len(bodies) == 1:
            return httpx.Response(400, content=wire.refuses(400, refusal))
        return httpx.Response(200, content=wire.answer("Hi"))

    wire = BY_KIND[kind]
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    provider = HttpProvider(FORMATS[kind], target(provider=kind, baseUrl=wire.base_url), http)
    asked = ask(model={"name": name, **model})
    names = ProviderRequest(asked, ()).tool_names
    fragments = provider.encode(chat_message("user", "Hi"), names).fragments
    notices: list[str] = []
    for _ in range(2):
        notices += (await provider.solve(ProviderRequest(asked, fragments), ReceivedText())).notices
    return bodies, notices


TRANSLATED: list[tuple[ProviderName, str, str, dict[str, Any]]] = [
    ("openai", "gpt-5.5", "low", {"reasoning_effort": "low"}),
    ("openai-responses", "gpt-5.5", "none", {"reasoning": {"effort": "none"}}),
    ("anthropic", "claude-opus-4-7", "high", ADAPTIVE | {"output_config": {"effort": "high"}}),
    ("anthropic", "claude-opus-5", "none", {"thinking": {"type": "disabled"}}),
    ("anthropic", "claude-sonnet-5-5", "none", {"thinking": {"type": "between_tools"}}),
    ("anthropic", "claude-opus-4-7", "none", {"thinking": None}),
    ("anthropic", "claude-mythos-preview", "low", ADAPTIVE | {"output_config": {"effort": "low"}}),
    (
        "anthropic",
        "claude-sonnet-4-5",
        "medium",
        {"thinking": {"type": "enabled", "budget_tokens": 8_192}, "max_tokens": 16_384},
    ),
    ("ollama", "qwen3", "high", {"think": True}),
    ("ollama", "qwen3", "none", {"think": False}),
    ("ollama", "gpt-oss:20b", "high", {"think": "high"}),
]
WITHIN: list[tuple[ProviderName, str, str, str, Any]] = [
    ("gemini", "gemini-3-pro", "low", "generationConfig", {"thinkingLevel": "LOW"}),
    ("gemini", "gemini-3-flash", "none", "generationConfig", {"thinkingLevel": "MINIMAL"}),
    ("gemini", "gemini-2.5-flash", "none", "generationConfig", {"thinkingBudget": 0}),
    ("gemini", "gemini-2.5-pro", "high", "generationConfig", {"thinkingBudget": 24_576}),
]
ON_BEDROCK: list[tuple[str, str, dict[str, Any] | None]] = [
    ("us.anthropic.claude-opus-4-7-v1:0", "low", ADAPTIVE | {"output_config": {"effort": "low"}}),
    (
        "amazon.nova-2-lite-v1:0",
        "high",
        {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}},
    ),
    ("openai.gpt-oss-120b-1:0", "medium", {"reasoning_effort": "medium"}),
    ("us.openai.gpt-5.6", "medium", {"reasoning": {"effort": "medium"}}),
    ("amazon.nova-2-lite-v1:0", "none", None),
]


@pytest.mark.parametrize(("kind", "name", "level", "expected"), TRANSLATED)
async def test_it_is_written_in_the_provider_s_terms(
    kind: ProviderName, name: str, level: str, expected: dict[str, Any]
) -> None:
    [body, _], notices = await sent(kind, name, reasoning=level)
    assert {field: body.get(field) for field in expected} == expected
    assert notices == []
    [plain, _], _ = await sent(kind, name)
    assert not plain.keys() & (expected.keys() - {"max_tokens"})


@pytest.mark.parametrize(("kind", "name", "level", "within", "expected"), WITHIN)
async def test_it_is_among_the_settings_of_gemini(
    kind: ProviderName, name: str, level: str, within: str, expected: Any
) -> None:
    [body, _], _ = await sent(kind, name, reasoning=level)
    assert body[within]["thinkingConfig"] == expected


@pytest.mark.parametrize(("name", "level", "expected"), ON_BEDROCK)
async def test_it_is_among_a_model_s_own_fields_on_bedrock(
    name: str, level: str, expected: dict[str, Any] | None
) -> None:
    [body, _], _ = await sent("bedrock", name, reasoning=level, maxOutputTokens=500)
    assert body.get("additionalModelRequestFields") == expected
    # Nova rejects both with its high effort alone.
    settings = {"maxTokens": 500, "temperature": 0.7}
    is_high = expected is not None and level == "high"
    assert body["inferenceConfig"] == ({} if is_high else settings)


async def test_an_agent_s_own_options_win_and_are_sent_beside_it() -> None:
    own = {"reasoning": {"summary": "auto"}}
    [body, _], _ = await sent("openai-responses", "gpt-5.5", reasoning="low", options=own)
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    own = {"reasoning": {"effort": "xhigh"}}
    [body, _], _ = await sent("openai-responses", "gpt-5.5", reasoning="low", options=own)
    assert body["reasoning"] == {"effort": "xhigh"}
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2_000}}
    [body, _], _ = await sent("anthropic", "claude-opus-4-7", reasoning="low", options=thinking)
    assert body["thinking"] == thinking["thinking"]


async def test_a_budget_of_thoughts_is_a_part_of_the_longest_answer() -> None:
    [body, _], _ = await sent(
        "anthropic", "claude-sonnet-4-5", reasoning="high", maxOutputTokens=6_000
    )
    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (6_000, 3_000)
    assert "temperature" not in body


async def test_chat_completions_take_it() -> None:
    [body, _], _ = await sent("openai", "gpt-5.5", reasoning="none")
    TypeAdapter(CompletionCreateParamsStreaming).validate_python(body)


REFUSED: list[tuple[ProviderName, str, str]] = [
    ("openai", "reasoning_effort", "Unrecognized request argument supplied: reasoning_effort"),
    (
        "openai-responses",
        "reasoning",
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
    ),
    ("anthropic", "thinking", "adaptive thinking is not supported on this model"),
    ("ollama", "think", '"llama3.1:8b" does not support thinking'),
    ("gemini", "thinkingConfig", "Thinking is not supported by this model"),
    (
        "bedrock",
        "thinking",
        "The model returned the following errors: Malformed input request: #: extraneous key"
        " [thinking] is not permitted, please reformat your input and try again.",
    ),
]


@pytest.mark.parametrize(("kind", "field", "message"), REFUSED)
async def test_a_model_that_does_not_take_it_is_asked_without_from_then_on(
    kind: ProviderName, field: str, message: str
) -> None:
    bodies, notices = await sent(kind, "claude-opus-4-7", message, reasoning="low")
    assert [f'"{field}"' in json.dumps(body) for body in bodies] == [True, False, False]
    assert all("does not accept its `reasoning`" in notice for notice in notices)


ALWAYS: list[tuple[ProviderName, str, str, dict[str, Any]]] = [
    (
        "openai",
        "gpt-5",
        "Unsupported value: 'none' is not supported with the 'gpt-5' model. Supported values are:"
        " 'minimal', 'low', 'medium', and 'high'.",
        {"reasoning_effort": "low"},
    ),
    (
        "anthropic",
        "claude-opus-5-5",
        '"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive" and'
        ' "output_config.effort" to control thinking behavior.',
        ADAPTIVE | {"output_config": {"effort": "low"}},
    ),
    (
        "gemini",
        "gemini-2.5-pro",
        "Budget 0 is invalid. This model only works in thinking mode.",
        {"thinkingConfig": {"thinkingBudget": 1_024}},
    ),
    (
        "gemini",
        "gemini-3.8-flash",
        "Thinking level MINIMAL is not supported for this model.",
        {"thinkingConfig": {"thinkingLevel": "LOW"}},
    ),
]


@pytest.mark.parametrize(("kind", "name", "message", "expected"), ALWAYS)
async def test_a_model_that_always_reasons_is_asked_for_little_of_it_in_place_of_none(
    kind: ProviderName, name: str, message: str, expected: dict[str, Any]
) -> None:
    bodies, notices = await sent(kind, name, message, reasoning="none")
    for body in bodies[1:]:
        settings = body.get("generationConfig", body)
        assert {field: settings.get(field) for field in expected} == expected
    assert len(bodies) == 3
    assert all("the model always reasons" in notice for notice in notices)
