"""Files of messages that are too large for history: in the store, each of one run."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pydantic import ValidationError
from temporalio.converter import DataConverter

from holdfast.runtime.attachments import MAX_INLINE_BYTES, FileError, file_part
from holdfast.runtime.data_converter import with_encryption
from holdfast.runtime.storage.folder import FolderStore
from holdfast.runtime.storage.locations import VARIABLE
from holdfast.runtime.storage.run_files import (
    RunFiles,
    delete_files,
    move_files,
    move_files_of_request,
)
from holdfast.runtime.storage.store import LostValueError, StoreError
from holdfast.schemas.base import sha256
from holdfast.schemas.message import (
    Content,
    DataPart,
    FilePart,
    ImagePart,
    Part,
    StoredFile,
    TextPart,
)
from tests.encryption.keys import NEW, ring
from tests.support.process import ROOT

PNG = b"\x89PNG\r\n\x1a\n"
LARGE = PNG + b"\0" * 900_000


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store that the environment names."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def files(root: Path) -> RunFiles:
    return RunFiles(FolderStore(root))


async def accept() -> None:
    """Check nothing about a run."""


async def refuse() -> None:
    raise LookupError("the run")


async def move(run: str, *parts: Part) -> list[Part]:
    [content] = await move_files(DataConverter.default, run, [[*parts]], accept)
    assert isinstance(content, list)
    return content


async def keep(files: RunFiles, run: str, data: bytes = LARGE) -> StoredFile:
    """Store a picture of a run, as its part names it."""
    part = await files.keep(run, file_part("a.png", data))
    assert part.stored is not None
    return part.stored


async def fill(files: RunFiles, *parts: Part) -> Content:
    """What the model of the run `a` reads."""
    return await files.fill("a", [*parts], ("text", "image", "document"))


def place(root: Path, run: str, data: bytes) -> Path:
    return root / "runs" / sha256(run.encode()) / sha256(data)


def named(root: Path) -> list[Path]:
    return [each for each in root.rglob("*") if each.is_file()]


async def test_the_largest_files_are_moved_until_the_others_fit(
    files: RunFiles, root: Path
) -> None:
    small = file_part("small.png", PNG + b"\1" * 300_000)
    content: list[Part] = [TextPart(text="See:"), small, file_part("large.png", LARGE)]
    *kept, moved = await move("a", *content)
    assert kept == content[:2]
    file = StoredFile(sha256=sha256(LARGE), size_bytes=len(LARGE))
    assert moved == ImagePart(name="large.png", media_type="image/png", stored=file)
    assert named(root) == [place(root, "a", LARGE)]
    assert await fill(files, *kept, moved) == content


async def test_files_that_fit_stay_in_history(root: Path) -> None:
    part = file_part("a.png", PNG + b"\0" * (MAX_INLINE_BYTES - len(PNG)))
    assert await move("a", part) == [part]
    assert await move_files(DataConverter.default, "a", ["text", [part]], refuse) == [
        "text",
        [part],
    ]
    assert not root.exists()


async def test_a_request_has_all_its_files_together() -> None:
    part = file_part("a.png", LARGE).to_json()
    other = file_part("b.png", LARGE[:-1]).to_json()
    context: list[dict[str, Any]] = [{"content": "before"}, {"role": "user", "content": [other]}]
    request = {"agent": "clerk", "input": [part], "context": context}
    moved = await move_files_of_request(DataConverter.default, "a", request, accept)
    assert moved["input"][0]["stored"]["sha256"] == sha256(LARGE)
    assert moved["context"] == context
    plain = {"agent": "clerk", "input": {"to": "Ada"}}
    assert await move_files_of_request(DataConverter.default, "a", plain, refuse) is plain


async def test_no_file_is_written_for_a_run_that_must_not_have_it(root: Path) -> None:
    part = file_part("a.png", LARGE)
    with pytest.raises(LookupError, match="the run"):
        await move_files(DataConverter.default, "a", [[part, part]], refuse)
    assert named(root) == []


async def test_a_large_text_keeps_its_beginning_for_people(files: RunFiles) -> None:
    text = "naïve " * 300_000
    content = [file_part("a.txt", text.encode()), DataPart(kind="input", data={})]
    moved, data = await move("a", *content)
    assert isinstance(moved, TextPart)
    assert moved.text == f"{text[:2000]}\n… (2,100,000 bytes)"
    assert await fill(files, moved, data) == content
    other = moved.model_copy(update={"text": "Approve me."})
    with pytest.raises(LostValueError, match=r"the file a.txt of the run: its message has another"):
        await fill(files, other)


async def test_a_run_reads_its_own_files_alone(files: RunFiles) -> None:
    stored = await keep(files, "a")
    assert await files.fetch("a", stored) == LARGE
    with pytest.raises(LostValueError, match=r"has no file runs/.*; put it back from a copy of"):
        await files.fetch("b", stored)


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", f"../../{'0' * 64}", "A" * 64])
def test_a_part_names_no_path(path: str) -> None:
    with pytest.raises(ValidationError):
        StoredFile(sha256=path, size_bytes=1)


async def test_deleting_the_files_of_a_run_leaves_those_of_another(
    files: RunFiles, root: Path
) -> None:
    for run in ("a", "b"):
        await keep(files, run)
    # What a program left that was killed while it wrote.
    (place(root, "a", LARGE).parent / ".half").write_bytes(PNG)
    assert await delete_files(DataConverter.default, ["a", "../b", "never"], accept) == 1
    assert named(root) == [place(root, "b", LARGE)]
    assert not place(root, "a", LARGE).parent.exists()
    with pytest.raises(LookupError, match="the run"):
        await delete_files(DataConverter.default, ["b"], refuse)
    assert named(root) == [place(root, "b", LARGE)]


def test_the_printed_command_deletes_the_files_of_one_run(root: Path) -> None:
    pages = [ROOT / "docs/security/retention.md", ROOT / "holdfast/client/holdfast_client.py"]
    folder = "STORE/runs/$(printf %s RUN | sha256sum | cut -c1-64)"
    assert all(folder in page.read_text() for page in pages)
    for run in ("a", "b"):
        place(root, run, LARGE).parent.mkdir(parents=True)
    command = f"rm -r {folder}".replace("STORE", str(root)).replace("RUN", "a")
    subprocess.run(command, shell=True, check=True)
    assert [each.name for each in (root / "runs").iterdir()] == [sha256(b"b")]


@pytest.mark.parametrize("why", ["No such file or directory", "Not a directory"])
async def test_deleting_in_a_store_that_is_none_is_an_error(root: Path, why: str) -> None:
    if why == "Not a directory":
        root.touch()
    with pytest.raises(StoreError) as refused:
        await delete_files(DataConverter.default, ["a"], accept)
    assert str(refused.value) == (
        f"files cannot be deleted in the store {root}: {why}; name the store that the run's worker"
        " uses, and let the command write there"
    )


async def test_files_that_cannot_be_deleted_are_named(
    files: RunFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keep(files, "a")
    denied = PermissionError(13, "Permission denied")
    monkeypatch.setattr("shutil.rmtree", Mock(side_effect=denied))
    with pytest.raises(
        StoreError, match=r"^files cannot be deleted in the store .*: Permission denied;"
    ):
        await delete_files(DataConverter.default, ["a"], accept)


async def test_deleting_uses_the_store_of_dev_only_if_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    earlier = tmp_path / ".holdfast/temporal.store"
    await keep(RunFiles(FolderStore(earlier)), "a")
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(StoreError, match=r"no store is set here; set HOLDFAST_STORE"):
        await delete_files(DataConverter.default, ["a"], accept)
    assert named(earlier) == [place(earlier, "a", LARGE)]
    monkeypatch.setenv(VARIABLE, str(earlier))
    assert await delete_files(DataConverter.default, ["a"], accept) == 1


@pytest.mark.parametrize(
    ("written", "size_bytes"),
    [(b"\xff" * 10, len(LARGE)), (None, len(LARGE) + 1), (b"", len(LARGE))],
    ids=["no payload", "another size", "empty"],
)
async def test_a_damaged_file_is_named_and_sending_it_again_repairs_it(
    files: RunFiles, root: Path, written: bytes | None, size_bytes: int
) -> None:
    stored = await keep(files, "a")
    lying = stored.model_copy(update={"size_bytes": size_bytes})
    if written is not None:
        place(root, "a", LARGE).write_bytes(written)
    part = ImagePart(name="a.png", media_type="image/png", stored=lying)
    with pytest.raises(LostValueError, match=r"^the file a.png of the run: .* it is damaged; put"):
        await fill(files, part)
    await keep(files, "a")
    assert await files.fetch("a", stored) == LARGE


async def test_a_part_that_names_another_content_is_not_read(files: RunFiles, root: Path) -> None:
    await keep(files, "a")
    other = sha256(b"other")
    place(root, "a", LARGE).rename(place(root, "a", b"other"))
    with pytest.raises(LostValueError, match="it is damaged"):
        await files.fetch("a", StoredFile(sha256=other, size_bytes=len(LARGE)))


async def test_files_are_encrypted_as_other_values_are(root: Path) -> None:
    converter = with_encryption(DataConverter.default, ring(NEW))
    files = RunFiles(FolderStore(root), converter)
    stored = await keep(files, "a")
    assert PNG not in place(root, "a", LARGE).read_bytes()
    assert await files.fetch("a", stored) == LARGE
    keyless = replace(files, converter=with_encryption(DataConverter.default, None))
    with pytest.raises(LostValueError, match="key"):
        await keyless.fetch("a", stored)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ("a", r"a.png is over 500,000 bytes; send a smaller file"),
        ("bbb", r"the files have 1,200,000 bytes together, over 1,000,000; send fewer"),
        ("c", r"c.png is over 500,000 bytes"),
    ],
    ids=["a file", "a message", "a stored file"],
)
async def test_a_file_and_a_message_have_a_bound(
    root: Path, parts: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = StoredFile(sha256=sha256(b""), size_bytes=10**15)
    known: dict[str, FilePart] = {
        "a": file_part("a.png", LARGE),
        "b": file_part("b.png", PNG + b"\0" * 399_992),
        "c": ImagePart(name="c.png", media_type="image/png", stored=huge),
    }
    monkeypatch.setenv("HOLDFAST_MAX_FILE_BYTES", "500000")
    monkeypatch.setenv("HOLDFAST_MAX_MESSAGE_BYTES", "1000000")
    with pytest.raises(FileError, match=why):
        await move("a", *(known[each] for each in parts))
    assert not root.exists()


@pytest.mark.parametrize("text", ["20 MB", "-1", "0", "1e9"])
async def test_a_bound_that_is_no_number_is_named(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_MAX_FILE_BYTES", text)
    with pytest.raises(FileError, match=r"^HOLDFAST_MAX_FILE_BYTES: .* is no number of bytes"):
        await move("a", file_part("a.png", PNG))


@pytest.mark.parametrize("what", ["FILE", "MESSAGE"])
async def test_a_bound_above_what_a_request_can_have_is_refused(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = file_part("a.png", PNG)
    monkeypatch.setenv(f"HOLDFAST_MAX_{what}_BYTES", "112500000")
    assert await move("a", part) == [part]
    monkeypatch.setenv(f"HOLDFAST_MAX_{what}_BYTES", "112500001")
    with pytest.raises(FileError) as refused:
        await move("a", part)
    assert str(refused.value).startswith(
        f"HOLDFAST_MAX_{what}_BYTES: `112500001` is no number of bytes up to 112500000; write one,"
    )


async def test_without_a_store_the_line_names_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(FileError) as refused:
        await move("a", file_part("a.png", LARGE), file_part("b.png", LARGE))
    assert str(refused.value) == (
        "the files have 1,800,016 bytes together, over 1,000,000, and no store is set; set"
        " HOLDFAST_STORE to the `--store` of the run's worker, or send fewer"
    )
    with pytest.raises(
        StoreError, match=r"no store is set here; set HOLDFAST_STORE .*, or to none"
    ):
        await delete_files(DataConverter.default, ["a"], accept)
    monkeypatch.setenv(VARIABLE, "none")
    assert await delete_files(DataConverter.default, ["a"], refuse) == 0


async def test_content_that_is_no_base64_is_refused_by_its_name(files: RunFiles) -> None:
    part = ImagePart(name="a.png", media_type="image/png", data="A" * 1_500_001)
    with pytest.raises(FileError, match=r"a.png cannot be read; send its bytes in base64"):
        await move("a", part)
