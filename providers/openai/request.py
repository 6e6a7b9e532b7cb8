"""Chat completions, on the way there: messages, tools and settings as the format has them.

A message is encoded once. The body is put together from the bytes of the messages, which stand in
it first, so that the body of one turn begins like that of the turn before.
"""

import json
from typing import Any

from holdfast.providers.base import EncodedMessage, ProviderRequest, ToolNames
from holdfast.providers.content import (
    encode_json,
    images_introduction,
    images_of,
    is_orphan_result,
    parts_of,
    request_body,
    text_of,
)
from holdfast.providers.message_list import list_messages
from holdfast.providers.openai.answer import REASONING
from holdfast.providers.openai.schema import fits_strict_mode
from holdfast.schemas.agent import Forced, ToolChoice
from holdfast.schemas.internal.model_request import Ask, ToolOffer
from holdfast.schemas.message import AskedCall, ChatMessage, Content, ImagePart

# What the engine alone decides; `options` can change anything else.
RESERVED = ("messages", "tools", "stream")
# Newer names that only OpenAI's own servers are known to take, its own and those at Azure.
_OWN_HOSTS = ("api.openai.com", ".openai.azure.com")
# Those that look for what they have cached where others with the same key were answered. Mistral's
# looks nowhere without one ("Prompt caching" in OpenAI's guides, and in Mistral's).
_KEY_HOSTS = (*_OWN_HOSTS, "api.mistral.ai")
_LENGTH_OPTIONS = ("max_tokens", "max_completion_tokens")
_UNSAID = "OpenAI cannot hold an answer to so large a schema: it is only checked by it"


def encode(message: ChatMessage, names: ToolNames) -> EncodedMessage:
    """The message. Pictures have a place in what a user says alone, so those of any other message
    follow it as one of the user's."""
    pictures = _pictures(message.content)
    if message.role == "user" or is_orphan_result(message):
        return EncodedMessage(fragments=(encode_json(_user(message.content)),))
    now = encode_json(_other(message, names))
    if not pictures:
        return EncodedMessage(fragments=(now,))
    introduction = {"type": "text", "text": images_introduction(message, names)}
    return EncodedMessage(
        (now,), (encode_json({"role": "user", "content": [introduction, *pictures]}),)
    )


def body(request: ProviderRequest, host: str) -> bytes:
    """The body of the request to the server at `host`."""
    ask = request.ask
    settings = _settings(ask, request.tool_names, host)
    if host.endswith(_KEY_HOSTS):
        settings["prompt_cache_key"] = request.cache_key or None
    settings |= request.options(RESERVED)
    return request_body(list_messages(request), settings)


def is_own(host: str) -> bool:
    """Whether OpenAI's own models are served there."""
    return host.endswith(_OWN_HOSTS)


def unsaid(ask: Ask) -> list[str]:
    """That an answer is not held to its schema, where all depends on that and it is too large."""
    is_loose = (
        isinstance(ask.output, dict) and not ask.output_told and not fits_strict_mode(ask.output)
    )
    return [_UNSAID] if is_loose else []


def _settings(ask: Ask, names: ToolNames, host: str) -> dict[str, Any]:
    length = _LENGTH_OPTIONS[is_own(host)]
    own_length = any(name in ask.model.options for name in _LENGTH_OPTIONS)
    return {
        "model": ask.model.name,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": ask.model.temperature,
        length: None if own_length else ask.model.max_output_tokens,
        "tools": [_tool(tool, names) for tool in ask.tools] or None,
        "tool_choice": _choice(ask.tool_choice, names) if ask.tools else None,
        "response_format": _format(ask.output),
    }


def _tool(tool: ToolOffer, names: ToolNames) -> dict[str, Any]:
    function: dict[str, Any] = {"name": names.to_provider(tool.name), "parameters": tool.parameters}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice, names: ToolNames) -> Any:
    if isinstance(choice, Forced):
        return {"type": "function", "function": {"name": names.to_provider(choice.name)}}
    return choice


def _format(output: dict[str, Any] | bool | None) -> dict[str, Any] | None:
    if isinstance(output, dict):
        schema = {"name": "output", "schema": output, "strict": fits_strict_mode(output)}
        return {"type": "json_schema", "json_schema": schema}
    return {"type": "json_object"} if output else None


def _user(content: Content) -> dict[str, Any]:
    if not images_of(content):
        return {"role": "user", "content": text_of(content)}
    return {"role": "user", "content": parts_of(content, _texts, _picture)}


def _texts(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def _other(message: ChatMessage, names: ToolNames) -> dict[str, Any]:
    said: dict[str, Any] = {"role": message.role, "content": text_of(message.content)}
    if message.role == "tool":
        said["tool_call_id"] = message.provider_id or message.call_id
    if message.role == "assistant":
        said |= _thoughts(message.provider_data)
    if message.role == "assistant" and message.calls:
        said["content"] = said["content"] or None
        said["tool_calls"] = [_call(call, names) for call in message.calls]
    return said


def _thoughts(provider_data: Any) -> dict[str, str]:
    """What the model thought, where its server told it."""
    thoughts = provider_data.get(REASONING) if isinstance(provider_data, dict) else None
    return {REASONING: thoughts} if isinstance(thoughts, str) else {}


def _call(call: AskedCall, names: ToolNames) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    function = {"name": names.to_provider(call.tool), "arguments": arguments}
    return {"id": call.provider_id, "type": "function", "function": function}


def _pictures(content: Content) -> list[dict[str, Any]]:
    return [_picture(part) for part in images_of(content)]


def _picture(part: ImagePart) -> dict[str, Any]:
    url = part.url or f"data:{part.media_type};base64,{part.data}"
    return {"type": "image_url", "image_url": {"url": url}}
