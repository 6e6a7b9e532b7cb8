"""Where a store is, as people write it."""

from pathlib import Path

import pytest

from holdfast.runtime.storage.locations import (
    BucketLocation,
    FolderLocation,
    StoreLocation,
    dev_store_location,
    parse_store_location,
    reader_store_location,
)
from holdfast.runtime.storage.store import StoreError


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/var/lib/holdfast", FolderLocation(Path("/var/lib/holdfast"))),
        ("kept", FolderLocation(Path.cwd() / "kept")),
        ("~/kept", FolderLocation(Path.home() / "kept")),
        ("s3://runs", BucketLocation("runs")),
        ("s3://runs/", BucketLocation("runs")),
        ("s3://runs.eu-1/logs/a/", BucketLocation("runs.eu-1", "logs/a")),
        ("c:/runs", FolderLocation(Path.cwd() / "c:/runs")),
        ("./s3:/runs", FolderLocation(Path.cwd() / "s3:/runs")),
        ("none", None),
        ("None", None),
        ("./none", FolderLocation(Path.cwd() / "none")),
    ],
)
def test_a_place_is_a_folder_or_a_bucket_or_none(text: str, place: StoreLocation | None) -> None:
    assert parse_store_location(text) == place


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" ", "name a folder, or s3://BUCKET/PREFIX"),
        ("gs://runs", "name a folder, or s3://BUCKET/PREFIX"),
        ("s3:/runs/a", "name a folder, or s3://BUCKET/PREFIX"),
        ("S3:runs", "name a folder, or s3://BUCKET/PREFIX"),
        ("file:/var/runs", "name a folder, or s3://BUCKET/PREFIX"),
        ("~nobody-here/a", "there is no such user: name a folder, or s3://BUCKET/PREFIX"),
        ("s3:///logs", "`` is no name of a bucket: name a folder, or s3://BUCKET/PREFIX"),
        ("s3://My_Runs", "`My_Runs` is no name of a bucket: name a folder, or s3://BUCKET/PREFIX"),
    ],
)
def test_anything_else_is_refused_with_what_a_place_is_like(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"\A") as refused:
        parse_store_location(text)
    assert str(refused.value) == said


def test_a_command_finds_the_store_that_is_named_or_that_of_dev_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reader_store_location({}) is None
    (tmp_path / ".holdfast/temporal.store").mkdir(parents=True)
    assert reader_store_location({}) == FolderLocation(tmp_path / ".holdfast/temporal.store")
    assert reader_store_location({}) == dev_store_location(tmp_path / ".holdfast/temporal.db")
    assert reader_store_location({"HOLDFAST_STORE": "s3://runs"}) == BucketLocation("runs")
    assert reader_store_location({"HOLDFAST_STORE": "none"}) is None
    with pytest.raises(StoreError, match="HOLDFAST_STORE: `gs://runs` does not fit; name a folder"):
        reader_store_location({"HOLDFAST_STORE": "gs://runs"})
