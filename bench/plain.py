"""What one writes first: a workflow that passes the whole conversation to every model call."""

import json
from datetime import timedelta
from typing import Any

import httpx
from temporalio import activity, workflow

ONE_MINUTE = timedelta(minutes=1)


@workflow.defn
class PlainWorkflow:
    """Ask, carry out the calls, append, ask again with everything."""

    @workflow.run
    async def run(self, request: dict[str, Any]) -> str:
        """The model's last text."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": request["input"]}]
        while True:
            said = await workflow.execute_activity(
                "plain_ask",
                {"url": request["url"], "tools": request["tools"], "messages": messages},
                start_to_close_timeout=ONE_MINUTE,
            )
            messages.append(said)
            if not said.get("tool_calls"):
                return str(said["content"])
            for call in said["tool_calls"]:
                result = await workflow.execute_activity(
                    call["function"]["name"],
                    json.loads(call["function"]["arguments"]),
                    start_to_close_timeout=ONE_MINUTE,
                )
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


class PlainActivities:
    """The model call of the plain workflow: the same HTTP, the same stream."""

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
