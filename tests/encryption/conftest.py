"""A house whose worker and clients encrypt, and a client of the same server without any key."""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.hosting.temporal import with_encryption, with_store
from holdfast.runtime.storage.folder import FolderStore
from tests.encryption.keys import NEW, key_file, ring
from tests.support import command, tools
from tests.support.house import SIDE_BY_SIDE, Answers, House, OpenHouse, house

Holdfast = command.Holdfast
Keyed = Callable[..., Client]


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the test's tools write down what they did."""
    path = tmp_path / "ledger"
    monkeypatch.setenv(tools.LEDGER, str(path))
    return path


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
async def open_house(keyed: Keyed, tmp_path: Path) -> AsyncIterator[OpenHouse]:
    """Open a house with these answers of the model, which encrypts with these `keys`."""
    async with AsyncExitStack() as stack:

        async def open_(
            answers: Answers,
            keys: Sequence[str] = (NEW,),
            store: Path | None = None,
            **settings: Any,
        ) -> House:
            client = keyed(*keys, store=store)
            made = house(client, tmp_path, answers, **{**SIDE_BY_SIDE, **settings})
            return await stack.enter_async_context(made)

        yield open_
        tools.write(tools.RELEASE)


@pytest.fixture
def holdfast(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Holdfast:
    """The command, which finds the server and the newest key in its environment."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", client.service_client.config.target_host)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", client.namespace)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("HOLDFAST_ENCRYPTION", str(key_file(tmp_path, [NEW])))
    return command.holdfast
