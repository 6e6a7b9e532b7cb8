"""Python modules as tools: what is derived from them, and what a worker refuses at start."""

import pytest

from holdfast import Agent
from holdfast.catalog.loader import load_catalog
from holdfast.catalog.python_module import PythonSource, import_module
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.schemas.tool import ActivityBinding, ResolvedTool
from tests.catalog.catalog_folder import Folder

HEAD = """\
from datetime import date
from enum import Enum
from pydantic import BaseModel, ConfigDict, Field
from temporalio import activity
"""
DESK = """\
from holdfast import Agent, tool

@tool
def find(order_id: str) -> str:
    "Find an order."
    return order_id

desk = Agent("desk", tools=[find], calls=[{"_tool": "find", "order_id": "7"}])
"""
WHOLE = (
    HEAD
    + '''
class Reason(str, Enum):
    BROKEN = "broken"
    LATE = "late"

class Refund(BaseModel):
    """What the model's own text says is not what the tool says."""

    model_config = ConfigDict(json_schema_extra={
        "_sideEffects": True,
        "_idempotent": True,
        "_approval": {"when": {"properties": {"amount": {"exclusiveMinimum": 100}}}},
        "_activity": {"startToCloseTimeout": "5s"},
    })
    order_id: str = Field(description="The order")
    amount: float = Field(gt=0)
    reason: Reason = Reason.BROKEN
    on: date | None = None

@activity.defn(name="shop.refund")
def refund(refund: Refund) -> str:
    """Refund an order.

    In full or in part.
    """
    return "refunded"
'''
)


def derived(folder: Folder, text: str) -> ResolvedTool:
    folder.module("module.py", text)
    [tool] = folder.load().definitions.tools.values()
    return tool


def test_an_activity_with_a_model_is_a_tool(folder: Folder) -> None:
    tool = derived(folder, WHOLE)
    assert tool.to_json() == {
        "name": "shop.refund",
        "description": "Refund an order.\n\nIn full or in part.",
        "parameters": {
            "type": "object",
            "properties": {
                "order_id": {"type": "string", "description": "The order"},
                "amount": {"type": "number", "exclusiveMinimum": 0},
                "reason": {"$ref": "#/$defs/Reason", "default": "broken"},
                "on": {
                    "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}],
                    "default": None,
                },
            },
            "required": ["order_id", "amount"],
            "$defs": {"Reason": {"type": "string", "title": "Reason", "enum": ["broken", "late"]}},
        },
        "activity": {"type": "shop.refund", "startToCloseTimeout": "5s"},
        "sideEffects": True,
        "approval": {"when": {"properties": {"amount": {"exclusiveMinimum": 100}}}},
    }


def test_a_model_that_holds_itself_is_a_tool_like_any_other(folder: Folder) -> None:
    tool = derived(
        folder,
        HEAD
        + """
class Node(BaseModel):
    model_config = ConfigDict(json_schema_extra={"_sideEffects": True})
    name: str
    children: "list[Node]" = []

@activity.defn
def walk(node: Node) -> None:
    "Walk."
""",
    )
    assert tool.side_effects
    assert set(tool.parameters["properties"]) == {"name", "children"}
    assert "_sideEffects" not in tool.parameters["$defs"]["Node"]


def test_other_activities_are_registered_and_are_no_tools(shop: Folder) -> None:
    catalog = shop.load()
    assert set(catalog.definitions.activities) == {"look_up", "charge"}
    assert set(catalog.definitions.tools) == {"look_up"}
    assert len(catalog.python.activities) == 2


