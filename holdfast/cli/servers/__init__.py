"""Commands that serve HTTP or MCP, and how they listen."""
