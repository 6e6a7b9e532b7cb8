"""A store and keys (§12, §13): nothing of it can be read, and what is equal is kept once."""

import json
from pathlib import Path

import pytest
from temporalio.client import Client

from holdfast.runtime.encryption.codec import DecryptError
from holdfast.runtime.storage.folder import FolderStore
from holdfast.runtime.storage.store import read_stored_value
from holdfast.schemas.base import Stored, sha256
from tests.encryption.conftest import Keyed
from tests.encryption.keys import NEW
from tests.encryption.reader import Reader, payloads
from tests.support.backend import Launch, Run
from tests.support.model_server import Answer, call

WORD = "heliotrope "
MANY = {"budget": {"maxTurns": 50, "maxIterations": 50, "maxCalls": 100}}
TURNS = 8


def kept(folder: Path) -> dict[str, bytes]:
    """What a store holds, by its digest."""
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def references(reader: Reader, run: Run) -> list[str]:
    """The digests that are in the histories of a run, as often as they are."""
    found = []
    for one in await reader.runs(run.id):
        for event in await reader.history(run.id, one.execution.run_id):
            values = [payload for _, payload in payloads(event)]
            found += [one.data for one in values if one.metadata["encoding"] == b"json/protobuf"]
    return [json.loads(data)["claimData"]["sha256"] for data in found]


async def test_the_pages_of_a_log_are_kept_once_however_often_a_run_continues_as_new(
    launch: Launch, client: Client, tmp_path: Path
) -> None:
    says = [*[Answer(calls=[call("echo", text=WORD, times=400)])] * (TURNS - 1), Answer("done")]
    backend = await launch(says, store=tmp_path / "store", continue_after=25)
    run = await backend.start(["echo"], agent=MANY)
    assert (await run.result())["turns"] == TURNS
    referred = await references(Reader(client), run)
    assert set(referred) == set(kept(tmp_path / "store"))
    assert len(referred) > 1.5 * len(set(referred)), "a page that is handed on is the same page"


async def test_a_large_result_is_encrypted_in_the_store_kept_once_and_had_with_the_key(
    launch: Launch, keyed: Keyed, client: Client, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    backend = await launch([], store=store)
    arguments = {"text": WORD, "times": 300_000}
    run, again = [await backend.call("echo", arguments) for _ in range(2)]
    stored = Stored.of((await run.result())["output"])
    assert stored is not None
    assert await again.result() == await run.result()
    assert set(kept(store)) == {stored.sha256}
    assert len(kept(store)[stored.sha256]) < 50_000, "it is compressed"
    assert WORD.encode() not in kept(store)[stored.sha256]

    value = await read_stored_value(FolderStore(store), stored.sha256, keyed(NEW).data_converter)
    assert value == WORD * 300_000
    with pytest.raises(DecryptError, match="no keys are set here"):
        await read_stored_value(FolderStore(store), stored.sha256, client.data_converter)


async def test_what_only_history_refers_to_is_the_result_as_ever(
    launch: Launch, client: Client, tmp_path: Path
) -> None:
    backend = await launch([], store=tmp_path / "store")
    run = await backend.call("echo", {"text": WORD, "times": 100_000})
    assert (await run.result())["output"] == WORD * 100_000
    assert await references(Reader(client), run) == list(kept(tmp_path / "store"))


async def test_a_fork_of_a_long_run_has_its_log_from_the_store(
    launch: Launch, client: Client, tmp_path: Path
) -> None:
    """Its input does not compress."""
    text = "".join(sha256(str(n).encode()) for n in range(9_000))
    says = [*[Answer(calls=[call("echo", text=WORD)])] * 2, Answer("done")]
    backend = await launch(says, store=tmp_path / "store")
    source = await backend.start(["echo"], input=text)
    await source.result()
    assert kept(tmp_path / "store") == {}

    fork = {"run": source.id, "turn": 2}
    run = await backend.start(["echo"], agent=MANY, input=None, fork=fork)

    assert (await run.result())["output"] == "done"
    assert (await run.results()) == (await source.results())
    assert await references(Reader(client), run) == list(kept(tmp_path / "store"))
    assert len(kept(tmp_path / "store")) == 1
