"""The Gemini API, on the way there: contents, tools and settings as the format has them.

A message is encoded once. Neighbours of one role are joined, since all results of a turn must
stand in one content behind their calls, in the order of these ("Function calling").
"""

from typing import Any

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
    unfetched_image_text,
)
from holdfast.providers.gemini.parts import Part, in_order
from holdfast.providers.gemini.schema import gemini_schema
from holdfast.providers.message_merging import merge_neighbours, with_user_first
from holdfast.schemas.agent import Forced, ToolChoice
from holdfast.schemas.internal.model_request import Ask, ToolOffer
from holdfast.schemas.message import AskedCall, ChatMessage, Content, ImagePart

# What the engine alone decides; `options` can change anything else.
RESERVED = ("contents", "systemInstruction", "tools")
# Of an agent's `options`, those that stand at the top of a request. All others are settings of the
# model, and stand in the request's `generationConfig`.
_AT_THE_TOP = ("safetySettings", "cachedContent", "serviceTier", "store", "labels")
# "Image understanding", "Supported image formats"; any other makes the whole request a bad one.
PICTURE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
_ENDINGS = {each.removeprefix("image/"): each for each in PICTURE_TYPES} | {"jpg": "image/jpeg"}
# What Gemini fetches ("File input methods").
_FETCHED = ("https://", "gs://")

_USER, _MODEL = (encode_json({"role": role, "parts": []})[:-2] for role in ("user", "model"))
_CLOSING = b"]}"
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_UNSAID = "Gemini cannot hold an answer to a form while it is offered tools: it is only checked"


def encode(message: ChatMessage, names: ToolNames) -> EncodedMessage:
    """The message. Newer models alone take pictures within a result, and none takes them within
    an answer, so those of any message but the user's follow it as the user's. What a system says
    within a conversation is a user's too: a content is of the user or of the model."""
    match message.role:
        case "assistant":
            calls = [_call(call, names) for call in message.calls]
            parts = in_order(message.provider_data, text_of(message.content), calls)
            return _with_pictures(_content(_MODEL, parts), message, names)
        case "tool" if not is_orphan_result(message):
            return _with_pictures(_content(_USER, [_result(message, names)]), message, names)
        case "system":
            return EncodedMessage(_content(_USER, _texts(system_text(message.content))))
        case _:
            return EncodedMessage(
                _content(_USER, _parts(message.content) or _texts("(an empty message)"))
            )


def body(request: ProviderRequest) -> bytes:
    """The body of the request."""
    ask, names = request.ask, request.tool_names
    given = request.options(RESERVED)
    top = {name: given.pop(name) for name in _AT_THE_TOP if name in given}
    # Whoever copies a request of Gemini's has its settings within these.
    nested = _object(given.pop("generationConfig", None))
    tool_config = _object(given.pop("toolConfig", None))
    tools = [_tool(tool, names) for tool in _offered(ask)]
    choice = _tool_config(ask.tool_choice, names) if tools else {}
    settings = {
        "systemInstruction": {"parts": _texts(ask.instructions)} if ask.instructions else None,
        "tools": [{"functionDeclarations": tools}] if tools else None,
        "toolConfig": choice | tool_config or None,
        "generationConfig": _config(ask) | nested | given or None,
        **top,
    }
    fragments = with_user_first(request.fragments, _MODEL, *_content(_USER, _texts(ANSWER_FIRST)))
    contents = [*fragments, *_content(_USER, _texts(ask.tail or ""))]
    return request_body(merge_neighbours(contents, (_USER, _MODEL), _CLOSING), settings, "contents")


def unsaid(ask: Ask) -> list[str]:
    """That an answer was not held to its form, where tools were offered as well."""
    return [_UNSAID] if _wants_form(ask) and _offered(ask) else []


def _content(opening: bytes, parts: list[Part]) -> tuple[bytes, ...]:
    """A content of these parts, if there are any: none may be empty."""
    return (opening + encode_json(parts)[1:-1] + _CLOSING,) if parts else ()


def _with_pictures(
    now: tuple[bytes, ...], message: ChatMessage, names: ToolNames
) -> EncodedMessage:
    pictures = [_picture(part) for part in images_of(message.content)]
    introduction = _texts(images_introduction(message, names))
    return EncodedMessage(now, _content(_USER, [*introduction, *pictures]) if pictures else ())


def _texts(text: str) -> list[Part]:
    return [{"text": text}] if text else []


def _parts(content: Content) -> list[Part]:
    return parts_of(content, _texts, _picture)


def _picture(part: ImagePart) -> Part:
    """A picture; where it cannot be shown, a text that says so."""
    inline = inline_image(part)
    if inline is None:
        return _at_address(part)
    media_type, data = inline
    if media_type not in PICTURE_TYPES:
        return {"text": f"(a picture of type {media_type}, which cannot be shown)"}
    return {"inlineData": {"mimeType": media_type, "data": data}}


def _at_address(part: ImagePart) -> Part:
    url = part.url or ""
    if not url.startswith(_FETCHED):
        return {"text": unfetched_image_text(part)}
    ending = url.partition("?")[0].rpartition(".")[2].lower()
    media_type = part.media_type or _ENDINGS.get(ending)
    return {"fileData": {"fileUri": url} | ({"mimeType": media_type} if media_type else {})}


def _call(call: AskedCall, names: ToolNames) -> Part:
    named = {"name": names.to_provider(call.tool), "args": call.arguments}
    return {"functionCall": _identified(named, call.id, call.provider_id)}


def _result(message: ChatMessage, names: ToolNames) -> Part:
    key = "error" if message.is_error else "output"
    named = {
        "name": names.to_provider(message.tool or ""),
        "response": {key: text_of(message.content)},
    }
    return {"functionResponse": _identified(named, message.call_id, message.provider_id)}


def _identified(named: Part, own: str | None, given: str | None) -> Part:
    """A call or its result with the id that Gemini gave it. Newer models want it back; older ones
    give none, and know a result by its place."""
    return named | {"id": given} if given and given != own else named


def _tool(tool: ToolOffer, names: ToolNames) -> dict[str, Any]:
    declared: dict[str, Any] = {"name": names.to_provider(tool.name)}
    if tool.description:
        declared["description"] = tool.description
    # A function without parameters has none; an object without properties is not taken everywhere.
    if set(tool.parameters) - {"type", "properties"} or tool.parameters.get("properties"):
        declared["parametersJsonSchema"] = gemini_schema(tool.parameters)
    return declared


def _offered(ask: Ask) -> list[ToolOffer]:
    """The tools of the request. Before Gemini 3, a request with tools and a form is refused; one
    in which no tool may be called says the same without them."""
    return [] if _wants_form(ask) and ask.tool_choice == "none" else ask.tools


def _wants_form(ask: Ask) -> bool:
    return ask.output is not None and ask.output is not False


def _tool_config(choice: ToolChoice, names: ToolNames) -> dict[str, Any]:
    if isinstance(choice, Forced):
        calling = {"mode": "ANY", "allowedFunctionNames": [names.to_provider(choice.name)]}
        return {"functionCallingConfig": calling}
    return {"functionCallingConfig": {"mode": _MODES[choice]}}


def _config(ask: Ask) -> dict[str, Any]:
    is_formed = _wants_form(ask) and not _offered(ask)
    config = {
        "temperature": ask.model.temperature,
        "maxOutputTokens": ask.model.max_output_tokens,
        "responseMimeType": "application/json" if is_formed else None,
        "responseJsonSchema": gemini_schema(ask.output)
        if is_formed and ask.output is not True
        else None,
    }
    return {name: value for name, value in config.items() if value is not None}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
