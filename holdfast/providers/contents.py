"""The content of messages as texts, images and documents, the same for every provider's format."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError, to_json

from holdfast.schemas.message import (
    ChatMessage,
    Content,
    DataPart,
    DocumentPart,
    ImagePart,
    Media,
    Part,
    TextPart,
)

EMPTY_MESSAGE = "(an empty message)"

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w.=+-]+)*;base64,(.*)", re.DOTALL)

PartT = TypeVar("PartT")


def text_of(
    content: Content, media: Callable[[Media], str] = lambda part: f"({_noun(part)}, which follows)"
) -> str:
    """Return the content as one text, with the text of `media` for each image and document."""
    if isinstance(content, str):
        return content
    texts = parts_of(content, lambda text: [text], media)
    return "\n\n".join(text for text in texts if text)


def parts_of(
    content: Content, texts: Callable[[str], list[PartT]], media: Callable[[Media], PartT]
) -> list[PartT]:
    """Return the content as parts of a format: `texts` of each text, `media` of any other part."""
    if isinstance(content, str):
        return texts(content)
    parts: list[PartT] = []
    for part in content:
        match part:
            case ImagePart() | DocumentPart():
                parts.append(media(part))
            case TextPart():
                parts += texts(part.text if part.name is None else f"{part.name}:\n{part.text}")
            case DataPart():
                value = part.to_json()
                del value["type"]
                parts += texts(json.dumps(value, ensure_ascii=False))
    return parts


def media_of(content: Content) -> list[Media]:
    if isinstance(content, str):
        return []
    return [part for part in content if isinstance(part, Media)]


def inline_data(part: Media) -> tuple[str, str] | None:
    """Return the media type and base64 data of a part in the message, or in its data URL."""
    if part.url is None:
        return part.media_type or "", part.data or ""
    found = _DATA_URL.match(part.url)
    return (found[1], found[2]) if found else None


def data_url(part: Media) -> str:
    return part.url or f"data:{part.media_type};base64,{part.data}"


def file_name(part: DocumentPart) -> str:
    return part.name or "document.pdf"


def unfetched_text(part: Media) -> str:
    """Return the text in place of a part at an address that no request is made to."""
    return f"({_noun(part)} at {part.url}, which was not fetched)"


def unsupported_image_text(media_type: str) -> str:
    return f"(a picture of type {media_type}, which cannot be shown)"


def without_remote_media(message: ChatMessage, fetched: tuple[str, ...]) -> ChatMessage:
    """Replace each image and document by a text if its address begins with none of `fetched`."""

    def shown(part: Part) -> Part:
        if not isinstance(part, Media) or inline_data(part) is not None:
            return part
        is_fetched = (part.url or "").startswith(fetched)
        return part if is_fetched else TextPart(text=unfetched_text(part))

    if isinstance(message.content, str):
        return message
    return message.model_copy(update={"content": [*map(shown, message.content)]})


def _noun(part: Media) -> str:
    return "a picture" if isinstance(part, ImagePart) else "a document"


def system_text(content: Content) -> str:
    """Return a system message within a conversation as text, for formats without such messages."""
    return f"<system>\n{text_of(content)}\n</system>"


def request_body(messages: list[bytes], settings: dict[str, Any], name: str = "messages") -> bytes:
    """Return a body of the messages, under `name`, and then the settings that are not None."""
    fields = [
        b"," + encode_json({key: value})[1:-1]
        for key, value in settings.items()
        if value is not None
    ]
    # Joined at once: a conversation of megabytes is copied once.
    between = [piece for message in messages for piece in (b",", message)][1:]
    return b"".join([b"{", encode_json(name), b":[", *between, b"]", *fields, b"}"])


def encode_json(value: Any) -> bytes:
    """Return the value as JSON in UTF-8."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        # Half a character is no UTF-8, and servers reject the whole request for it.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")
