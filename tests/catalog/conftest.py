"""What the tests of activities share."""

from pathlib import Path

import pytest

from tests.catalog.catalog_folder import Folder

SHOP = """
    from pydantic import BaseModel
    from temporalio import activity

    class Order(BaseModel):
        order_id: str

    @activity.defn
    async def look_up(order: Order) -> str:
        "Look an order up."
        return order.order_id

    @activity.defn
    async def charge(arguments: dict[str, object]) -> None:
        "No tool by itself: its parameter is no pydantic model."
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """An empty catalog."""
    (tmp_path / "tools").mkdir()
    return Folder(tmp_path)


@pytest.fixture
def shop(folder: Folder) -> Folder:
    """A catalog with a module: the tool `look_up`, and an activity `charge` that is none."""
    folder.module("shop.py", SHOP)
    return folder
