"""Formats at a server that others wrote: aimock, from the registry of Node's packages.

It is run as a subprocess on loopback, takes its answers from a test, and keeps what it was asked.
No server of Ollama's own can be had without a model of some gigabytes, and none of the others'.
"""

import json
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from holdfast.catalog.endpoints import FORMATS, http_client
from holdfast.hosting.worker import WorkerSettings, build_worker
from holdfast.providers import model_errors
from holdfast.providers.base import (
    ProviderError,
    ProviderRefused,
    ProviderRequest,
    TruncatedAnswer,
    UnreadableAnswer,
    tool_names,
)
from holdfast.providers.transport.http import HttpProvider
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.settings.endpoints import ProviderName
from tests.providers.fakes import TOOLS, ReceivedText, ask, chat_message, target
from tests.support.backend import TOOLS as BACKEND_TOOLS
from tests.support.backend import Run
from tests.support.identity.token_services import TokenService, token_service

pytestmark = pytest.mark.typescript

AIMOCK = Path(__file__).with_name("node")
# It takes a free port by itself, and ends with its standard input, so it outlives no test.
_SERVE = """
import { LLMock } from "@copilotkit/aimock";
const server = new LLMock({ port: 0, chunkSize: 8, logLevel: "silent" });
console.log(await server.start());
process.stdin.on("end", () => process.exit()).resume();
"""
TEXT = "Guten Tag, Zoë: the order is on its way 😀, and will be with you tomorrow at noon."
CITIES = ("Oslo", "Rome", "Bern", "Kyiv")
NAMES = tool_names(ask(tools=TOOLS).tools)
# The address of each format.
PATHS: dict[ProviderName, str] = {"ollama": "", "bedrock": "", "openai-responses": "/v1"}
# The server takes models of this name for such that reason.
MODEL = "gpt-5-test"


@dataclass(frozen=True)
class AimockServer:
    """The server, by its address and its interface for tests; it is asked in one format."""

    url: str
    provider: ProviderName = "ollama"

    @property
    def base_url(self) -> str:
        """Where it is asked."""
        return self.url + PATHS[self.provider]

    def plan(self, response: dict[str, Any], **fixture: Any) -> None:
        """What it answers from now on, where `match` fits; what was planned before comes first."""
        planned = [{"match": {}, "response": response, **fixture}]
        self._post("fixtures", {"fixtures": planned})

    def forget(self) -> None:
        """What was planned, and what it was asked."""
        self._post("reset", {})

    def asked(self) -> list[dict[str, Any]]:
        """What it understood of the requests: each as a chat completion's."""
        answer = httpx.get(f"{self.url}/v1/_requests", trust_env=False).raise_for_status()
        return [entry["body"] for entry in answer.json()]

    def _post(self, path: str, value: dict[str, Any]) -> None:
        url = f"{self.url}/__aimock/{path}"
        httpx.post(url, json=value, trust_env=False).raise_for_status()


