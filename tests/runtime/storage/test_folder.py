"""A store in a folder: each thing once, whole, and under its own digest."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.storage.folder import FolderStore
from holdfast.runtime.storage.store import StoreError

PAGE = b"a page of a log" * 1_000
DIGEST = hashlib.sha256(PAGE).hexdigest()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def file(root: Path) -> Path:
    """Where the page is stored."""
    return root / DIGEST[:2] / DIGEST


@pytest.fixture
def store(root: Path) -> FolderStore:
    made = FolderStore(root)
    made.open()
    return made


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


async def test_a_page_is_stored_once_and_then_as_good_as_new(
    store: FolderStore, root: Path, file: Path
) -> None:
    assert await store.keep(PAGE) == DIGEST
    assert await store.fetch(DIGEST) == PAGE
    os.utime(file, (0, 0))
    before = file.stat().st_ino
    assert await store.keep(PAGE) == DIGEST
    assert file.stat().st_ino == before, "it was not written again"
    assert file.stat().st_mtime > 0, "it is not deleted as something old"
    assert files(root) == [file]


@pytest.mark.parametrize(
    ("given", "modes"),
    [(None, (0o700, 0o600)), (0o755, (0o700, 0o600)), (0o770, (0o750, 0o640))],
)
async def test_others_read_nothing_and_a_group_only_where_it_may_write(
    store: FolderStore, root: Path, file: Path, given: int | None, modes: tuple[int, int]
) -> None:
    if given is not None:
        root.mkdir(exist_ok=True)
        root.chmod(given)
    await store.keep(PAGE)
    assert root.stat().st_mode & 0o777 == (given or 0o700)
    assert (file.parent.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == modes


@pytest.mark.parametrize("damaged", [PAGE[:10], PAGE.swapcase(), b""])
async def test_a_damaged_file_is_written_again(
    store: FolderStore, file: Path, damaged: bytes
) -> None:
    await store.keep(PAGE)
    file.write_bytes(damaged)
    await store.keep(PAGE)
    assert await store.fetch(DIGEST) == PAGE


async def test_a_missing_or_damaged_payload_is_reported_with_the_store_and_the_file(
    store: FolderStore, root: Path, file: Path
) -> None:
    with pytest.raises(StoreError, match=f"the store {root} has no file {DIGEST[:2]}/{DIGEST}; "):
        await store.fetch(DIGEST)
    await store.keep(PAGE)
    file.write_bytes(PAGE.upper())
    with pytest.raises(StoreError, match=f"the store {root} has {DIGEST}, and it is damaged; "):
        await store.fetch(DIGEST)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", DIGEST.upper(), f"{DIGEST}/..", "ab"])
async def test_nothing_is_looked_for_under_what_is_no_digest(store: FolderStore, name: str) -> None:
    with pytest.raises(StoreError, match="is no SHA-256"):
        await store.fetch(name)


async def test_a_write_that_fails_leaves_nothing_and_names_the_store(
    store: FolderStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StoreError, match=f"the store {root} cannot be written to: No space left"):
        await store.keep(PAGE)
    assert files(root) == []


@pytest.mark.parametrize("method", [FolderStore.open, FolderStore.check_writable])
def test_a_folder_that_cannot_be_written_to_is_reported_at_once(
    tmp_path: Path, method: Any
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be written to: Not a directory; .*`--store`"):
        method(FolderStore(tmp_path / "file" / "store"))


@pytest.mark.parametrize("there", ["", "a", "a/b/c"])
def test_trying_it_out_leaves_what_was_there_and_nothing_else(tmp_path: Path, there: str) -> None:
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    before = sorted(tmp_path.rglob("*"))
    FolderStore(tmp_path / "a/b/c").check_writable()
    assert sorted(tmp_path.rglob("*")) == before
