"""The context windows of models, as far as they are known before a model reports its own.

An operator's setting comes first, then the table by the model's name. A name that is unknown, or
that means several models, has no window here: the first error reports it. A window that is too
large does no harm for the same reason; one that is too small would cost a summary, so where sources
differ, the table has the largest. Read in October 2026 in the models.dev database (July
2026), OpenAI's "Compare models" (GPT-5.6), Anthropic's "Context windows" (Claude 5) and the model
cards of Llama and Qwen.
"""

import re

from holdfast.providers.json_fields import read_object
from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.settings.endpoints import Endpoint

# The bound of an answer leaves at least this part of the window to the conversation.
_MIN_LEFT = 1 / 8
# A window is reported once a conversation takes this part of it; before, it only costs history.
_REPORTED_FROM = 1 / 2


def _known(
    pattern: str, tokens: int, *, input_alone: bool = False
) -> tuple[re.Pattern[str], int, bool]:
    """The window of models by their whole names; `input_alone`: an answer takes no part of it."""
    return re.compile(rf"(?:{pattern})(?:[-:@_.].*)?\Z"), tokens, input_alone


# The first match wins. A version is written `4-5` or `4.5`, depending on the server.
KNOWN = (
    # OpenAI.
    _known(r"gpt-5\.[1-3]-chat", 128_000),
    _known(r"gpt-5\.3-codex-spark", 100_000, input_alone=True),
    _known(r"gpt-5\.4-(?:mini|nano)", 272_000, input_alone=True),
    _known(r"gpt-5\.[456]", 922_000, input_alone=True),
    _known(r"gpt-5(?:\.[1-3])?", 272_000, input_alone=True),
    _known(r"gpt-4\.1(?:-mini|-nano)?", 1_047_576),
    _known(r"gpt-4o|chatgpt-4o|gpt-4-turbo|gpt-4-(?:1106|0125)", 128_000),
    _known(r"gpt-4(?:-0613)?\Z|gpt-4-0314", 8_192),
    _known(r"gpt-3\.5-turbo", 16_385),
    _known(r"o1-(?:mini|preview)", 128_000),
    _known(r"o[134](?:-mini|-pro)?", 200_000),
    _known(r"gpt-oss", 131_072),
    # Anthropic.
    _known(r"claude-(?:opus-4[-.][678]|sonnet-4[-.]6|(?:opus|sonnet|fable|mythos)-5)", 1_000_000),
    _known(r"claude-(?:opus|sonnet)-4(?:[-.][015])?|claude-haiku-4[-.]5", 200_000),
    _known(r"claude-3(?:[-.][57])?-(?:opus|sonnet|haiku)|claude-(?:opus|sonnet|haiku)-3", 200_000),
    # Google. Models of images and speech have smaller ones.
    _known(r"gemini-.*(?:image|tts|audio|live|embedding|robotics|computer).*", 0),
    _known(r"gemini-1\.5-pro", 2_097_152, input_alone=True),
    _known(r"gemini-(?:1\.5|2\.[05]|3(?:\.\d)?)-(?:flash|pro)", 1_048_576, input_alone=True),
    _known(r"gemini-(?:flash|flash-lite|pro)-latest", 1_048_576, input_alone=True),
    _known(r"gemma-?4", 262_144),
    _known(r"gemma-?3", 131_072),
    # DeepSeek: these two names mean its newest models.
    _known(r"deepseek-(?:chat|reasoner)|deepseek-v4", 1_000_000),
    _known(r"deepseek-(?:v3|r1)", 163_840),
    # Mistral.
    _known(r"(?:devstral|mistral-large)-(?:2512|latest)|devstral-medium-latest", 262_144),
    _known(r"mistral-medium-(?:2508|2604|latest)|mistral-small-(?:2603|latest)|codestral", 262_144),
    _known(r"(?:mistral|devstral)-(?:large|medium|small)|(?:open-)?mistral-nemo", 131_072),
    _known(r"magistral|ministral-(?:3b|8b)|pixtral", 131_072),
    # Meta, Alibaba, xAI.
    _known(r"(?:meta-)?llama-?3[-.][123]", 131_072),
    _known(r"(?:meta-)?llama-?3", 8_192),
    _known(r"qwen-?3-(?:coder|next|vl)|qwen-?3-.*-2507", 262_144),
    _known(r"qwen-?(?:3|2\.5)", 131_072),
    _known(r"grok-4\.(?:20|3)", 1_000_000),
)


def window_of(endpoint: Endpoint, model: ModelSettings) -> int | None:
    """Return the tokens that a conversation may have beside its answer; None if unknown."""
    if endpoint.context_window is not None:
        return _beside(endpoint.context_window, model)
    if endpoint.provider == "ollama":
        # A server gives a model a smaller window than it could have, unless it is set.
        nested = read_object(model.options.get("options"))
        size = model.options.get("num_ctx", nested.get("num_ctx"))
        if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
            return None
        return _beside(size, model)
    name = model.name.lower().rpartition("/")[2]
    # Bedrock's names begin with a region and a vendor.
    name = re.sub(r"\A(?:[a-z]{2,6}\.)?(?:anthropic|meta|openai|deepseek|mistral|qwen)\.", "", name)
    for pattern, tokens, input_alone in KNOWN:
        if pattern.match(name):
            return (tokens if input_alone else _beside(tokens, model)) or None
    return None


def with_window(solution: Solution, window: int | None) -> Solution:
    """Return the solution, with the window if the conversation takes much of it."""
    usage = solution.usage
    if window is None or usage.input_tokens is None:
        return solution
    taken = usage.input_tokens + (usage.output_tokens or 0)
    if taken < window * _REPORTED_FROM:
        return solution
    return solution.model_copy(update={"window": window})


def _beside(window: int, model: ModelSettings) -> int:
    left = window - (model.max_output_tokens or 0)
    return max(left, int(window * _MIN_LEFT))
