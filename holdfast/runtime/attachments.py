"""Files as parts of a message: their type is that of their content, whatever their name claims.

A file is an image, a PDF or a text. A text is sent as text and never shown as anything else: of SVG
and HTML, everyone sees the source. Other files are refused by name.
"""

import base64
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.schemas.message import (
    Content,
    DataPart,
    DocumentPart,
    FilePart,
    ImagePart,
    Media,
    Part,
    TextPart,
)
from holdfast.schemas.phrases import quote_value
from holdfast.validation.problems import FixableError

# Of a message's files, in the run's history and in each copy of its log: others are in the store.
MAX_INLINE_BYTES: Final = 1_000_000
DEFAULT_BYTES: Final = {"FILE": 20_000_000, "MESSAGE": 50_000_000}
# Of all of a request to a model, in base64: many messages may name one file.
MAX_REQUEST_BYTES: Final = 150_000_000
MAX_SETTING_BYTES: Final = MAX_REQUEST_BYTES * 3 // 4
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


def most_bytes(what: str) -> int:
    """Return the limit of a `FILE` or of the files of a `MESSAGE`, which is a setting.

    Raises:
        FileError: the setting is no number, or larger than a request to a model can have.
    """
    variable = f"HOLDFAST_MAX_{what}_BYTES"
    text = os.environ.get(variable) or str(DEFAULT_BYTES[what])
    if not re.fullmatch("[1-9][0-9]{0,9}", text) or int(text) > MAX_SETTING_BYTES:
        wrong = f"{variable}: {quote_value(text)} is no number of bytes up to {MAX_SETTING_BYTES}"
        raise FileError(wrong, f"write one, such as {DEFAULT_BYTES[what]}")
    return int(text)


def check_size(name: str, size_bytes: int) -> None:
    """Raise `FileError` if a file is too large."""
    if size_bytes > (most := most_bytes("FILE")):
        raise FileError(f"{base_name(name)} is over {most:,} bytes", "send a smaller file")


def check_sizes(parts: Sequence[Part]) -> None:
    """Raise `FileError` if a file of a message is too large, or all of them together."""
    total_bytes, most = 0, most_bytes("MESSAGE")
    for part in parts:
        if isinstance(part, FilePart):
            size = inline_bytes(part) + (part.stored.size_bytes if part.stored else 0)
            check_size(part.name or part.type, size)
            total_bytes += size
    if total_bytes > most:
        wrong = f"the files have {total_bytes:,} bytes together, over {most:,}"
        raise FileError(wrong, "send fewer at once")


def content_type(data: bytes) -> str | None:
    """Return the media type that the content has; None if it is of no type that a run takes."""
    for known, beginning in _BEGINNINGS.items():
        if re.match(beginning, data, re.DOTALL):
            return known
    try:
        return None if _NO_TEXT.search(data.decode()) else TEXT
    except UnicodeDecodeError:
        return None


def type_of(data: str) -> str | None:
    """Return the media type of a content in base64, as `content_type`; None if it is no base64."""
    try:
        return content_type(base64.b64decode(data, validate=True))
    except ValueError:
        return None


def media_type(part: FilePart) -> str | None:
    """Return the media type of a picture or a document, if that is the one of its content."""
    if isinstance(part, TextPart):
        return None
    found = type_of((part.data or "")[:32])
    return found if found in _BEGINNINGS and found == part.media_type else None


def check_types(content: Content | dict[str, Any] | None, place: str) -> None:
    """Raise `FileError` if a part states another type than that of its content."""
    for index, part in enumerate(content if isinstance(content, list) else ()):
        if isinstance(part, Media) and part.data is not None:
            stated, found = part.media_type, type_of((part.data or "")[:32])
            if stated != found and not _BEGINNINGS.keys().isdisjoint((stated, found)):
                wrong = f"`{place}[{index}]` states another `mediaType` than that of its content"
                raise FileError(wrong, f"state its own, or {_KINDS}")


def base_name(name: str) -> str:
    """Return the name of a file without a path."""
    name = re.split(r"[/\\]", name)[-1][:MAX_NAME_CHARS]
    return name if name.strip(". ") else "file"


def file_part(name: str, data: bytes) -> FilePart:
    """Return a file as a part of a message.

    Raises:
        FileError: it is of another type; the message names it.
    """
    name = base_name(name)
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


def read_file(path: Path) -> FilePart:
    """Read a file as a part of a message; raises `OSError`, and as `file_part` and `check_size`."""
    with path.open("rb") as file:
        data = file.read(most_bytes("FILE") + 1)
    check_size(path.name, len(data))
    return file_part(path.name, data)


def with_files(content: Content | dict[str, Any] | None, files: Sequence[FilePart]) -> list[Part]:
    """Return the content of a message, or an input, with files as the parts of one message."""
    if isinstance(content, dict):
        return [DataPart(kind="input", data=content), *files]
    if isinstance(content, list):
        return [*content, *files]
    return [*([TextPart(text=content)] if content else []), *files]


def inline_bytes(part: Part) -> int:
    """Return the size of the file that a part has in it; 0 of one that has none."""
    if isinstance(part, TextPart):
        return len(part.text.encode()) if part.name and not part.stored else 0
    encoded = (part.data or "") if isinstance(part, FilePart) else ""
    return (len(encoded) - encoded[-2:].count("=")) * 3 // 4
