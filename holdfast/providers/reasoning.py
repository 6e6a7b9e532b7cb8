"""The setting `reasoning` of a model as the options of each provider.

Sources: OpenAI's, Google's and Ollama's API references (`reasoning_effort`, `reasoning.effort`;
`thinkingConfig`; `think`), Anthropic's "Thinking" and "Effort", Amazon's "Extended thinking in
Amazon Nova 2", and answers of Bedrock in the tests of Vercel's AI SDK. What a model does not take,
its server refuses: `providers.parameter_fallback`.
"""

import re
from typing import Any

from holdfast.schemas.agent import ModelSettings, Reasoning

# Claude's models that decide by themselves how long to think, at an effort. Others take a budget.
_ADAPTIVE = re.compile(
    r"claude-(?:fable|mythos|(?:opus|sonnet)-4[-.][6-9]|(?:opus|sonnet|haiku)-[5-9])"
)
_BETWEEN_TOOLS = re.compile(r"claude-sonnet-5[-.]5")
_CLAUDE_BUDGETS = {"low": 1_024, "medium": 8_192, "high": 16_384}
# As Google translates the efforts of OpenAI's format.
_GEMINI_BUDGETS = {"none": 0, "low": 1_024, "medium": 8_192, "high": 24_576}
# An agent's own fields of these are merged with those here; any other replaces its whole option.
_MERGED = ("output_config", "reasoning")


def with_reasoning(kind: str, model: ModelSettings) -> ModelSettings:
    """Return the model with the options that its `reasoning` means; its own options win."""
    if model.reasoning is None:
        return model
    translated = _options(kind, model, model.reasoning)
    own = dict(model.options)
    for name in _MERGED:
        if isinstance(own.get(name), dict):
            own[name] = translated.get(name, {}) | own[name]
    changes: dict[str, Any] = {"options": translated | own}
    if "reasoningConfig" in translated and model.reasoning == "high":
        # "`maxTokens` must be unset when … maxReasoningEffort is 'high'", and the temperature too.
        changes |= {"max_output_tokens": None, "temperature": None}
    return model.model_copy(update=changes)


def _options(kind: str, model: ModelSettings, level: Reasoning) -> dict[str, Any]:
    name = model.name.lower()
    match kind:
        case "openai-responses":
            return {"reasoning": {"effort": level}}
        case "anthropic":
            return _claude(name, level, model.max_output_tokens)
        case "bedrock" if "claude" in name:
            return _claude(name, level, model.max_output_tokens)
        case "bedrock" if "nova" in name:
            # Nova does not reason by default, and its first models reject the field.
            enabled = {"type": "enabled", "maxReasoningEffort": level}
            return {} if level == "none" else {"reasoningConfig": enabled}
        case "bedrock" if re.search(r"openai\.(?!gpt-oss)", name):
            return {"reasoning": {"effort": level}}
        case "gemini" if "gemini-2" in name:
            return {"thinkingConfig": {"thinkingBudget": _GEMINI_BUDGETS[level]}}
        case "gemini":
            least = "MINIMAL" if level == "none" else level.upper()
            return {"thinkingConfig": {"thinkingLevel": least}}
        case "ollama":
            # Only gpt-oss has levels, and it always thinks.
            levels = "gpt-oss" in name and level != "none"
            return {"think": level if levels else level != "none"}
    return {"reasoning_effort": level}


def _claude(name: str, level: Reasoning, max_output_tokens: int | None) -> dict[str, Any]:
    if (adaptive := _ADAPTIVE.search(name)) is not None:
        if level != "none":
            return {"thinking": {"type": "adaptive"}, "output_config": {"effort": level}}
        kind = "between_tools" if _BETWEEN_TOOLS.search(name) else "disabled"
        # Before the fifth generation they do not think by default.
        return {} if "-4" in adaptive[0] else {"thinking": {"type": kind}}
    if level == "none":
        return {}
    # The budget is a part of the longest answer, and has a least value.
    budget = _CLAUDE_BUDGETS[level]
    if max_output_tokens is not None:
        budget = min(budget, max_output_tokens // 2)
    least = _CLAUDE_BUDGETS["low"]
    return {"thinking": {"type": "enabled", "budget_tokens": max(budget, least)}}
