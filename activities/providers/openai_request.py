"""Chat completions, on the way there: messages, tools and settings as the format has them.

A message is encoded once. The body is put together from the bytes of the messages, which stand in
it first, so that the body of one turn begins like that of the turn before.
"""

import json
from collections.abc import Iterable
from typing import Any

from activities.providers.base import Encoded, Request, ToolNames
from schemas.agent import Forced, ToolChoice
from schemas.generate import Ask, ToolOffer
from schemas.message import AskedCall, ChatMessage, Content, DataPart, ImagePart, TextPart

# What the engine alone decides; `options` can change anything else.
RESERVED = ("messages", "tools", "stream")
# Newer names that only OpenAI's own server is known to take.
_OWN_HOST = "api.openai.com"
_LENGTH_OPTIONS = ("max_tokens", "max_completion_tokens")


def encode(message: ChatMessage, names: ToolNames) -> Encoded:
    """The message. Pictures have a place in what a user says alone, so those of any other message
    follow it as one of the user's."""
    pictures = _pictures(message.content)
    if message.role == "user" or _is_orphan(message):
        return Encoded(now=(_json(_user(message.content)),))
    now = _json(_other(message, names))
    if not pictures:
        return Encoded(now=(now,))
    of = f"the result of {names.sent(message.tool)}" if message.tool else "the message above"
    introduction = {"type": "text", "text": f"The pictures of {of}:"}
    return Encoded((now,), (_json({"role": "user", "content": [introduction, *pictures]}),))


def body(request: Request, host: str) -> bytes:
    """The body of the request to the server at `host`."""
    ask = request.ask
    messages = [
        *_said("system", ask.instructions),
        *request.fragments,
        *_said("user", ask.tail),
    ]
    options = {name: value for name, value in ask.model.options.items() if name not in RESERVED}
    settings = {**_settings(ask, request.names, host), **options}
    kept = {name: value for name, value in settings.items() if value is not None}
    return b'{"messages":[' + b",".join(messages) + b"]," + _json(kept)[1:]


def ignored_options(ask: Ask) -> list[str]:
    """A notice for each option that is not the agent's to set."""
    return [
        f"the option `{name}` was left out of the request: it is the engine's own"
        for name in RESERVED
        if name in ask.model.options
    ]


def _settings(ask: Ask, names: ToolNames, host: str) -> dict[str, Any]:
    length = _LENGTH_OPTIONS[host == _OWN_HOST]
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
    function: dict[str, Any] = {"name": names.sent(tool.name), "parameters": tool.parameters}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice, names: ToolNames) -> Any:
    if isinstance(choice, Forced):
        return {"type": "function", "function": {"name": names.sent(choice.name)}}
    return choice


def _format(output: dict[str, Any] | bool | None) -> dict[str, Any] | None:
    if isinstance(output, dict):
        schema = {"name": "output", "schema": output, "strict": False}
        return {"type": "json_schema", "json_schema": schema}
    return {"type": "json_object"} if output else None


def _said(role: str, text: str | None) -> list[bytes]:
    return [_json({"role": role, "content": text})] if text else []


def _is_orphan(message: ChatMessage) -> bool:
    """Whether this is the result of a call that no request has made: the format has no such."""
    return message.role == "tool" and not (message.provider_id or message.call_id)


def _user(content: Content) -> dict[str, Any]:
    if isinstance(content, str) or not _pictures(content):
        return {"role": "user", "content": _text(content)}
    return {"role": "user", "content": [_part(part) for part in content]}


def _part(part: TextPart | ImagePart | DataPart) -> dict[str, Any]:
    if isinstance(part, ImagePart):
        return _picture(part)
    return {"type": "text", "text": _part_text(part)}


def _other(message: ChatMessage, names: ToolNames) -> dict[str, Any]:
    said: dict[str, Any] = {"role": message.role, "content": _text(message.content)}
    if message.role == "tool":
        said["tool_call_id"] = message.provider_id or message.call_id
    if message.role == "assistant" and message.calls:
        said["content"] = said["content"] or None
        said["tool_calls"] = [_call(call, names) for call in message.calls]
    return said


def _call(call: AskedCall, names: ToolNames) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    function = {"name": names.sent(call.tool), "arguments": arguments}
    return {"id": call.provider_id, "type": "function", "function": function}


def _text(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(text for part in content if (text := _part_text(part)))


def _part_text(part: TextPart | ImagePart | DataPart) -> str:
    match part:
        case TextPart():
            return part.text
        case DataPart():
            value = part.to_json()
            del value["type"]
            return json.dumps(value, ensure_ascii=False)
        case ImagePart():
            return "(a picture, which follows)"


def _pictures(content: Content) -> list[dict[str, Any]]:
    parts: Iterable[Any] = content if not isinstance(content, str) else ()
    return [_picture(part) for part in parts if isinstance(part, ImagePart)]


def _picture(part: ImagePart) -> dict[str, Any]:
    url = part.url or f"data:{part.media_type};base64,{part.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _json(value: Any) -> bytes:
    # Half a character is no UTF-8, and servers refuse the whole request for it.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
