"""The model call of the plain workflow: the same HTTP and the same stream as ours."""

import json
from typing import Any

import httpx
from temporalio import activity


class PlainActivities:
    """Asks the model."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    @activity.defn(name="plain_ask")
    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request to the model; its message."""
        body = {"model": "fake", "messages": request["messages"], "tools": request["tools"]}
        said: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": []}
        url = f"{request['url']}/chat/completions"
        async with self._http.stream("POST", url, json=body | {"stream": True}) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    _add(said, json.loads(line[6:]))
        return said


def _add(said: dict[str, Any], chunk: dict[str, Any]) -> None:
    for choice in chunk["choices"]:
        said["content"] += choice["delta"].get("content") or ""
        for call in choice["delta"].get("tool_calls") or []:
            said["tool_calls"].append({key: call[key] for key in ("id", "type", "function")})
