"""The client that the suite tests: lists and calls tools as a worker does, and approves nothing.

The suite starts `python -m tests.foreign.mcp_conformance.client URL` for each scenario, and names
the scenario in the environment. Servers, schemas and calls go through the worker's own code.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from holdfast.activities.mcp.call_tool import CallMcpToolActivity
from holdfast.activities.mcp.servers import McpServers
from holdfast.catalog.mcp_tools import ListedTool, tools_of_entry
from holdfast.catalog.registry import DefinitionRegistry
from holdfast.runtime.secrets import Secrets
from holdfast.schemas.internal.mcp_input import INPUT_REQUIRED, McpInputRequired
from holdfast.schemas.settings.servers import Server
from holdfast.schemas.tool import McpCall, ResolvedTool

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
# What an operator gives a worker that has no client of its own at the authorization server.
CLIENT = {"client_id": "holdfast", "client_secret": "a-secret-of-32-characters-or-so!"}
LISTED_ONLY = ("json-schema-ref-no-deref", "request-metadata")
ENTRY = "mcp:suite/*"
TEXTS = ("prompt/test_prompt", "https://example.com/resource?id=123")


async def settings_for(url: str, folder: Path) -> tuple[Server, dict[str, str]]:
    """The server's entry in `servers.yaml`, and the environment that it names."""
    written: dict[str, Any] = {"url": url, "protocol": "auto"}
    client = {**CLIENT, **CONTEXT}
    if not SCENARIO.startswith("auth/"):
        return Server.model_validate(written), {}
    auth = {"issuer": await issuer_of(url), "clientId": client["client_id"]}
    if "private_key_pem" in client:
        key = folder / "key.pem"
        key.write_text(client["private_key_pem"])
        auth["privateKeyFile"] = str(key)
    else:
        auth["clientSecretEnv"] = "SECRET"
    written["auth"] = auth
    return Server.model_validate(written), {"SECRET": client["client_secret"]}


async def issuer_of(url: str) -> str:
    """The issuer that an operator would write: the one that the server has at first."""
    at = httpx.URL(url)
    async with httpx.AsyncClient() as client:
        refusal = await client.post(url, json={})
        challenge = refusal.headers.get("www-authenticate", "")
        named = challenge.partition('resource_metadata="')[2].partition('"')[0]
        known = "/.well-known/oauth-protected-resource"
        for place in filter(None, (named, f"{known}{at.path}", known)):
            answer = await client.get(at.join(place))
            if answer.is_success:
                issuer: str = answer.json()["authorization_servers"][0]
                return issuer
    return str(at.copy_with(path="/"))


def arguments_for(tool: ResolvedTool, listed: Sequence[ListedTool]) -> Iterator[dict[str, Any]]:
    """The arguments of the calls of a tool: the suite's, or one of each type."""
    assert tool.mcp is not None
    named = [each for each in CONTEXT.get("toolCalls", ()) if each["name"] == tool.mcp.tool]
    if named:
        yield from (each["arguments"] for each in named)
    elif tool.mcp.tool == "json_schema_echo":
        yield {"schema": dict(next(each.input_schema for each in listed if "2020" in each.name))}
    else:
        kinds: dict[str, Any] = {"integer": 5, "number": 5, "string": "text", "boolean": True}
        fields = tool.parameters.get("properties", {}).items()
        yield {name: kinds.get(each.get("type"), "text") for name, each in fields}


async def call(activity: CallMcpToolActivity, tool: ResolvedTool, arguments: dict[str, Any]) -> Any:
    """Call a tool as a run does, and answer its forms with `true`."""
    assert tool.mcp is not None
    own = McpCall(idempotency_key=f"suite/{tool.name}")
    for _ in range(3):
        environment = ActivityEnvironment()
        result = await environment.run(
            activity.call_mcp_tool, arguments, tool.mcp.to_json(), own.to_json()
        )
        if INPUT_REQUIRED not in result:
            return result
        forms = McpInputRequired.read(result[INPUT_REQUIRED])
        given = forms.answered({"confirmed": True}, may_repeat=False)
        own = own.model_copy(update={"continuation": given})
    raise RuntimeError(f"{tool.name} requires input without an end")


async def main(url: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        server, environ = await settings_for(url, Path(folder))
        servers = McpServers({"suite": server}, environ, Secrets())
        async with servers.running():
            listed = (await servers.list_tools(["suite"]))["suite"]
            if isinstance(listed, str):
                print(listed, file=sys.stderr)
                return 1
            world = DefinitionRegistry("suite", servers={"suite": server})
            tools = tools_of_entry(ENTRY, world, {"suite": listed})
            if SCENARIO == "http-standard-headers":
                await servers.list_tools([f"suite/{each}" for each in TEXTS])
            activity = CallMcpToolActivity(servers)
            failed = 0
            for tool in tools if SCENARIO not in LISTED_ONLY else ():
                for arguments in arguments_for(tool, listed):
                    try:
                        await call(activity, tool, arguments)
                    except (ApplicationError, ConnectionResetError) as error:
                        print(f"{tool.name}: {error}", file=sys.stderr)
                        failed += 1
            return int(failed > 0)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
