"""An Ollama chat, on the way there: messages, tools and settings as the format has them.

A message is encoded once. The body is put together from the bytes of the messages, which stand in
it first, so that the body of one turn begins like that of the turn before.
"""

from typing import Any

from holdfast.providers.base import EncodedMessage, ProviderRequest, ToolNames
from holdfast.providers.content import (
    encode_json,
    images_introduction,
    images_of,
    inline_image,
    is_orphan_result,
    request_body,
    text_of,
    unfetched_image_text,
)
from holdfast.providers.message_list import list_messages
from holdfast.providers.ollama.schema import ollama_schema
from holdfast.schemas.agent import Forced
from holdfast.schemas.internal.model_request import Ask, ToolOffer
from holdfast.schemas.message import AskedCall, ChatMessage, Content, ImagePart, TextPart

# What the engine alone decides; `options` can change anything else.
RESERVED = ("messages", "tools", "stream")
# Of an agent's `options`, those that stand at the top of a request. All others are settings of the
# model, and stand in the request's own `options`.
_AT_THE_TOP = (
    *("model", "format", "keep_alive", "think"),
    *("truncate", "shift", "logprobs", "top_logprobs"),
)


def encode(message: ChatMessage, names: ToolNames) -> EncodedMessage:
    """The message. Templates of models look for pictures in what a user says alone, so those of
    any other message follow it as one of the user's."""
    if message.role == "user" or is_orphan_result(message):
        return EncodedMessage(fragments=(encode_json(_user(message.content)),))
    now = encode_json(_other(message, names))
    pictures = images_of(message.content)
    if not pictures:
        return EncodedMessage(fragments=(now,))
    introduction = TextPart(text=images_introduction(message, names))
    return EncodedMessage((now,), (encode_json(_user([introduction, *pictures])),))


def body(request: ProviderRequest) -> bytes:
    """The body of the request."""
    ask = request.ask
    given = request.options(RESERVED)
    top = {name: given.pop(name) for name in _AT_THE_TOP if name in given}
    # Whoever copies a request of Ollama's has its `options` within ours.
    nested = given.pop("options", None)
    settings = {
        "model": ask.model.name,
        "stream": True,
        # By default the server drops what does not fit, and says nothing: the oldest messages, and
        # newer servers the middle of what is left, to half the window.
        "truncate": False,
        "shift": False,
        "tools": [_tool(tool, request.tool_names) for tool in _offered(ask)] or None,
        "format": _format(ask.output),
        "options": _options(ask) | (nested if isinstance(nested, dict) else {}) | given,
        **top,
    }
    return request_body(list_messages(request), settings)


def unsaid(ask: Ask) -> list[str]:
    """What of the tool choice Ollama cannot be told."""
    choice = ask.tool_choice
    if not ask.tools or choice in ("auto", "none"):
        return []
    if isinstance(choice, Forced):
        return [f"Ollama has no tool choice: `{choice.name}` was the only tool that it was offered"]
    return ["Ollama has no tool choice: whether to call a tool was left to the model"]


def _options(ask: Ask) -> dict[str, Any]:
    options = {"temperature": ask.model.temperature, "num_predict": ask.model.max_output_tokens}
    return {name: value for name, value in options.items() if value is not None}


def _offered(ask: Ask) -> list[ToolOffer]:
    """The tools that the model may call now: the nearest thing to a tool choice."""
    if isinstance(ask.tool_choice, Forced):
        return [tool for tool in ask.tools if tool.name == ask.tool_choice.name]
    return [] if ask.tool_choice == "none" else ask.tools


def _tool(tool: ToolOffer, names: ToolNames) -> dict[str, Any]:
    function = {"name": names.to_provider(tool.name), "parameters": ollama_schema(tool.parameters)}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def _format(output: dict[str, Any] | bool | None) -> dict[str, Any] | str | None:
    return output if isinstance(output, dict) else "json" if output else None


def _user(content: Content) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "user", "content": text_of(content, _picture_text)}
    images = [inline[1] for each in images_of(content) if (inline := inline_image(each))]
    return {**said, "images": images} if images else said


def _picture_text(part: ImagePart) -> str:
    """Pictures stand beside the text; none is fetched."""
    return "" if inline_image(part) else unfetched_image_text(part)


def _other(message: ChatMessage, names: ToolNames) -> dict[str, Any]:
    said: dict[str, Any] = {"role": message.role, "content": text_of(message.content)}
    if message.role == "tool":
        # Older servers know a result by its tool and its place, newer ones by its id as well.
        said["tool_call_id"] = message.provider_id or message.call_id
        if message.tool is not None:
            said["tool_name"] = names.to_provider(message.tool)
    if message.role == "assistant" and message.calls:
        said |= _thinking(message.provider_data)
        said["tool_calls"] = [_call(*numbered, names) for numbered in enumerate(message.calls)]
    return said


def _thinking(provider_data: Any) -> dict[str, str]:
    """The thoughts that led to the calls, which the reference asks to be sent back with them."""
    thinking = provider_data.get("thinking") if isinstance(provider_data, dict) else None
    return {"thinking": thinking} if isinstance(thinking, str) else {}


def _call(index: int, call: AskedCall, names: ToolNames) -> dict[str, Any]:
    function = {"index": index, "name": names.to_provider(call.tool), "arguments": call.arguments}
    return {"id": call.provider_id, "type": "function", "function": function}
