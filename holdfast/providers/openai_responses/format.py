"""The provider `openai-responses`: the Responses API, of OpenAI or of any compatible server.

Sources: OpenAI's API reference ("Create a model response" and its streaming events), its guides
("Reasoning models", "Conversation state") and the types of its package `openai`.

Nothing is stored at the provider: each request contains the whole conversation. So the model's
reasoning is requested in encrypted form, and sent back in its place among messages and calls.
"""

import json
from collections.abc import Iterator, Mapping
from typing import ClassVar

from holdfast.providers.answer.part_order import Part, in_order
from holdfast.providers.base import SIXTY_FOUR, IdForm, ProviderRequest, ToolNames
from holdfast.providers.contents import (
    data_url,
    encode_json,
    file_name,
    inline_data,
    media_of,
    parts_of,
    request_body,
    text_of,
)
from holdfast.providers.json_fields import read_object
from holdfast.providers.message_list import fragments_with_ids
from holdfast.providers.openai.format import KEY_HOSTS, OWN_HOSTS, OpenAIFormat, response_format
from holdfast.providers.openai_responses.answer import BETWEEN_MESSAGES, OpenAIResponsesAnswerReader
from holdfast.schemas.message import ChatMessage, Content, ImagePart, Media

_REASONING = "reasoning.encrypted_content"


class OpenAIResponsesFormat(OpenAIFormat):
    """The format of the Responses API."""

    kind = "openai-responses"
    path = "/responses"
    reserved = (
        *("input", "instructions", "tools", "stream", "store", "background"),
        *("previous_response_id", "conversation"),
    )
    results_show_media = True
    answer_reader = OpenAIResponsesAnswerReader
    id_forms: ClassVar[Mapping[tuple[str, ...], IdForm]] = {OWN_HOSTS: SIXTY_FOUR}

    def encode_user(self, content: Content) -> tuple[bytes, ...]:
        return (encode_json({"type": "message", "role": "user", "content": _shown(content)}),)

    def encode_other(self, message: ChatMessage, names: ToolNames) -> tuple[bytes, ...]:
        """Encode a message as items: an answer is several, in the order in which it came."""
        match message.role:
            case "assistant":
                items = [*_answer(message, names)]
                # Reasoning is rejected "without its required following item".
                while items and items[-1]["type"] == "reasoning":
                    items.pop()
                return tuple(map(encode_json, items))
            case "tool":
                call_id, output = message.provider_id or message.call_id, _shown(message.content)
                result = {"type": "function_call_output", "call_id": call_id, "output": output}
                return (encode_json(result),)
        system = {"type": "message", "role": message.role, "content": text_of(message.content)}
        return (encode_json(system),)

    def body(self, request: ProviderRequest, host: str) -> bytes:
        """Return the request's body: the items first, then the settings."""
        ask = request.ask
        options = request.options(self.reserved)
        # Without `strict`, a schema that strict mode does not take would be refused.
        loose = {"type": "function", "strict": False}
        tools = [loose | function for function in self.declared_functions(request)]
        choice = request.tool_choice({}, lambda name: {"type": "function", "name": name})
        output = response_format(ask.output)
        # As in chat completions, with fewer braces.
        flat = output and {"type": output["type"], **output.get("json_schema", {})}
        text_settings = {"format": flat} if flat else {}
        settings = {
            "model": ask.model.name,
            "instructions": ask.instructions or None,
            "stream": True,
            "store": False,
            "include": None if request.omits_reasoning else [_REASONING],
            "temperature": ask.model.temperature,
            "max_output_tokens": ask.model.max_output_tokens,
            "tools": tools or None,
            "tool_choice": choice if tools else None,
            **options,
            "text": text_settings | read_object(options.get("text")) or None,
        }
        if host.endswith(KEY_HOSTS):
            settings = {"prompt_cache_key": request.cache_key or None} | settings
        items = list(request.fragments)
        if request.id_form is not None:
            items = [*fragments_with_ids(items, request.id_form)]
        if request.omits_reasoning:
            # The ids of an answer are those of its reasoning, or of nothing that a server knows.
            decoded = [json.loads(item) for item in items]
            kept = (item for item in decoded if item["type"] != "reasoning")
            items = [encode_json({key: each[key] for key in each if key != "id"}) for each in kept]
        tail = self.encode_user(ask.tail) if ask.tail else ()
        return request_body([*items, *tail], settings, "input")


def _shown(content: Content) -> str | list[Part]:
    if not media_of(content):
        return text_of(content)
    return parts_of(content, lambda text: [{"type": "input_text", "text": text}], _media)


def _media(part: Media) -> Part:
    if isinstance(part, ImagePart):
        return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}
    if inline_data(part) is None:
        return {"type": "input_file", "file_url": part.url}
    return {"type": "input_file", "filename": file_name(part), "file_data": data_url(part)}


def _answer(message: ChatMessage, names: ToolNames) -> Iterator[Part]:
    """Yield the items of an answer.

    Reasoning is accepted back with the ids of the items that it led to; other items need none.
    """
    calls: list[Part] = [
        {
            "type": "function_call",
            "call_id": call.provider_id,
            "name": names.to_provider(call.tool),
            "arguments": json.dumps(call.arguments, ensure_ascii=False),
        }
        for call in message.calls
    ]
    for item, part in in_order(message, calls, "call", ("reasoning",)):
        id_of = {"id": item["id"]} if isinstance(item.get("id"), str) else {}
        match item, part:
            case {"type": "reasoning", "summary": list()}, _:
                if isinstance(item.get("encrypted_content"), str) or item.get("content"):
                    yield item
            case _, dict():
                yield part | id_of
            case _, str() if text := part.removeprefix(BETWEEN_MESSAGES):
                output = {"type": "output_text", "text": text, "annotations": []}
                whole = {"status": "completed", "content": [output]} if id_of else {"content": text}
                phase = {"phase": item["phase"]} if isinstance(item.get("phase"), str) else {}
                yield {"type": "message", "role": "assistant", **whole, **id_of, **phase}
