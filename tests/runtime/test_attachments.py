"""Files of messages: their type is that of their content."""

import base64
from contextlib import nullcontext
from pathlib import Path

import pytest

from holdfast.runtime.attachments import FileError, check_types, file_part, read_file
from holdfast.schemas.message import DocumentPart, ImagePart, Part, TextPart

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "image/jpeg"),
        (b"GIF89a\x01\x00", "image/gif"),
        (b"RIFF\x0a\x00\x00\x00WEBPVP8 ", "image/webp"),
    ],
)
def test_an_image_has_the_type_of_its_content_whatever_its_name(
    data: bytes, media_type: str
) -> None:
    part = file_part("page.html", data)
    encoded = base64.b64encode(data).decode()
    assert part == ImagePart(name="page.html", media_type=media_type, data=encoded)


def test_a_pdf_is_a_document() -> None:
    assert isinstance(file_part("photo.png", b"%PDF-1.7\n\xe2\xe3"), DocumentPart)


@pytest.mark.parametrize("data", [SVG, b"<!doctype html><script>x</script>", "naïve ☕\n".encode()])
def test_svg_html_and_other_text_are_text(data: bytes) -> None:
    assert file_part("photo.png", data) == TextPart(name="photo.png", text=data.decode())


@pytest.mark.parametrize(
    "data",
    [b"\x7fELF\x02\x01", b"PK\x03\x04", b"RIFF\0\0\0\0WAVE", b"\xff\xfe", b"<script>" + PNG],
)
def test_any_other_file_is_refused_by_its_name(data: bytes) -> None:
    with pytest.raises(FileError, match=r"^photo.png is of no type that a run takes; send a PNG"):
        file_part("photo.png", data)


@pytest.mark.parametrize(
    ("stated", "data", "is_refused"),
    [
        ("image/png", base64.b64encode(PNG).decode(), False),
        ("image/jpeg", base64.b64encode(PNG).decode(), True),
        ("image/png", base64.b64encode(SVG).decode(), True),
        ("image/svg+xml", base64.b64encode(PNG).decode(), True),
        ("image/png", "no base64", True),
        # A model may take a type that nothing here knows.
        ("image/heic", base64.b64encode(b"\0\0\0\x18ftypheic").decode(), False),
    ],
)
def test_a_part_has_the_type_that_it_states(stated: str, data: str, *, is_refused: bool) -> None:
    content: list[Part] = [TextPart(text="See:"), ImagePart(media_type=stated, data=data)]
    refused = pytest.raises(FileError, match=r"^`input\[1\]` states another `mediaType`")
    with refused if is_refused else nullcontext():
        check_types(content, "input")


@pytest.mark.parametrize(
    ("name", "shown"), [("../../etc/passwd", "passwd"), ("C:\\x\\a.txt", "a.txt"), ("..", "file")]
)
def test_a_name_has_no_path(name: str, shown: str) -> None:
    assert file_part(name, b"x").name == shown


def test_a_file_is_read_up_to_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A sparse one of 2 GB.
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(2 * 1024**3)
    with pytest.raises(FileError, match=r"large.txt is over 20,000,000 bytes"):
        read_file(tmp_path / "large.txt")
    monkeypatch.setenv("HOLDFAST_MAX_FILE_BYTES", "10")
    with pytest.raises(FileError, match=r"large.txt is over 10 bytes"):
        read_file(tmp_path / "large.txt")
