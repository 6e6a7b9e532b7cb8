"""What one writes first: a workflow that passes the whole conversation to every model call."""

import asyncio
import json
import os
import sys
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    import httpx

ONE_MINUTE = timedelta(minutes=1)
PARAMETERS = {"name": {"type": "string"}, "size": {"type": "integer"}}
TOOL = {
    "type": "function",
    "function": {
        "name": "read_record",
        "description": "Read a record.",
        "parameters": {"type": "object", "properties": PARAMETERS},
    },
}


class Model:
    """Asks the model, by the same HTTP and the same stream as ours."""

    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self._http = http
        self._url = f"{url}/chat/completions"

    @activity.defn
    async def ask(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """One request to the model; its message."""
        body = {"model": "fake", "messages": messages, "tools": [TOOL], "stream": True}
        said: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": []}
        async with self._http.stream("POST", self._url, json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    _add(said, json.loads(line[6:]))
        return said


def _add(said: dict[str, Any], chunk: dict[str, Any]) -> None:
    for choice in chunk["choices"]:
        said["content"] += choice["delta"].get("content") or ""
        for call in choice["delta"].get("tool_calls") or []:
            said["tool_calls"].append({key: call[key] for key in ("id", "type", "function")})


@activity.defn
async def read_record(arguments: dict[str, Any]) -> str:
    """Read a record."""
    name, size = str(arguments["name"]), int(arguments["size"])
    return (f"record {name}: " + "lorem ipsum " * size)[:size]


@workflow.defn
class RecordsWorkflow:
    """Ask, carry out the calls, append, ask again with everything."""

    @workflow.run
    async def run(self, prompt: str) -> str:
        """The model's last text."""
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "You read records."},
            {"role": "user", "content": prompt},
        ]
        while True:
            said: dict[str, Any] = await workflow.execute_activity(
                "ask", messages, start_to_close_timeout=ONE_MINUTE
            )
            messages.append(said)
            if not said["tool_calls"]:
                return str(said["content"])
            results = await asyncio.gather(*map(_carried_out, said["tool_calls"]))
            messages += results


async def _carried_out(call: dict[str, Any]) -> dict[str, Any]:
    arguments = json.loads(call["function"]["arguments"])
    result = await workflow.execute_activity(
        call["function"]["name"], arguments, start_to_close_timeout=ONE_MINUTE
    )
    return {"role": "tool", "tool_call_id": call["id"], "content": result}


REPLAYED = {"workflows": [RecordsWorkflow]}


async def main(queue: str) -> None:
    """Work until the process is ended."""
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    async with httpx.AsyncClient(timeout=60) as http:
        model = Model(http, os.environ["OPENAI_BASE_URL"])
        async with Worker(
            client,
            task_queue=queue,
            workflows=[RecordsWorkflow],
            activities=[model.ask, read_record],
        ):
            print("ready", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
