"""Permits with what stands between the worker and history: keys that encrypt, and a store."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.runtime.data_converter import data_converter, with_encryption, with_store
from holdfast.runtime.storage.locations import open_store_at, parse_store_location
from tests.encryption.keys import NEW, OLD, key_file, ring
from tests.support.backend import Launch
from tests.support.eventually import eventually
from tests.support.model_server import Answer

FREE: dict[str, Any] = {"_sideEffects": True, "_approval": {"require": "never"}}
BIG = {
    "_tool": "big",
    "description": "Say much.",
    "properties": {"size": {"type": "integer"}},
    "_activity": "big",
    **FREE,
}
TYPED = """
from dataclasses import dataclass
from typing import Any

from temporalio import activity


@dataclass
class Order:
    amount: float
    note: str = "none"


@activity.defn
def order(arguments: Order) -> dict[str, Any]:
    return {"type": type(arguments).__name__, "amount": arguments.amount, "note": arguments.note}


@activity.defn
def announce(pending: dict[str, Any]) -> None:
    with open(NEWS, "w") as file:
        file.write(pending["tool"])
"""
ORDER = "_activity: order\nproperties: {amount: {type: number}}\n_sideEffects: true\n"


@pytest.mark.parametrize("size", [10, 300_000, 2_100_000])
async def test_a_signed_result_is_known_after_encryption_and_from_a_store(
    client: Client, launch: Launch, tmp_path: Path, size: int
) -> None:
    place = parse_store_location(str(tmp_path / "store"))
    assert place is not None
    async with open_store_at(place, writing=True) as store:
        config = client.config()
        config["data_converter"] = with_store(with_encryption(data_converter, ring(NEW)), store)
        home = await launch(
            [Answer("done")], client=Client(**config), permits=key_file(tmp_path, [OLD])
        )
        run = await home.call(BIG, {"size": size})
        result = await run.result()

    assert result["status"] == "completed"


async def test_arguments_are_decoded_by_their_types_after_the_check(
    launch: Launch, tmp_path: Path
) -> None:
    (tmp_path / "typed.py").write_text(TYPED)
    catalog = tmp_path / "catalog"
    (catalog / "tools").mkdir(parents=True)
    (catalog / "tools/order.yaml").write_text(f"{ORDER}_approval: {{require: never}}\n")
    home = await launch(
        [Answer("done")],
        tools=[str(tmp_path / "typed.py")],
        catalog=catalog,
        permits=key_file(tmp_path, [OLD]),
    )
    run = await home.call("order", {"amount": 5})

    assert (await run.result())["output"] == {"type": "Order", "amount": 5, "note": "none"}


async def test_the_activity_that_notifies_people_needs_no_permit(
    launch: Launch, tmp_path: Path
) -> None:
    news = tmp_path / "news"
    (tmp_path / "typed.py").write_text(TYPED.replace("NEWS", repr(str(news))))
    home = await launch(
        [Answer("done")],
        tools=[str(tmp_path / "typed.py")],
        catalog=None,
        notify="announce",
        permits=key_file(tmp_path, [OLD]),
    )
    run = await home.call({**BIG, "_activity": "order", "_approval": {"require": "always"}}, {})

    await eventually(partial(asyncio.to_thread, news.exists))
    await run.handle.terminate()
