"""What one writes first: a workflow that passes the whole conversation to every model call."""

import json
from datetime import timedelta
from typing import Any

from temporalio import workflow

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
