"""A worker with a store: a result of any size neither fails, wedges nor ends a run (§12)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.hosting.temporal import with_store
from holdfast.runtime.storage.folder import FolderStore
from holdfast.runtime.storage.store import Store, read_stored_value
from holdfast.schemas.internal.stored_value import Stored
from tests.support.house import TOOLS, House, house
from tests.support.model_server import Answer, call

# The shape that costs the most to read and to walk through, and what a row of it takes.
ROW_BYTES = 56
TOOL = """
from typing import Any
from pydantic import BaseModel, ConfigDict
from temporalio import activity

class Size(BaseModel):
    size: int

class LocalSize(Size):
    model_config = ConfigDict(json_schema_extra={"_activity": {"local": True}})

class KeptSize(Size):
    model_config = ConfigDict(json_schema_extra={"_outputPath": "†state.rows"})

@activity.defn
async def nested(arguments: Size) -> Any:
    return [[["a"]] * 9] * (arguments.size // 56)

@activity.defn
async def nested_here(arguments: LocalSize) -> Any:
    return [[["a"]] * 9] * (arguments.size // 56)

@activity.defn
async def nested_kept(arguments: KeptSize) -> Any:
    return [[["a"]] * 9] * (arguments.size // 56)
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return FolderStore(tmp_path / "store")


@pytest.fixture
def keeping(client: Client, store: Store) -> Client:
    """A client for a worker with a store."""
    config = client.config()
    config["data_converter"] = with_store(client.data_converter, store)
    return Client(**config)


@pytest.fixture
async def open_house(keeping: Client, tmp_path: Path) -> AsyncIterator[Any]:
    (tmp_path / "nested.py").write_text(TOOL)
    calls = [
        call("nested", size=30_000_000),
        call("nested_here", size=3_000_000),
        call("nested_kept", size=3_000_000),
        call("big", size=1_500_000),
    ]
    answers = [Answer(calls=calls), Answer(text="done")]
    tools = [str(TOOLS), str(tmp_path / "nested.py")]
    async with house(keeping, tmp_path, answers, tools=tools) as made:
        yield made


async def test_a_turn_of_large_results_goes_on_and_what_was_returned_can_be_had(
    open_house: House, client: Client, store: Store
) -> None:
    run = await open_house.start(["nested", "nested_here", "nested_kept", "big"])
    assert (await run.result())["output"] == "done"
    read = await run.results()
    assert read["t1c1"].startswith("29999985 bytes, too many to be read here; ")
    ends = {e["callId"]: e for e in await run.events() if e["type"] == "tool_end"}
    assert ends["t1c3"]["error"]["code"] == "invalid_output"
    assert "error" not in ends["t1c4"], "it is read whole, and history has a reference"
    for id, size in (("t1c1", 30_000_000), ("t1c2", 3_000_000), ("t1c3", 3_000_000)):
        stored = Stored.of(ends[id]["value"])
        assert stored is not None
        value = await read_stored_value(store, stored.sha256, client.data_converter)
        assert value == [[["a"]] * 9] * (size // ROW_BYTES)
    assert max(event.ByteSize() for event in await run.history()) < 20_000


async def test_a_single_call_hands_it_on(open_house: House) -> None:
    result = await (await open_house.call("nested", {"size": 3_000_000})).result()
    assert Stored.of(result["output"]) is not None
