"""`holdfast export`: what Python defines, as a catalog of files."""

from pathlib import Path

import pytest

from holdfast.catalog.loader import load_catalog
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from tests.cli.conftest import Holdfast

SHOP = '''
from holdfast import Agent, Skill, tool

@tool(side_effects=True, title="Refund an order")
async def refund(order_id: str, amount: float = 1) -> dict[str, str]:
    """Refund an order."""
    return {}

@tool
def find(order_id: str) -> str:
    """Find an order."""
    return order_id

desk = Agent("desk", model="m:x", tools=[find], skills=[Skill("money", tools=[refund])], output=int)
'''


async def test_the_files_are_the_agents_and_tools_of_the_module(
    tmp_path: Path, holdfast: Holdfast
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    module, folder = str(tmp_path / "shop.py"), tmp_path / "out"
    said = await holdfast("export", str(folder), "--tools", module, "--task-queue", "shop")
    assert (said.code, said.err) == (0, "")
    forms = ["agents/desk.json", "tools/refund.json", "tools/find.json"]
    assert said.out.splitlines() == [str(folder / form) for form in forms]
    files = load_catalog(folder, endpoints=["m"], read_definition=activity_definition)
    python = load_catalog(python=[module], endpoints=["m"], read_definition=activity_definition)
    [found, expected] = [each.agents["desk"].to_json() for each in (files, python)]
    tools = [*found["tools"], *found["skills"][0]["tools"]]
    assert [each["activity"].pop("taskQueue") for each in tools] == ["shop", "shop"]
    assert found == expected


async def test_a_schema_that_does_not_fit_its_meta_schema_is_exported_with_a_warning(
    tmp_path: Path, holdfast: Holdfast
) -> None:
    (tmp_path / "shop.py").write_text(SHOP.replace("output=int", "output={'$id': '#order'}"))
    said = await holdfast("export", str(tmp_path), "--tools", str(tmp_path / "shop.py"))
    assert (said.code, len(said.out.splitlines())) == (0, 3)
    assert "shop.py:14: `output.$id`: the schema does not fit its meta-schema: '#" in said.err


ACTIVITY = """
from pydantic import BaseModel
from temporalio import activity

class Order(BaseModel, json_schema_extra={"_sideEffects": True}):
    id: str

@activity.defn(name=NAME)
async def find(order: Order) -> str:
    return order.id
"""


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "a/b", "..", "a\n", ".hidden"])
async def test_no_file_is_written_outside_of_the_folder(
    tmp_path: Path, holdfast: Holdfast, name: str
) -> None:
    (tmp_path / "shop.py").write_text(ACTIVITY.replace("NAME", repr(name)))
    folder = tmp_path / "one" / "out"
    said = await holdfast("export", str(folder), "--tools", str(tmp_path / "shop.py"))
    assert (said.code, said.out) == (2, "")
    assert "is no name of a file in tools/; rename it" in said.err
    written = [path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts]
    assert [path.name for path in written] == ["shop.py"]


async def test_a_module_that_does_not_load_is_reported(tmp_path: Path, holdfast: Holdfast) -> None:
    (tmp_path / "shop.py").write_text(SHOP.replace("output=int", "budget={'maxTurn': 1}"))
    said = await holdfast("export", str(tmp_path), "--tools", str(tmp_path / "shop.py"))
    assert said.code == 2
    assert "shop.py:14: it cannot be imported: ValueError: agent `desk`" in said.err
    assert "did you mean `maxTurns`?" in said.err
