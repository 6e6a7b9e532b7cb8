"""The histories of a release never change, and every later version replays them."""

from pathlib import Path

import pytest

from tests.replay import shelf
from tests.replay.shelf import CHANGELOG, HISTORIES, changed, golden, releases, stored


@pytest.fixture
def histories(tmp_path: Path) -> Path:
    """Histories of two paths, of which one was released."""
    for name in ("approved", "denied"):
        (tmp_path / f"{name}.json.gz").write_bytes(name.encode())
        golden(name, tmp_path).write_text(name)
    shelf.release("0.1.0", tmp_path)
    (tmp_path / "denied.json.gz").write_bytes(b"in another way")
    return tmp_path


def test_every_release_has_its_histories_and_nothing_else_has() -> None:
    folders = [path.name for path in HISTORIES.iterdir() if path.is_dir()]
    assert sorted(folders) == sorted(releases(CHANGELOG.read_text(encoding="utf-8")))


def test_what_a_release_wrote_is_as_it_was() -> None:
    assert changed() == []


def test_the_releases_are_in_the_changelog() -> None:
    text = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-09-01\n\n## [0.1.0] - 2026-08-01\n"
    assert releases(text) == ["0.2.0", "0.1.0"]


def test_what_was_released_is_kept_beside_what_is_new(histories: Path) -> None:
    assert list(stored(histories)) == ["0.1.0/approved", "0.1.0/denied", "denied"]
    assert golden("0.1.0/denied", histories).read_text() == "denied"
    assert changed(histories) == []


@pytest.mark.parametrize("name", ["approved.json.gz", "denied.golden.json", "new.json.gz"])
def test_a_change_of_what_was_released_is_noticed(histories: Path, name: str) -> None:
    (histories / "0.1.0" / name).write_text("anew")
    assert changed(histories) == ["0.1.0"]


def test_nothing_is_released_twice(histories: Path) -> None:
    with pytest.raises(FileExistsError):
        shelf.release("0.1.0", histories)
