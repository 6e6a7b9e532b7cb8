"""The provider `bedrock`: Converse and ConverseStream of Amazon Bedrock's runtime.

Sources: the service model `bedrock-runtime` of botocore, and Amazon's guide ("Prompt caching", "Get
validated JSON results from models"; Nova's "Troubleshooting tool calls").

Roles take turns, the user first, and the results of a turn are in one message behind their calls,
so neighbours of one role are joined. Fields that only some models accept are not sent: the status
of a result, and images within it, which follow it as the user's.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

import httpx

from holdfast.providers.answer.part_order import Part
from holdfast.providers.anthropic.format import ASSISTANT, USER, AnthropicFormat, held_schema
from holdfast.providers.base import ProviderRequest
from holdfast.providers.bedrock.answer import BedrockAnswerReader
from holdfast.providers.bedrock.event_stream import EventStreamDecoder
from holdfast.providers.content import encode_json, media_of, request_body, text_of
from holdfast.providers.json_fields import read_object
from holdfast.providers.message_list import joined_messages
from holdfast.providers.tool_schemas import arguments_schema
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.base import sha256
from holdfast.schemas.internal.model_request import Ask, ToolOffer
from holdfast.schemas.message import Content, TextPart

# Of an agent's `options`, the fields of a request, and those of its `inferenceConfig`. All others
# are settings of the model, in `additionalModelRequestFields`.
_TOP_LEVEL = (
    *("additionalModelRequestFields", "additionalModelResponseFieldPaths", "guardrailConfig"),
    *("outputConfig", "performanceConfig", "promptVariables", "requestMetadata", "serviceTier"),
)
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9()\[\]-]+")
_MEDIA_ALONE = "(a message without a text)"
_INFERENCE = ("topP", "stopSequences")
# The first models to take cache marks in messages, instructions and tools; others reject them.
_MARKED_MODELS = "anthropic.claude-"
_MARK = {"type": "default"}
# A conversation with calls is rejected without tools ("The toolConfig field must be defined …"),
# and there is no tool choice `none`.
_TOOL_BLOCKS = (b'{"toolUse":{', b'{"toolResult":{')
_CHOICES: dict[str, Any] = {"auto": None, "none": None, "required": {"any": {}}}
_NO_TOOL = ToolOffer(name="none", description="No tool can be called now.", parameters={})


class BedrockFormat(AnthropicFormat):
    """The format of Converse: the blocks of the Messages API in other words."""

    kind = "bedrock"
    key_header = "authorization"
    fixed_headers: ClassVar[Mapping[str, str]] = {
        "accept": "application/vnd.amazon.eventstream, application/json"
    }
    reserved = ("messages", "system", "toolConfig")
    fetched = ()
    answer_reader = BedrockAnswerReader
    event_decoder = EventStreamDecoder
    title = "Bedrock"
    results_show_media = False

    def url(self, target: EndpointTarget, ask: Ask) -> httpx.URL:
        """Return `BASE/model/NAME/converse-stream`, or `converse` with the option `stream: false`.

        The name of a model may be an ARN.
        """
        streams = ask.model.options.get("stream") is not False
        operation = "converse-stream" if streams else "converse"
        return target.url(f"/model/{target.model_in_path(ask.model.name)}/{operation}")

    def shows_schema(self, ask: Ask, host: str) -> bool:
        """Return false: it depends on the model."""
        return False

    def encode_user(self, content: Content) -> tuple[bytes, ...]:
        """Encode a message of blocks: a document is rejected without a text."""
        if media_of(content) and not text_of(content, lambda _: ""):
            content = [TextPart(text=_MEDIA_ALONE), *media_of(content)]
        return super().encode_user(content)

    def block(self, block: Part) -> Part:
        """Return a block of the Messages API in Converse's words."""
        match block:
            case {"type": "tool_use", "id": call_id, "name": name, "input": arguments}:
                return {"toolUse": {"toolUseId": call_id, "name": name, "input": arguments}}
            case {"type": "tool_result", "tool_use_id": call_id, "content": content}:
                shown = [*map(self.block, content)] or [{"text": "-"}]
                return {"toolResult": {"toolUseId": call_id, "content": shown}}
            case {"type": "thinking", "thinking": thought, "signature": signature}:
                signed = {"text": thought, "signature": signature}
                return {"reasoningContent": {"reasoningText": signed}}
            case {"type": "redacted_thinking", "data": data}:
                return {"reasoningContent": {"redactedContent": data}}
            case {"type": "image", "source": {"media_type": str(kind), "data": data}}:
                return {"image": {"format": kind.removeprefix("image/"), "source": {"bytes": data}}}
            case {"type": "document", "source": {"data": data}}:
                # No two documents of a request have the same name, of few characters.
                title = _NOT_IN_NAMES.sub("-", block.get("title", "document"))[:100]
                name = f"{title} {sha256(data.encode())[:8]}"
                return {"document": {"format": "pdf", "name": name, "source": {"bytes": data}}}
        return {"text": block["text"]}

    def body(self, request: ProviderRequest, host: str) -> bytes:
        """Return the request's body: the messages first, then the settings."""
        ask = request.ask
        options = request.options((*self.reserved, "stream"))
        is_marked = _MARKED_MODELS in ask.model.name and bool(request.cache_key)
        point = options.pop("cachePoint", _MARK if is_marked else None)
        mark = [{"cachePoint": point}] if point is not None else []
        top_level = {name: options.pop(name) for name in _TOP_LEVEL if name in options}
        limits = {
            "maxTokens": ask.model.max_output_tokens,
            "temperature": ask.model.temperature,
            **read_object(options.pop("inferenceConfig", None)),
            **{name: options.pop(name) for name in _INFERENCE if name in options},
        }
        own = read_object(top_level.pop("additionalModelRequestFields", None)) | options
        output = read_object(top_level.pop("outputConfig", None))
        if (schema := held_schema(ask)) is not None:
            structure = {"jsonSchema": {"name": "output", "schema": json.dumps(schema)}}
            output = {"textFormat": {"type": "json_schema", "structure": structure}} | output
        system = _texts(ask.instructions)
        settings = {
            "system": [*system, *mark] if system else None,
            "inferenceConfig": {name: each for name, each in limits.items() if each is not None},
            "toolConfig": _tool_config(request, mark),
            "outputConfig": output or None,
            "additionalModelRequestFields": own or None,
            **top_level,
        }
        marks = (b"," + encode_json(mark)[1:-1], b"]}") if mark else ()
        return request_body(joined_messages(request, (USER, ASSISTANT), _texts, *marks), settings)


def _texts(text: str) -> list[Part]:
    return [{"text": text}] if text.strip() else []


def _tool_config(request: ProviderRequest, mark: list[Part]) -> dict[str, Any] | None:
    offered = [] if request.ask.tool_choice == "none" else request.ask.tools
    if not offered:
        has_calls = any(block in each for each in request.fragments for block in _TOOL_BLOCKS)
        offered = [_NO_TOOL] if has_calls else []
    if not offered:
        return None
    specs = request.tool_names.declare(offered, "inputSchema", _accepted)
    forced = request.tool_choice(_CHOICES, lambda name: {"tool": {"name": name}})
    chosen = {"toolChoice": forced} if forced and request.ask.tools else {}
    return {"tools": [*({"toolSpec": spec} for spec in specs), *mark], **chosen}


def _accepted(schema: Part, description: str) -> tuple[Part, str]:
    parameters, described = arguments_schema("bedrock", schema, description)
    return {"json": parameters}, described
