"""A result in the worker's store: shown where the store is known, else reported (§12)."""

import io
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.cli.screens.console import unread_output
from holdfast.client.result import RunEnding, with_stored_output
from holdfast.runtime.data_converter import with_store
from holdfast.runtime.storage.folder import FolderStore
from holdfast.schemas.base import Stored
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.run import RunResult
from tests.cli.conftest import Holdfast
from tests.support.backend import backend

LARGE = 3_000_000


def unknown(run: str) -> str:
    return (
        f"holdfast: the output of run {run} cannot be read: it is in its worker's store, and no "
        "store is set here; set HOLDFAST_STORE to the `--store` of its worker\n"
    )


def entries(out: str) -> list[dict[str, Any]]:
    """The entries that a command printed, as a list or line by line."""
    found: list[dict[str, Any]] = (
        json.loads(out) if out.startswith("[") else [json.loads(line) for line in out.splitlines()]
    )
    return found


@pytest.fixture
async def call_id(client: Client, tmp_path: Path) -> AsyncIterator[str]:
    """A call whose result is in the store `tmp_path / "store"`."""
    config = client.config()
    config["data_converter"] = with_store(client.data_converter, FolderStore(tmp_path / "store"))
    async with backend(Client(**config), tmp_path, [], cached_runs=100) as made:
        run = await made.call("big", {"size": LARGE})
        await run.result()
        yield run.id


async def test_it_is_read_from_the_store_and_without_one_the_setting_is_named(
    call_id: str, holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "store"))
    said = await holdfast("watch", call_id)
    assert (said.code, said.err) == (0, "")
    assert f"output: {'x' * LARGE}\n" in said.out

    monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "other"))
    said = await holdfast("show", call_id)
    assert said.code == 1
    assert said.err.startswith(f"holdfast: the output of run {call_id} cannot be read: the store ")
    assert said.err.count("\n") == 1
    assert f"they cannot be read: the store {tmp_path / 'other'} has no file " in said.out
    assert not (tmp_path / "other").exists(), "who reads makes nothing"

    monkeypatch.delenv("HOLDFAST_STORE")
    monkeypatch.chdir(tmp_path)
    said = await holdfast("watch", call_id)
    assert (said.code, said.err) == (1, unknown(call_id))
    assert (
        "output: 3,000,002 bytes, kept outside of Temporal (they cannot be read: it is in its "
        "worker's store, and no store is set here; set HOLDFAST_STORE to the `--store` of its "
        f"worker), begin:\n{'x' * 2_000}\n" in said.out
    )

    (tmp_path / "store").rename(tmp_path / "temporal.store")
    (tmp_path / ".holdfast").mkdir()
    (tmp_path / "temporal.store").rename(tmp_path / ".holdfast/temporal.store")
    said = await holdfast("watch", call_id)
    assert f"output: {'x' * LARGE}\n" in said.out, "the store of `--dev` is found"


@pytest.mark.parametrize("words", [("watch", "--json"), ("show", "--json")])
async def test_a_program_has_the_whole_of_it_too(
    call_id: str,
    words: tuple[str, ...],
    holdfast: Holdfast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "store"))
    said = await holdfast(*words, call_id)
    assert (said.code, said.err) == (0, "")
    [*before, last] = entries(said.out)
    assert last["output"] == "x" * LARGE
    assert [e["value"].keys() for e in before if "value" in e] == [{"_stored"}], "once is enough"

    monkeypatch.delenv("HOLDFAST_STORE")
    monkeypatch.chdir(tmp_path)
    said = await holdfast(*words, call_id)
    assert (said.code, said.err) == (1, unknown(call_id))
    assert Stored.of(entries(said.out)[-1]["output"]) is not None


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
    ending = await with_stored_output(
        RunEnding("completed", result=result),
        "run-1",
        client.data_converter,
        unread_output("run-1"),
    )
    assert ending.output_error is None
    assert ending.stored_output_note == (
        "3,000,000 bytes, kept outside of Temporal (all of them: holdfast watch run-1 | cat), "
        "begin:\nxxx"
    )
