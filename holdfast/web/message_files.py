"""The files of a run's messages, as pages show them and as they are downloaded.

A picture is shown only if its content is of one of four raster formats and of the type that its
part states; a PDF is only downloaded. Nothing else of a message is sent as a file: a text, SVG and
HTML included, is a text of the page. A response with a file can run no script.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import Response

from holdfast.runtime import attachments
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.log_entry import LogRecord, MessageEntry
from holdfast.schemas.message import FilePart, TextPart
from holdfast.web.pages import address

MAX_PICTURE_BYTES: Final = 260_000
MAX_FILES: Final = 8
_NAME_CHARS: Final = 100
_NO_SCRIPT: Final = {"Content-Security-Policy": "default-src 'none'; sandbox"}


@dataclass(frozen=True)
class PageFile:
    """A file of a message: a picture to show, or a file behind a link."""

    href: str
    text: str
    is_picture: bool


def message_files(record: LogRecord) -> dict[int, FilePart]:
    """Return the files of an entry that a page may send, by the index of their part.

    The type of one in the store is checked when it is sent.
    """
    match record.entry:
        case MessageEntry(message=message) if not isinstance(message.content, str):
            parts = [(n, one) for n, one in enumerate(message.content) if isinstance(one, FilePart)]
            return {n: one for n, one in parts if one.stored or attachments.media_type(one)}
    return {}


def page_files(run_id: str, record: LogRecord) -> Iterator[PageFile]:
    """Yield the first files of an entry."""
    for index, part in [*message_files(record).items()][:MAX_FILES]:
        size_bytes = part.stored.size_bytes if part.stored else attachments.inline_bytes(part)
        name = part.name or f"File {index + 1} of entry {record.n}"
        yield PageFile(
            address("run", run_id, "file", str(record.n), str(index)),
            one_line(name, _NAME_CHARS),
            is_picture=size_bytes <= MAX_PICTURE_BYTES
            and getattr(part, "media_type", "") in attachments.IMAGES,
        )


def file_response(part: FilePart, stored: bytes | None) -> Response:
    """Return a file, `stored` if it is in the store; raises `HTTPException` if of another type."""
    stated = attachments.TEXT if isinstance(part, TextPart) else part.media_type
    encoded = "" if isinstance(part, TextPart) else part.data or ""
    try:
        data = base64.b64decode(encoded) if stored is None else stored
    except ValueError:
        raise HTTPException(404, "This file cannot be read.") from None
    if attachments.content_type(data) != stated:
        raise HTTPException(404, "This file is of another type than its message states.")
    name = quote(attachments.base_name(part.name or ""), safe="", errors="replace")
    kind = "inline" if stated in attachments.IMAGES else "attachment"
    headers = {**_NO_SCRIPT, "Content-Disposition": f"{kind}; filename*=UTF-8''{name}"}
    return Response(data, media_type=stated, headers=headers)
