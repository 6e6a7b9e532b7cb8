"""Resources of MCP servers as knowledge, and prompts as instructions."""

from pathlib import Path

import pytest
import yaml
from mcp.server.mcpserver import MCPServer

from tests.activities.mcp.conftest import Open, serving
from tests.support.backend import Run
from tests.support.model_server import Answer, call

NAMES = ("rules", "logo", "lost")
AGENT = {
    "model": {"endpoint": "fake", "name": "fake"},
    "instructions": "mcp:shop/prompt/support",
    "knowledge": [{"name": name, "url": f"mcp:shop/shop://{name}"} for name in NAMES],
}


def library() -> MCPServer:
    """A server with resources and a prompt."""
    made = MCPServer("library")

    @made.resource("shop://rules")
    def rules() -> str:
        return "Dogs are welcome."

    @made.resource("shop://logo", mime_type="image/png")
    def logo() -> bytes:
        return b"\x89PNG"

    @made.prompt()
    def support() -> str:
        return "You support the customers of a small shop."

    return made


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
async def test_knowledge_and_instructions_of_a_server(
    open_worker: Open, tmp_path: Path, protocol: str
) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/desk.yaml").write_text(yaml.safe_dump(AGENT))
    calls = [call(name) for name in NAMES]
    async with (
        serving(library().streamable_http_app()) as url,
        open_worker(
            {"url": url, "protocol": protocol, "trusted": True},
            [Answer(calls=calls), Answer("done")],
            catalog=tmp_path,
        ) as home,
    ):
        request = {"agent": "desk", "input": "go"}
        run = Run(
            await home.client.start_workflow(
                "AgentWorkflow", request, id=f"desk-{protocol}", task_queue=home.task_queue
            ),
            home.client,
        )
        assert (await run.result())["status"] == "completed"
        first, second = home.model.requests
    assert "You support the customers of a small shop." in str(first)
    assert "Dogs are welcome." not in str(first)
    [rules, logo, lost] = [each["content"] for each in second["messages"][-3:]]
    assert "Dogs are welcome." in rules
    assert '"trusted": false' in rules
    assert "MCP server `shop`, `shop://logo`: it is not a text" in logo
    assert "MCP server `shop`, `shop://lost`: " in lost
