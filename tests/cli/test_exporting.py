"""`holdfast export`: what Python defines, as a catalog of files."""

from pathlib import Path

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
