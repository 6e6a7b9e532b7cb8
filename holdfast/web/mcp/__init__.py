"""The MCP server: agents and tools of a catalog as MCP tools, each call of which starts a run."""
