"""The provider `ollama`: chats of an Ollama server, one's own or Ollama's.

Sources: Ollama's API reference (`docs/api.md` and docs.ollama.com: chat, errors, tool calling,
vision, structured outputs), and the server's own types (`api/types.go`) where the reference is
silent.
"""

from typing import Any

from holdfast.providers.base import ProviderRequest, ToolNames
from holdfast.providers.content import encode_json, inline_data, media_of, request_body, text_of
from holdfast.providers.json_fields import read_object
from holdfast.providers.message_list import answer_or_result, list_messages
from holdfast.providers.ollama.answer import OllamaAnswerReader
from holdfast.providers.ollama.schema import ollama_schema
from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.agent import ForcedTool
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.message import AskedCall, ChatMessage, Content

# Of an agent's `options`, the top-level fields of a request. All others are settings of the model,
# in the request's own `options`.
_TOP_LEVEL = (
    *("model", "format", "keep_alive", "think"),
    *("truncate", "shift", "logprobs", "top_logprobs"),
)


class OllamaFormat(ProviderFormat):
    """The format of Ollama's chats."""

    kind = "ollama"
    path = "/chat"
    version = "/api"
    reserved = ("messages", "tools", "stream")
    carries = ("image",)
    fetched = ()
    answer_reader = OllamaAnswerReader

    def unsupported_notices(self, ask: Ask) -> list[str]:
        """Return a notice for a tool choice, which Ollama does not have."""
        choice = ask.tool_choice
        if not ask.tools or choice in ("auto", "none"):
            return []
        if isinstance(choice, ForcedTool):
            only = f"only `{choice.name}` was offered"
            return [f"Ollama has no tool choice: {only}"]
        return ["Ollama has no tool choice: the model decides whether to call a tool"]

    def encode_user(self, content: Content) -> tuple[bytes, ...]:
        """Encode a message, its images beside its text."""
        user: dict[str, Any] = {"role": "user", "content": text_of(content, lambda _: "")}
        images = [inline[1] for each in media_of(content) if (inline := inline_data(each))]
        return (encode_json({**user, "images": images} if images else user),)

    def encode_other(self, message: ChatMessage, names: ToolNames) -> tuple[bytes, ...]:
        """Encode a message; the reference requires the reasoning that led to calls with them."""
        reasoning = "thinking" if message.calls else ""
        encoded = answer_or_result(message, names, reasoning, _index_and_arguments)
        if message.role == "tool" and message.tool is not None:
            # Older servers identify a result by tool and position, newer ones by its id as well.
            encoded["tool_name"] = names.to_provider(message.tool)
        return (encode_json(encoded),)

    def body(self, request: ProviderRequest, host: str) -> bytes:
        """Return the request's body: the messages first, then the settings."""
        ask = request.ask
        options = request.options(self.reserved)
        top_level = {name: options.pop(name) for name in _TOP_LEVEL if name in options}
        # A copied request of Ollama's has `options` within ours.
        nested = read_object(options.pop("options", None))
        limits = {"temperature": ask.model.temperature, "num_predict": ask.model.max_output_tokens}
        offered = ask.tools
        if isinstance(ask.tool_choice, ForcedTool):
            # The nearest thing to a tool choice.
            offered = [tool for tool in ask.tools if tool.name == ask.tool_choice.name]
        elif ask.tool_choice == "none":
            offered = []
        tools = request.tool_names.declare(
            offered, "parameters", lambda schema, text: (ollama_schema(schema), text)
        )
        json_mode = "json" if ask.output else None
        settings = {
            "model": ask.model.name,
            "stream": True,
            # By default the server drops what does not fit, without a notice: the oldest messages,
            # and newer servers the middle of the rest, to half the window.
            "truncate": False,
            "shift": False,
            "tools": [{"type": "function", "function": each} for each in tools] or None,
            "format": ask.output if isinstance(ask.output, dict) else json_mode,
            "options": {name: value for name, value in limits.items() if value is not None}
            | nested
            | options,
            **top_level,
        }
        return request_body(list_messages(request), settings)


def _index_and_arguments(index: int, call: AskedCall) -> dict[str, Any]:
    return {"index": index, "arguments": call.arguments}