def test_a_module_is_found_by_dotted_name(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("pkg_of_tools/__init__.py", "")
    folder.write("pkg_of_tools/more.py", WHOLE)
    monkeypatch.chdir(folder.path)
    monkeypatch.syspath_prepend(str(folder.path))
    catalog = load_catalog(None, ["pkg_of_tools.more"], read_definition=activity_definition)
    assert set(catalog.definitions.tools) == {"shop.refund"}


def test_a_module_imports_the_modules_beside_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend("/nowhere")  # puts the search path back at the end
    folder.write("beside_the_tools.py", "NAME = 'named.beside'\n")
    text = WHOLE.replace('"shop.refund"', "NAME")
    assert derived(folder, "from beside_the_tools import NAME\n" + text).name == "named.beside"


@pytest.mark.parametrize("answer", ["return self", "raise RuntimeError(name)"])
def test_what_answers_to_every_name_is_no_activity(folder: Folder, answer: str) -> None:
    """As the stand-ins of web frameworks do, and of tests."""
    odd = f"\n\nclass Odd:\n    def __getattr__(self, name): {answer}\n\n\nodd = Odd()\n"
    assert derived(folder, WHOLE + odd).name == "shop.refund"


def activity_of(meta: str) -> str:
    """Return a module with an activity whose model has these meta-properties."""
    model = f"class A(BaseModel):\n  model_config = {{'json_schema_extra': {meta}}}\n"
    return HEAD + model + "@activity.defn\ndef f(a: A) -> None: ..."


WITH_CONTEXT = (
    HEAD
    + """
from holdfast import CallContext

class Orders(BaseModel):
    model_config = ConfigDict(json_schema_extra={"_activity": {"startToCloseTimeout": "5s"}})
    status: str

@activity.defn
def find_orders(arguments: Orders, tool: dict[str, object], context: CallContext) -> list[str]:
    'Find the orders of the customer.'
    return []
"""
)


def test_an_activity_with_a_model_and_the_context_of_its_call_is_a_tool(folder: Folder) -> None:
    tool = derived(folder, WITH_CONTEXT)
    assert tool.activity == ActivityBinding.model_validate(
        {"type": "find_orders", "input": "call", "startToCloseTimeout": "5s"}
    )
    assert list(tool.parameters["properties"]) == ["status"]


def test_without_the_context_an_activity_of_three_parameters_is_no_tool(folder: Folder) -> None:
    folder.module("module.py", WITH_CONTEXT.replace("context: CallContext", "context: str"))
    assert not folder.load().definitions.tools


TAKES_A = "@activity.defn\ndef f(a: A) -> None: ..."
REFUSED = [
    (
        activity_of("{'_activity': 'x'}"),
        "m.py:7: `_activity` of `f` names an activity, but the function is the activity",
    ),
    (
        activity_of("{'_activity': {'input': 'call'}}"),
        "m.py:7: `f` takes one parameter, and `input: call` passes three",
    ),
    (
        activity_of("{'_activity': {'input': ['a']}}"),
        "m.py:7: `f` takes one parameter, and `input` passes other values",
    ),
    (
        activity_of("{'_delegate': 'b'}"),
        "m.py:7: `_delegate` and `_activity` each name what runs the tool",
    ),
    (
        HEAD + "from pydantic import RootModel\nclass A(RootModel[list[int]]): ...\n" + TAKES_A,
        "m.py:7: `type`: `array` does not fit; write `object`",
    ),
    (
        HEAD + "from collections.abc import Sequence\nfrom temporalio.common import RawValue\n"
        "@activity.defn(dynamic=True)\ndef f(a: Sequence[RawValue]) -> None: ...",
        "m.py:7: this activity is dynamic",
    ),
    (
        HEAD + "@activity.defn(name='generate')\ndef f(a: int) -> None: ...",
        "m.py:5: the activity name `generate` is the worker's own",
    ),
]


@pytest.mark.parametrize(("text", "problem"), REFUSED)
def test_a_module_that_does_not_load_is_reported_with_its_line(
    folder: Folder, text: str, problem: str
) -> None:
    folder.module("m.py", text)
    assert folder.problem().startswith(problem)


def test_a_module_a_program_or_both_define_agents_and_tools(folder: Folder) -> None:
    path = folder.module("desk.py", DESK)
    from_module = load_catalog(python=[str(path)], read_definition=activity_definition)
    assert from_module.agents["desk"].tools == [from_module.definitions.tools["find"]]
    [desk] = [each for each in vars(import_module(str(path))).values() if isinstance(each, Agent)]
    sources: list[list[PythonSource]] = [[desk], [*desk.tools, desk], [str(path), desk]]
    for python in sources:
        found = load_catalog(python=python, read_definition=activity_definition)
        assert found.agents == from_module.agents
        assert [each.name for each in found.python.activities] == ["find"]
    folder.write("agents/desk.yaml", "calls: [{_tool: find, order_id: '7'}]\n")
    assert folder.problem() == (
        "agents/desk.yaml:1: the agent name `desk` is used by desk.py:8; give one of them another"
        " name"
    )
