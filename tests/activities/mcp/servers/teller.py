"""An MCP server that repeats secrets: `python teller.py` serves it, with one of its environment."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from mcp import MCPError
from mcp.server.mcpserver import MCPServer, server
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

TOKEN = "TELLER_TOKEN"
TOOLS = ("report", "fail", "refuse", "misfit")

# It would set the log of the whole process up.
setattr(server, "configure_logging", lambda *_: None)  # noqa: B010  # it is private


def teller(secrets: Callable[[], Iterable[str]]) -> MCPServer:
    """A server whose tools return secrets, or fail with them in each way that there is."""
    made = MCPServer("teller")

    def text() -> str:
        return " and ".join(("it is", *secrets()))

    @made.tool(structured_output=False)
    def report() -> str:
        return f'{{"_message": {{"content": "{text()}"}}}}'

    @made.tool(structured_output=False)
    def fail() -> str:
        raise ToolError(text())

    @made.tool(structured_output=False)
    def refuse() -> Any:
        raise MCPError(INTERNAL_ERROR, text(), [text()])

    @made.tool(structured_output=False)
    def misfit() -> Any:
        raise MCPError(INVALID_PARAMS, text())

    return made


if __name__ == "__main__":
    print(f"the token is {os.environ[TOKEN]}", file=sys.stderr, flush=True)
    teller(lambda: [os.environ[TOKEN]]).run("stdio")
