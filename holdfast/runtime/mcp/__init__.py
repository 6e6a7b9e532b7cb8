"""Read what MCP clients and servers send."""
