"""Files as parts of a message: their type is that of their content, whatever their name claims.

A file is an image, a PDF or a text. A text is sent as text and never shown as anything else: of SVG
and HTML, everyone sees the source. Other files are refused by name.
"""

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.schemas.message import (
    Content,
    DataPart,
    DocumentPart,
    ImagePart,
    Media,
    Part,
    TextPart,
)
from holdfast.validation.problems import FixableError

# They are in the run's history, and again in each copy of its log.
MAX_MESSAGE_BYTES: Final = 1_000_000
MAX_NAME_CHARS: Final = 200
IMAGES: Final = {
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/jpeg": rb"\xff\xd8\xff",
    "image/gif": rb"GIF8[79]a",
    "image/webp": rb"RIFF....WEBP",
}
PDF: Final = "application/pdf"
TEXT: Final = "text/plain"
_BEGINNINGS = {**IMAGES, PDF: rb"%PDF-"}
_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_KINDS = "send a PNG, JPEG, GIF or WebP image, a PDF, or a text in UTF-8"


class FileError(FixableError):
    """A file that no message takes: it is too large, or of another type."""


def content_type(data: bytes) -> str | None:
    """Return the media type that the content has; None if it is of no type that a run takes."""
    for known, beginning in _BEGINNINGS.items():
        if re.match(beginning, data, re.DOTALL):
            return known
    try:
        return None if _NO_TEXT.search(data.decode()) else TEXT
    except UnicodeDecodeError:
        return None


def _type_of_data(part: Media) -> str | None:
    try:
        return content_type(base64.b64decode((part.data or "")[:32], validate=True))
    except ValueError:
        return None


def media_type(part: Media) -> str | None:
    """Return the media type of a part, if that is the one of its content."""
    found = _type_of_data(part)
    return found if found in _BEGINNINGS and found == part.media_type else None


def check_types(content: Content | dict[str, Any] | None, place: str) -> None:
    """Raise `FileError` if a part states another type than that of its content."""
    for index, part in enumerate(content if isinstance(content, list) else ()):
        if isinstance(part, Media) and part.data is not None:
            stated, found = part.media_type, _type_of_data(part)
            if stated != found and not _BEGINNINGS.keys().isdisjoint((stated, found)):
                wrong = f"`{place}[{index}]` states another `mediaType` than that of its content"
                raise FileError(wrong, f"state its own, or {_KINDS}")


def base_name(name: str) -> str:
    """Return the name of a file without a path."""
    name = re.split(r"[/\\]", name)[-1][:MAX_NAME_CHARS]
    return name if name.strip(". ") else "file"


def file_part(name: str, data: bytes) -> TextPart | Media:
    """Return a file as a part of a message.

    Raises:
        FileError: it is too large, or of another type; the message names it.
    """
    name = base_name(name)
    if len(data) > MAX_MESSAGE_BYTES:
        raise FileError(f"{name} is over {MAX_MESSAGE_BYTES:,} bytes", "send a smaller file")
    match content_type(data):
        case None:
            raise FileError(f"{name} is of no type that a run takes", _KINDS)
        case "text/plain":
            return TextPart(name=name, text=data.decode().removeprefix("\ufeff"))
        case "application/pdf":
            return DocumentPart(name=name, data=base64.b64encode(data).decode())
        case found:
            encoded = base64.b64encode(data).decode()
            return ImagePart(name=name, media_type=found, data=encoded)


def read_file(path: Path) -> TextPart | Media:
    """Read a file as a part of a message; raises `OSError`, and as `file_part`."""
    with path.open("rb") as file:
        return file_part(path.name, file.read(MAX_MESSAGE_BYTES + 1))


def with_files(
    content: Content | dict[str, Any] | None, files: Sequence[TextPart | Media]
) -> list[Part]:
    """Return the content of a message, or an input, with files as the parts of one message.

    Raises:
        FileError: the files are too large together.
    """
    size_bytes = sum(map(_size_bytes, files))
    if size_bytes > MAX_MESSAGE_BYTES:
        wrong = f"the files have {size_bytes:,} bytes together, over {MAX_MESSAGE_BYTES:,}"
        raise FileError(wrong, "send fewer at once")
    if isinstance(content, dict):
        return [DataPart(kind="input", data=content), *files]
    if isinstance(content, list):
        return [*content, *files]
    return [*([TextPart(text=content)] if content else []), *files]


def _size_bytes(part: TextPart | Media) -> int:
    if isinstance(part, TextPart):
        return len(part.text.encode())
    return len(part.data or "") * 3 // 4
