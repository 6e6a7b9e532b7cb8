"""What a person can get wrong in tools, agents, endpoints, modules and settings.

A row is what was given and the message that the person gets, to the letter; the rows are in files
`loading_*` beside this one. Each has a good place around it: a module with the activities `look_up`
(a tool, too) and `charge`, a catalog, and one endpoint, `m`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

SHOP = """\
from pydantic import BaseModel
from temporalio import activity


class Order(BaseModel):
    order_id: str


@activity.defn
async def look_up(order: Order) -> str:
    "Look an order up."
    return order.order_id


@activity.defn
async def charge(arguments: dict[str, object]) -> None: ...
"""


class Place(Enum):
    """What stands where a file could."""

    FOLDER = auto()
    DEAD_LINK = auto()
    LINK_TO_FOLDER = auto()
    NOTHING = auto()


Files = Mapping[str, str | bytes | Place]
FILES: Files = {
    "tools": Place.FOLDER,
    "agents": Place.FOLDER,
    "shop.py": SHOP,
    "endpoints.yaml": "m: {provider: script, file: script.yaml}\n",
    "script.yaml": "- text: Done.\n",
}
"""The good place."""

ARGUMENTS = ("--catalog", ".", "--tools", "shop.py", "--endpoints", "endpoints.yaml")
CHARGED = "_activity: charge\n"
MODEL = "model: {endpoint: m}\n"


@dataclass(frozen=True)
class WrongInput:
    """Something wrong, and each line that is printed of it.

    `editor` is for the content of JSON and YAML: whether an editor that has the published schema
    finds it, too.
    """

    name: str
    files: Files
    says: Sequence[str]
    editor: bool | None = None
    arguments: Sequence[str] = ARGUMENTS
    environment: Mapping[str, str] = field(default_factory=dict)


def tool(name: str, text: str, *says: str, editor: bool = True) -> WrongInput:
    """A file of one tool; the lines begin behind its name."""
    return _content(name, "tools/t.yaml", text, says, editor)


def agent(name: str, text: str, *says: str, editor: bool = True) -> WrongInput:
    """A file of one agent."""
    return _content(name, "agents/a.yaml", text, says, editor)


def endpoints(name: str, text: str, *says: str, editor: bool = True) -> WrongInput:
    """The file of the endpoints."""
    return _content(name, "endpoints.yaml", text, says, editor)


def module(name: str, text: str, *says: str) -> WrongInput:
    """The module of tools."""
    return WrongInput(name, {"shop.py": text}, [f"shop.py:{line}" for line in says])


def shop_with(extra: str) -> str:
    """The module, with meta-properties of its tool."""
    head = "class Order(BaseModel):\n"
    return SHOP.replace(head, f'{head}    model_config = {{"json_schema_extra": {extra}}}\n')


def _content(name: str, file: str, text: str, says: Sequence[str], editor: bool) -> WrongInput:
    return WrongInput(name, {file: text}, [f"{file}:{line}" for line in says], editor)
