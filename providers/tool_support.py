"""Statements of providers that a model or a server takes no tools.

Only such a statement counts: an error about a tool's schema, an image or an account may name tools
too, and the agent's tools must not be lost for it. Tools that are only switched off are not among
them either (vLLM's `--enable-auto-tool-choice`, llama.cpp's `--jinja`): the operator needs that
error. So each text is known word for word, with its source.
"""

import re

from holdfast.providers.base import ProviderRefused

# The whole message, and who sends it, and where it was found (November 2026).
_SOURCES = {
    r"\S+ does not support tools": "Ollama, its OpenAI format too: ollama#6027, #14795",
    r"No endpoints found that support tool use\..*": "OpenRouter: pydantic-ai#2896, kilocode#9006",
    r"tools is not supported in this model\..*": "OpenAI: flexeval#242, inspect_ai#1290",
    r"\S+ does not support Function Calling\.?": "DeepSeek: spring-ai#2643, AstrBot#2697",
    r"Function calling is not enabled for (?:this model|models/\S+)": "Gemini: litellm#10313",
    r"This model doesn't support tool use\.?": "Bedrock: langchain-aws#447",
    r"Tool calling is not supported for this model": "Perplexity: `sonar`, by its API",
    r"Unsupported param: tools": "llama.cpp and others, by their servers: Qwen#1298",
}
_STATEMENT = re.compile("|".join(f"(?:{text})" for text in _SOURCES), re.IGNORECASE)
_STATUSES = (400, 404, 422, 500, 501)


def states_no_tools(refused: ProviderRefused) -> bool:
    """Report whether a provider states that the model or the server takes no tools."""
    is_statement = _STATEMENT.fullmatch(refused.message.strip()) is not None
    return refused.status in _STATUSES and is_statement
