"""The Messages API, on the way there: messages, tools and settings as the format has them.

A message is encoded once. Neighbours of one role are joined, since all results of a turn must
stand in the one message behind their calls, before anything else that a user says.

Anthropic's cache holds what stands before a mark, in the order of tools, instructions, messages,
and is searched at marks alone and 20 blocks before them. So the marks, of which there may be four,
stand on the tools and on the instructions, which are still found when another tool choice or form
of the answer makes it forget the messages; on the end of the conversation; and on its end as it was
at the request before, however many calls were made in between. The state changes and stands behind
the last mark; an automatic mark would stand on it and never be found again.
"""

import re
from itertools import islice
from typing import Any

from holdfast.providers.anthropic.blocks import Block, in_order, texts
from holdfast.providers.anthropic.schema import answer_schema, arguments_schema
from holdfast.providers.base import EncodedMessage, ProviderRequest, ToolNames
from holdfast.providers.content import (
    ANSWER_FIRST,
    encode_json,
    images_introduction,
    images_of,
    inline_image,
    is_orphan_result,
    parts_of,
    request_body,
    system_text,
    text_of,
)
from holdfast.providers.message_merging import merge_neighbours, with_user_first
from holdfast.schemas.agent import Forced, ToolChoice
from holdfast.schemas.internal.model_request import Ask, ToolOffer
from holdfast.schemas.message import AskedCall, ChatMessage, Content, ImagePart

# What the engine alone decides; `options` can change anything else.
RESERVED = ("messages", "system", "tools", "stream")
# The format has no default. This is the most that every model since Claude 3.5 takes.
DEFAULT_OUTPUT_TOKENS = 8_192
PICTURE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")

_USER, _ASSISTANT = (
    encode_json({"role": role, "content": []})[:-2] for role in ("user", "assistant")
)
_CLOSING = b"]}"
_MARK: Block = {"cache_control": {"type": "ephemeral"}}
_UNSAID = "Anthropic cannot hold an answer to the output's schema: it is only checked by it"
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


def encode(message: ChatMessage, names: ToolNames) -> EncodedMessage:
    """The message. An assistant shows no pictures, so they follow as the user's; what a system
    says within a conversation is a user's too, since few models hear it there."""
    match message.role:
        case "assistant":
            return _assistant(message, names)
        case "tool" if not is_orphan_result(message):
            return _message(_USER, [_result(message)])
        case "system":
            return _message(_USER, texts(system_text(message.content)))
        case _:
            return _message(_USER, _blocks(message.content) or texts("(an empty message)"))


def body(request: ProviderRequest) -> bytes:
    """The body of the request."""
    ask = request.ask
    options = request.options(RESERVED)
    is_marked = "cache_control" not in options
    fragments = with_user_first(
        request.fragments, _ASSISTANT, *_message(_USER, texts(ANSWER_FIRST)).fragments
    )
    messages = merge_neighbours(fragments, (_USER, _ASSISTANT), _CLOSING)
    if is_marked:
        messages = _marked(messages)
    tail = _message(_USER, texts(ask.tail or "")).fragments
    settings = _settings(ask, request.tool_names) | options
    settings["output_config"] = _output_config(ask, options)
    settings["system"] = _system(ask.instructions, is_marked)
    if is_marked and settings["tools"]:
        *others, last = settings["tools"]
        settings["tools"] = [*others, last | _MARK]
    end = merge_neighbours([*messages[-1:], *tail], (_USER, _ASSISTANT), _CLOSING)
    return request_body([*messages[:-1], *end], settings)


def unsaid(ask: Ask) -> list[str]:
    """That an answer was not held to the schema of the output, where it could not be."""
    is_unsaid = isinstance(ask.output, dict) and form_of(ask) is None
    return [_UNSAID] if is_unsaid else []


def form_of(ask: Ask) -> dict[str, Any] | None:
    """The schema that the answer is held to. For any JSON there is none."""
    if not isinstance(ask.output, dict):
        return None
    return answer_schema(ask.output, null_is_absent=ask.null_is_absent)


