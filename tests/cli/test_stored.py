"""A result that is kept in the worker's store: had where the store is known, else told of (§12)."""

import io
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from cli.ending import Ending
from cli.stored import with_output
from hosting.temporal import with_store
from schemas.run import RunResult
from schemas.solution import Usage
from schemas.stored import Stored
from storage.folder import FolderStore
from tests.cli.conftest import Holdfast
from tests.support.house import house

LARGE = 3_000_000


@pytest.fixture
async def call_id(client: Client, tmp_path: Path) -> AsyncIterator[str]:
    """A call whose result is in the store `tmp_path / "store"`."""
    config = client.config()
    config["data_converter"] = with_store(client.data_converter, FolderStore(tmp_path / "store"))
    async with house(Client(**config), tmp_path, [], max_cached_workflows=100) as made:
        run = await made.call("big", {"size": LARGE})
        await run.result()
        yield run.id


async def test_it_is_had_from_the_store_and_without_one_it_is_said_what_to_set(
    call_id: str, holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "store"))
    said = await holdfast("watch", call_id)
    assert (said.code, said.err) == (0, "")
    assert f"output: {'x' * LARGE}\n" in said.out

    monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "other"))
    said = await holdfast("show", call_id)
    assert (said.code, said.err) == (0, "")
    assert f"they cannot be had: the store {tmp_path / 'other'} has no file " in said.out
    assert not (tmp_path / "other").exists(), "who reads makes nothing"

    monkeypatch.delenv("HOLDFAST_STORE")
    monkeypatch.chdir(tmp_path)
    said = await holdfast("watch", call_id)
    assert (said.code, said.err) == (0, "")
    assert (
        "output: 3,000,002 bytes, kept outside of Temporal (to have them, set HOLDFAST_STORE to "
        f"the `--store` of its worker), begin:\n{'x' * 2_000}\n" in said.out
    )

    (tmp_path / "store").rename(tmp_path / "temporal.store")
    (tmp_path / ".holdfast").mkdir()
    (tmp_path / "temporal.store").rename(tmp_path / ".holdfast/temporal.store")
    said = await holdfast("watch", call_id)
    assert f"output: {'x' * LARGE}\n" in said.out, "the store of `--dev` is found"


async def test_a_screen_is_shown_how_it_begins_and_how_to_have_all_of_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stored = Stored(sha256="0" * 64, size_bytes=LARGE, beginning="xxx")
    result = RunResult(
        status="completed", output=stored.value(), state={}, turns=0, calls=1, usage=Usage()
    )
    monkeypatch.setattr(sys, "stdout", Terminal())
    ending = await with_output(Ending("completed", result=result), "run-1", client.data_converter)
    assert ending.result is not None
    assert ending.result.output == (
        "3,000,000 bytes, kept outside of Temporal (all of them: holdfast watch run-1 | cat), "
        "begin:\nxxx"
    )
