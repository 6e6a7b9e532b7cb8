"""What a message holds, as texts and pictures: the same for every provider's format."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError, to_json

from holdfast.providers.base import ToolNames
from holdfast.schemas.message import ChatMessage, Content, DataPart, ImagePart, TextPart

# What a user says first where an answer would, which some formats and models do not take.
ANSWER_FIRST = "(the conversation begins with an answer)"

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w.=+-]+)*;base64,(.*)", re.DOTALL)

Said = TypeVar("Said")


def picture_follows(_: ImagePart) -> str:
    """What stands in a text in the place of a picture that is shown behind it."""
    return "(a picture, which follows)"


def text_of(content: Content, picture: Callable[[ImagePart], str] = picture_follows) -> str:
    """The content as one text, with what `picture` says in the place of each picture."""
    if isinstance(content, str):
        return content
    texts = parts_of(content, lambda text: [text], picture)
    return "\n\n".join(text for text in texts if text)


def text_of_part(part: TextPart | DataPart) -> str:
    """One part as a text."""
    match part:
        case TextPart():
            return part.text
        case DataPart():
            value = part.to_json()
            del value["type"]
            return json.dumps(value, ensure_ascii=False)


def parts_of(
    content: Content,
    texts: Callable[[str], list[Said]],
    picture: Callable[[ImagePart], Said],
) -> list[Said]:
    """The content as parts of a format, which has `texts` and a `picture` for each of ours."""
    if isinstance(content, str):
        return texts(content)
    return [
        said
        for part in content
        for said in ([picture(part)] if isinstance(part, ImagePart) else texts(text_of_part(part)))
    ]


def images_of(content: Content) -> list[ImagePart]:
    """The pictures of the content, in order."""
    parts: Iterable[Any] = content if not isinstance(content, str) else ()
    return [part for part in parts if isinstance(part, ImagePart)]


def inline_image(part: ImagePart) -> tuple[str, str] | None:
    """The media type and the base64 data of a picture, where these are in the message: its
    address may be one that holds them."""
    if part.url is None:
        return part.media_type or "", part.data or ""
    found = _DATA_URL.match(part.url)
    return (found[1], found[2]) if found else None


def unfetched_image_text(part: ImagePart) -> str:
    """What is said in the place of a picture that stands at an address which is not asked."""
    return f"(a picture at {part.url}, which was not fetched)"


def without_remote_images(message: ChatMessage, fetched: tuple[str, ...]) -> ChatMessage:
    """The message, with a text in the place of each picture at an address that begins with none of
    these."""
    content = message.content
    if isinstance(content, str) or not any(_is_elsewhere(part, fetched) for part in content):
        return message
    kept = [
        TextPart(text=unfetched_image_text(part))
        if isinstance(part, ImagePart) and _is_elsewhere(part, fetched)
        else part
        for part in content
    ]
    return message.model_copy(update={"content": kept})


def _is_elsewhere(part: TextPart | ImagePart | DataPart, fetched: tuple[str, ...]) -> bool:
    if not isinstance(part, ImagePart) or inline_image(part) is not None:
        return False
    return not (part.url or "").startswith(fetched)


def images_introduction(message: ChatMessage, names: ToolNames) -> str:
    """What introduces the pictures of a message where its format has no place for them."""
    of = f"the result of {names.to_provider(message.tool)}" if message.tool else "the message above"
    return f"The pictures of {of}:"


def system_text(content: Content) -> str:
    """What a system says within a conversation, where the format has no place for it."""
    return f"<system>\n{text_of(content)}\n</system>"


def is_orphan_result(message: ChatMessage) -> bool:
    """Whether this is the result of a call that no request has made: formats have no such."""
    return message.role == "tool" and not (message.provider_id or message.call_id)


def request_body(messages: list[bytes], settings: dict[str, Any], name: str = "messages") -> bytes:
    """A body of the messages, under `name`, and behind them those settings that are not None."""
    given = {key: value for key, value in settings.items() if value is not None}
    kept = [b"," + encode_json({key: value})[1:-1] for key, value in given.items()]
    # Put together at once: a conversation of megabytes is copied once.
    between = [piece for message in messages for piece in (b",", message)][1:]
    return b"".join([b"{", encode_json(name), b":[", *between, b"]", *kept, b"}"])


def encode_json(value: Any) -> bytes:
    """The value as JSON in UTF-8."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        # Half a character is no UTF-8, and servers refuse the whole request for it.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")
