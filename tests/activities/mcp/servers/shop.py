"""An MCP server for tests: `python shop.py` serves it by standard input and output."""

import os
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import Context, Image, MCPServer, server
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    InputRequiredResult,
    ListRootsRequest,
    ToolAnnotations,
)
from pydantic import BaseModel, Field

# A file with a line for each effect: the tool and the idempotency key of its call.
LEDGER = "SHOP_LEDGER"
TOKEN = "SHOP_TOKEN"
KEY = "dev.holdfast/idempotencyKey"

# It would set the log of the whole process up.
setattr(server, "configure_logging", lambda *_: None)  # noqa: B010  # it is private
shop = MCPServer("shop")


class ShopOrder(BaseModel):
    id: str
    total: int


def record(line: str) -> None:
    with Path(os.environ[LEDGER]).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")


def effects() -> list[str]:
    path = Path(os.environ[LEDGER])
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@shop.tool(title="Find an order", annotations=ToolAnnotations(read_only_hint=True))
def find_order(order_id: str) -> ShopOrder:
    """Find an order by its number."""
    return ShopOrder(id=order_id, total=12)


@shop.tool(structured_output=False)
def refund(order_id: Annotated[str, Field(min_length=1)], ctx: Context[Any, Any]) -> str:
    """Refund an order."""
    meta: Any = ctx.request_context.meta or {}
    record(f"refund {order_id} {meta.get(KEY)}")
    return f"refunded {order_id}"


@shop.tool(structured_output=False)
def crash(order_id: str) -> str:
    """Refund an order, and end without an answer."""
    record(f"crash {order_id}")
    os._exit(9)


@shop.tool(structured_output=False)
def draw() -> list[Any]:
    """Return a text and a picture."""
    return ["a dot", Image(data=b"\x89PNG\r\n\x1a\n", format="png")]


@shop.tool(structured_output=False)
def fail() -> str:
    """Fail."""
    raise ToolError("out of stock")


@shop.tool(structured_output=False)
def survey() -> InputRequiredResult | str:
    """Ask for the folders of the client."""
    return InputRequiredResult(input_requests={"where": ListRootsRequest()})


@shop.tool(structured_output=False)
def pid() -> str:
    """Return the server's process id."""
    return str(os.getpid())


if __name__ == "__main__":
    shop.run("stdio")
