"""The setting `reasoning` of a model as the options of each provider.

Sources: OpenAI's, Google's and Ollama's API references (`reasoning_effort`, `reasoning.effort`;
`thinkingConfig`; `think`), Anthropic's "Extended thinking" and "Effort", Amazon's guide to Nova and
to OpenAI's models on Bedrock. What a model does not take, its server refuses:
`providers.parameter_fallback`.
"""

import re
from typing import Any

from holdfast.schemas.agent import ModelSettings, Reasoning

# Models that decide by themselves how long to think, at an effort. Others take a budget.
_ADAPTIVE = re.compile(
    r"claude-(?:(?:opus|sonnet)-4[-.][6-9]|(?:opus|sonnet|haiku|fable|mythos)-[5-9])"
)
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
    return model.model_copy(update={"options": translated | own})


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
            enabled = {"type": "enabled", "maxReasoningEffort": level}
            return {"reasoningConfig": {"type": "disabled"} if level == "none" else enabled}
        case "gemini" if "gemini-2" in name:
            return {"thinkingConfig": {"thinkingBudget": _GEMINI_BUDGETS[level]}}
        case "gemini":
            # None of the newer models can do without.
            least = "MINIMAL" if level == "none" else level.upper()
            return {"thinkingConfig": {"thinkingLevel": least}}
        case "ollama":
            # Only gpt-oss has levels, and it always thinks.
            levels = "gpt-oss" in name and level != "none"
            return {"think": level if levels else level != "none"}
    return {"reasoning_effort": level}


def _claude(name: str, level: Reasoning, max_output_tokens: int | None) -> dict[str, Any]:
    if _ADAPTIVE.search(name):
        if level == "none":
            return {"thinking": {"type": "disabled"}}
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": level}}
    if level == "none":
        return {}
    # The budget is a part of the longest answer, and has a least value.
    budget = _CLAUDE_BUDGETS[level]
    if max_output_tokens is not None:
        budget = min(budget, max_output_tokens // 2)
    least = _CLAUDE_BUDGETS["low"]
    return {"thinking": {"type": "enabled", "budget_tokens": max(budget, least)}}
