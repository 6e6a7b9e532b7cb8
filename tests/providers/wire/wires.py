"""The wire of each format.

A provider's package takes up to a second to import: a wire does so at its first check, since every
process of a suite imports this module.
"""

from tests.providers.wire.anthropic import AnthropicWire
from tests.providers.wire.base import Wire
from tests.providers.wire.bedrock import BedrockWire
from tests.providers.wire.gemini import GeminiWire
from tests.providers.wire.ollama import OllamaWire
from tests.providers.wire.openai import OpenAIWire
from tests.providers.wire.openai_responses import OpenAIResponsesWire

_ALL: tuple[Wire, ...] = (
    *(OpenAIWire(), OpenAIResponsesWire(), AnthropicWire(), OllamaWire()),
    *(GeminiWire(), BedrockWire()),
)
WIRES = {wire.format.kind: wire for wire in _ALL}
