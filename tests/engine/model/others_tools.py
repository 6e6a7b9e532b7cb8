"""Twenty tools of public MCP servers, as the servers list them.

`others_tools.json` is what the servers of these packages answered to `tools/list`, unchanged, each
with its package, version and licence.
"""

import json
from pathlib import Path
from typing import Any

from holdfast.schemas.tool import ActivityBinding, ResolvedTool

_FILE = Path(__file__).with_suffix(".json")


def others_tools() -> list[ResolvedTool]:
    """The tools, as a run keeps them."""
    return [_tool(listed) for listed in json.loads(_FILE.read_text(encoding="utf-8"))]


def _tool(listed: dict[str, Any]) -> ResolvedTool:
    return ResolvedTool(
        name=listed["name"],
        description=listed["description"],
        parameters=listed["schema"],
        activity=ActivityBinding(type=listed["name"]),
    )
