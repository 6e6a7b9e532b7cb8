"""The wire of each format."""

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
