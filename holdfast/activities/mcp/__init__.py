"""The MCP servers of a worker, and the activity that calls their tools."""
