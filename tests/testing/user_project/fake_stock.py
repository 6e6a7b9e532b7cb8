"""A fake MCP server of a user, for tests: `python fake_stock.py` serves it by stdio."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("stock")


@server.tool()
def count_items(order_id: str) -> str:
    """Count the items of an order."""
    return f"3 of order {order_id}"


if __name__ == "__main__":
    server.run()