@pytest.fixture(scope="module")
def server() -> Iterator[AimockServer]:
    command = ["node", "--input-type=module", "-e", _SERVE]
    with subprocess.Popen(
        command, cwd=AIMOCK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        yield AimockServer(process.stdout.readline().strip())
        process.stdin.close()
        process.wait(10)


@pytest.fixture(params=PATHS)
def mock(server: AimockServer, request: pytest.FixtureRequest) -> AimockServer:
    """The server in one format after the other, with nothing planned."""
    server.forget()
    return replace(server, provider=request.param)


@pytest.fixture
def tokens() -> Iterator[TokenService]:
    with token_service() as service:
        yield service


def at(mock: AimockServer, **headers: str) -> EndpointTarget:
    """The server as an endpoint; headers make it fail."""
    return target(
        provider=mock.provider,
        baseUrl=mock.base_url,
        apiKeyEnv=None,
        timeout="2s",
        headers=headers,
    )


async def solve(
    where: EndpointTarget, *messages: ChatMessage, heard: ReceivedText | None = None, **asked: Any
) -> Solution:
    """Ask it."""
    spoken = FORMATS[where.endpoint.provider]
    encoded = [
        spoken.encode(message, NAMES) for message in messages or [chat_message("user", "Hi")]
    ]
    fragments = [part for each in encoded for part in (*each.fragments, *each.deferred)]
    async with http_client() as http:
        provider = HttpProvider(spoken, where, http)
        wanted = ask(**{"model": {"name": MODEL}, **asked})
        return await provider.solve(
            ProviderRequest(wanted, tuple(fragments)), heard or ReceivedText()
        )


async def test_a_text_is_received_in_pieces(mock: AimockServer) -> None:
    mock.plan({"content": TEXT, "reasoning": "Hm."})
    heard = ReceivedText()
    solution = await solve(at(mock), heard=heard)
    assert (solution.text, solution.stop_reason) == (TEXT, "stop")
    assert "".join(heard.texts) == TEXT
    assert len(heard.texts) > 5


async def test_four_calls_and_a_text_beside_them(mock: AimockServer) -> None:
    calls = [{"name": "rag_query", "arguments": {"city": city}} for city in CITIES]
    mock.plan({"content": "One moment.", "toolCalls": calls})
    solution = await solve(at(mock), tools=TOOLS)
    assert solution.text == "One moment."
    assert [(call.tool, call.arguments) for call in solution.calls] == [
        ("rag.query", {"city": city}) for city in CITIES
    ]


async def test_calls_and_results_and_tools_are_understood(mock: AimockServer) -> None:
    mock.plan({"content": "Done."})
    call = {"id": "t1c1", "providerId": "c1", "tool": "rag.query", "arguments": {"city": "Zürich"}}
    result = chat_message("tool", "12 °C", callId="t1c1", providerId="c1", tool="rag.query")
    conversation = (chat_message("user", "Hi"), chat_message("assistant", calls=[call]), result)
    await solve(at(mock), *conversation, tools=TOOLS, model={"maxOutputTokens": 50})
    [asked] = mock.asked()
    assert [each["role"] for each in asked["messages"]] == ["system", "user", "assistant", "tool"]
    [function] = [each["function"] for each in asked["messages"][2]["tool_calls"]]
    assert (function["name"], json.loads(function["arguments"])) == (
        "rag_query",
        {"city": "Zürich"},
    )
    assert asked["messages"][3]["content"] == "12 °C"
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["rag_query", "refund"]
    assert (asked["stream"], asked["temperature"], asked["max_tokens"]) == (True, 0.7, 50)


async def test_too_many_requests_are_reported_with_their_delay(mock: AimockServer) -> None:
    busy = {"error": {"message": "slow down", "type": "rate_limit"}, "status": 429, "retryAfter": 7}
    mock.plan(busy)
    with pytest.raises(ProviderRefused) as refused:
        await solve(at(mock))
    error = model_errors.provider_error(refused.value, at(mock), "tiny", 1)
    assert not error.non_retryable
    assert error.next_retry_delay == timedelta(seconds=7)
    assert "answered 429: slow down" in error.message


async def test_a_bad_request_is_reported_in_the_server_s_words(mock: AimockServer) -> None:
    mock.plan({"error": {"message": "the model is unknown"}, "status": 400})
    with pytest.raises(ProviderRefused) as refused:
        await solve(at(mock))
    assert (refused.value.status, refused.value.message) == (400, "the model is unknown")


@pytest.mark.parametrize("after", [1, 2, 5])
async def test_a_stream_that_is_cut_is_no_answer(mock: AimockServer, after: int) -> None:
    mock.plan({"content": TEXT}, truncateAfterChunks=after)
    with pytest.raises((TruncatedAnswer, httpx.RemoteProtocolError)):
        await solve(at(mock))


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("malformed", UnreadableAnswer),
        ("disconnect", httpx.RemoteProtocolError),
        ("drop", ProviderRefused),
        ("ratelimit", ProviderRefused),
    ],
)
async def test_what_it_breaks_on_purpose_is_asked_again(
    mock: AimockServer, fault: str, expected: type[ProviderError | httpx.HTTPError]
) -> None:
    mock.plan({"content": TEXT})
    with pytest.raises(expected) as error:
        await solve(at(mock, **{f"x-aimock-chaos-{fault}": "1"}))
    assert isinstance(error.value, ProviderError | httpx.HTTPError)
    told = model_errors.provider_error(error.value, at(mock), "tiny", 1)
    assert not told.non_retryable


async def test_a_run_calls_its_tool_and_ends(
    client: Client,
    mock: AimockServer,
    tokens: TokenService,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    tokens.set_up("aws", monkeypatch, tmp_path)
    call = {"name": "echo", "arguments": {"text": "coffee", "times": 2}}
    mock.plan({"toolCalls": [call]}, match={"hasToolResult": False})
    mock.plan({"content": "Twice."}, match={"hasToolResult": True})
    endpoints = tmp_path / "endpoints.yaml"
    auth = {"auth": {"type": "aws", "region": "eu-central-1"}} if mock.provider == "bedrock" else {}
    home = {"provider": mock.provider, "baseUrl": mock.base_url, **auth}
    endpoints.write_text(json.dumps({"home": home}))
    settings = WorkerSettings(
        tools=[str(BACKEND_TOOLS)], endpoints=endpoints, task_queue=f"aimock-{uuid.uuid4().hex[:8]}"
    )
    async with build_worker(client, settings):
        model = {"endpoint": "home", "name": MODEL}
        agent = {"name": "tester", "model": model, "tools": ["echo"]}
        handle = await client.start_workflow(
            "AgentWorkflow",
            {"agent": agent, "input": "Say coffee twice."},
            id=f"aimock-{uuid.uuid4().hex[:12]}",
            task_queue=settings.task_queue,
        )
        run = Run(handle)
        result = await run.result()
        assert (result["status"], result["output"]) == ("completed", "Twice.")
        assert (result["turns"], result["calls"]) == (2, 1)
        assert await run.results() == {"t1c1": "coffeecoffee"}
        assert tokens.given == (1 if auth else 0)
        assert "token-1" not in str(await run.history())
