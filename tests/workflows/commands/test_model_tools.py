"""Calls that the model answers, and results from knowledge and from the store."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.runtime.data_converter import with_store
from holdfast.runtime.storage.folder import FolderStore
from holdfast.runtime.storage.store import Store, read_stored_value
from holdfast.schemas.base import Stored
from tests.support.backend import TOOLS, Backend, Launch, backend
from tests.support.model_server import Answer, call

pytestmark = pytest.mark.usefixtures("ledger")

MOOD = {
    "_tool": "mood",
    "description": "The mood of a text.",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "_output": {
        "type": "object",
        "properties": {"mood": {"enum": ["good", "bad"]}},
        "required": ["mood"],
    },
}
ASKS = Answer(calls=[call("mood", text="hooray")])
GOOD, MISFIT = Answer('{"mood": "good"}'), Answer('{"mood": "so-so"}')


def model(*latent: Answer) -> Callable[[int, dict[str, Any]], Answer]:
    """A model that calls `mood`, answers that call with these, and is done."""

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        if "You answer one call of a tool" in body["messages"][0]["content"]:
            return latent[min(turn, len(latent)) - 1]
        return ASKS if turn == 1 else Answer("done")

    return answer


async def test_a_model_that_cannot_answer_a_call_does_not_end_the_run(
    launch: Launch,
) -> None:
    refuses = Answer(status=400, body={"error": {"message": "too hard"}})
    run = await (await launch(model(refuses))).start([MOOD])
    assert (await run.result())["output"] == "done"

    assert await run.error() == {
        "code": "tool_error",
        "message": "`mood` could not be answered now.",
    }
    notices = [entry["text"] for entry in await run.context() if entry["type"] == "notice"]
    assert any("t1c1 was not answered" in text and "too hard" in text for text in notices)


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
async def stored_backend(keeping: Client, tmp_path: Path) -> AsyncIterator[Any]:
    (tmp_path / "nested.py").write_text(TOOL)
    calls = [
        call("nested", size=10_000_000),
        call("nested_here", size=3_000_000),
        call("nested_kept", size=3_000_000),
        call("big", size=1_500_000),
    ]
    answers = [Answer(calls=calls), Answer(text="done")]
    tools = [str(TOOLS), str(tmp_path / "nested.py")]
    async with backend(keeping, tmp_path, answers, tools=tools) as made:
        yield made


async def test_a_turn_of_large_results_continues_and_the_results_can_be_read(
    stored_backend: Backend, client: Client, store: Store
) -> None:
    run = await stored_backend.start(["nested", "nested_here", "nested_kept", "big"])
    assert (await run.result())["output"] == "done"
    read = await run.results()
    assert read["t1c1"].startswith("9999977 bytes, too many to be read here; ")
    ends = {e["callId"]: e for e in await run.events() if e["type"] == "tool_end"}
    assert ends["t1c3"]["error"]["code"] == "invalid_output"
    assert "error" not in ends["t1c4"], "it is read whole, and history has a reference"
    for id, size in (("t1c1", 10_000_000), ("t1c2", 3_000_000), ("t1c3", 3_000_000)):
        stored = Stored.of(ends[id]["value"])
        assert stored is not None
        value = await read_stored_value(store, stored.sha256, client.data_converter)
        assert value == [[["a"]] * 9] * (size // ROW_BYTES)
    assert max(event.ByteSize() for event in await run.history()) < 20_000


async def test_a_single_call_hands_it_on(stored_backend: Backend) -> None:
    result = await (await stored_backend.call("nested", {"size": 3_000_000})).result()
    assert Stored.of(result["output"]) is not None
