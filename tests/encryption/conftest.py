"""A backend whose worker and clients encrypt, and a client of the same server without any key."""

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.runtime.data_converter import with_encryption, with_store
from holdfast.runtime.storage.folder import FolderStore
from tests.encryption.keys import NEW, key_file, ring
from tests.support import command
from tests.support.backend import SIDE_BY_SIDE, Answers, Backend, Launch
from tests.support.fixtures import backends

Holdfast = command.Holdfast
Keyed = Callable[..., Client]


@pytest.fixture
def keyed(client: Client) -> Keyed:
    """A client that encrypts with the first of these keys, with a store where a folder is named."""

    def keyed_(*ids: str, store: Path | None = None) -> Client:
        converter = with_encryption(client.data_converter, ring(*ids) if ids else None)
        config = client.config()
        config["data_converter"] = with_store(
            converter, None if store is None else FolderStore(store)
        )
        return Client(**config)

    return keyed_


@pytest.fixture
async def launch(keyed: Keyed, tmp_path: Path, ledger: Path) -> AsyncIterator[Launch]:
    """Launch a backend with these answers of the model, which encrypts with these `keys`."""
    async with backends(keyed(NEW), tmp_path, **SIDE_BY_SIDE) as start:

        async def open_(
            answers: Answers,
            keys: Sequence[str] = (NEW,),
            store: Path | None = None,
            **settings: Any,
        ) -> Backend:
            return await start(answers, client=keyed(*keys, store=store), **settings)

        yield open_


@pytest.fixture
def holdfast(holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Holdfast:
    """Return the command, which finds the newest key in its environment, too."""
    monkeypatch.setenv("HOLDFAST_ENCRYPTION", str(key_file(tmp_path, [NEW])))
    return holdfast