def _message(opening: bytes, blocks: list[Block]) -> EncodedMessage:
    """A message of these blocks, if there are any."""
    inner = encode_json(blocks)[1:-1]
    return EncodedMessage(fragments=(opening + inner + _CLOSING,) if blocks else ())


def _assistant(message: ChatMessage, names: ToolNames) -> EncodedMessage:
    calls = [_call(call, names) for call in message.calls]
    blocks = in_order(message.provider_data, text_of(message.content), calls)
    pictures: list[Block] = []
    if shown := images_of(message.content):
        pictures = texts(images_introduction(message, names)) + [_picture(part) for part in shown]
    return EncodedMessage(
        _message(_ASSISTANT, blocks).fragments, _message(_USER, pictures).fragments
    )


def _result(message: ChatMessage) -> Block:
    result: Block = {
        "type": "tool_result",
        "tool_use_id": _id(message.provider_id or message.call_id or ""),
        "content": _blocks(message.content),
    }
    return result | {"is_error": True} if message.is_error else result


def _call(call: AskedCall, names: ToolNames) -> Block:
    name = names.to_provider(call.tool)
    return {"type": "tool_use", "id": _id(call.provider_id), "name": name, "input": call.arguments}


def _id(provider_id: str) -> str:
    """Ids of other providers may hold what Anthropic's cannot."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", provider_id)


def _blocks(content: Content) -> list[Block]:
    return parts_of(content, texts, _picture)


def _picture(part: ImagePart) -> Block:
    inline = inline_image(part)
    if inline is None:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    media_type, data = inline
    if media_type not in PICTURE_TYPES:
        return {"type": "text", "text": f"(a picture of type {media_type}, which cannot be shown)"}
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _marked(messages: list[bytes]) -> list[bytes]:
    """The messages, those that end this request and the one before it marked for the cache."""
    users = (index for index in reversed(range(len(messages))) if _is_user(messages[index]))
    mark = b"," + encode_json(_MARK)[1:]
    block_end = b"}" + _CLOSING
    marked = list(messages)
    for index in islice(users, 2):
        marked[index] = messages[index].removesuffix(block_end) + mark + _CLOSING
    return marked


def _is_user(message: bytes) -> bool:
    return message.startswith(_USER)


def _system(instructions: str, is_marked: bool) -> list[Block] | None:
    return [block | (_MARK if is_marked else {}) for block in texts(instructions)] or None


def _settings(ask: Ask, names: ToolNames) -> dict[str, Any]:
    thinking = ask.model.options.get("thinking")
    thinking = thinking if isinstance(thinking, dict) else {}
    return {
        "model": ask.model.name,
        "stream": True,
        "max_tokens": ask.model.max_output_tokens or _default_output_tokens(thinking),
        # A model that was told to think takes no temperature.
        "temperature": None
        if thinking.get("type", "disabled") != "disabled"
        else ask.model.temperature,
        "tools": [_tool(tool, names) for tool in ask.tools] or None,
        "tool_choice": _choice(ask.tool_choice, names) if ask.tools else None,
    }


def _default_output_tokens(thinking: dict[str, Any]) -> int:
    """Thoughts count as output, and what they may use must be less than the whole."""
    budget = thinking.get("budget_tokens")
    return DEFAULT_OUTPUT_TOKENS + (budget if isinstance(budget, int) else 0)


def _tool(tool: ToolOffer, names: ToolNames) -> dict[str, Any]:
    schema, description = arguments_schema(tool.parameters, tool.description)
    said = {"name": names.to_provider(tool.name), "input_schema": schema}
    return said | {"description": description} if description else said


def _choice(choice: ToolChoice, names: ToolNames) -> dict[str, Any]:
    if isinstance(choice, Forced):
        return {"type": "tool", "name": names.to_provider(choice.name)}
    return {"type": _CHOICES[choice]}


def _output_config(ask: Ask, options: dict[str, Any]) -> dict[str, Any] | None:
    """The form of the answer beside the agent's own settings."""
    schema = form_of(ask)
    config = {"format": {"type": "json_schema", "schema": schema}} if schema else {}
    own = options.get("output_config")
    return config | (own if isinstance(own, dict) else {}) or None
