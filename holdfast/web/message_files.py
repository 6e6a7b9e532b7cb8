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

from holdfast.runtime.attachments import IMAGES, base_name, media_type
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.log_entry import LogRecord, MessageEntry
from holdfast.schemas.message import Media
from holdfast.web.pages import address

MAX_PICTURE_CHARS: Final = 350_000
MAX_FILES: Final = 8
_NAME_CHARS: Final = 100
_NO_SCRIPT: Final = {"Content-Security-Policy": "default-src 'none'; sandbox"}


@dataclass(frozen=True)
class PageFile:
    """A file of a message: a picture to show, or a file behind a link."""

    href: str
    text: str
    is_picture: bool


def message_files(record: LogRecord) -> dict[int, Media]:
    """Return the files of an entry that a page may send, by the index of their part."""
    match record.entry:
        case MessageEntry(message=message) if not isinstance(message.content, str):
            parts = enumerate(message.content)
            return {n: one for n, one in parts if isinstance(one, Media) and media_type(one)}
    return {}


def page_files(run_id: str, record: LogRecord) -> Iterator[PageFile]:
    """Yield the first files of an entry."""
    for index, part in [*message_files(record).items()][:MAX_FILES]:
        is_small = len(part.data or "") <= MAX_PICTURE_CHARS
        name = part.name or f"File {index + 1} of entry {record.n}"
        yield PageFile(
            address("run", run_id, "file", str(record.n), str(index)),
            one_line(name, _NAME_CHARS),
            is_picture=is_small and part.media_type in IMAGES,
        )


def file_response(record: LogRecord, index: int) -> Response:
    """Return a file of an entry; raises `HTTPException` if the entry has none there."""
    part = message_files(record).get(index)
    if part is None:
        raise HTTPException(404, "This file does not exist.")
    try:
        data = base64.b64decode(part.data or "")
    except ValueError:
        raise HTTPException(404, "This file cannot be read.") from None
    name = quote(base_name(part.name or ""), safe="", errors="replace")
    kind = "inline" if part.media_type in IMAGES else "attachment"
    headers = {**_NO_SCRIPT, "Content-Disposition": f"{kind}; filename*=UTF-8''{name}"}
    return Response(data, media_type=part.media_type, headers=headers)
