"""What is Ollama's own: answers as its servers write them, and what becomes of its refusals.

Its package is also a second witness: what our fake server sends, its client reads.
"""

import json
from typing import Any

import httpx
import ollama
import pytest

from holdfast.providers import model_errors
from holdfast.providers.answer.streamed_answer import MAX_PROVIDER_DATA_BYTES
from holdfast.providers.base import ContextOverflow, ProviderRefused
from holdfast.providers.ollama.format import OllamaFormat
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.internal.solution import Solution
from tests.providers.fakes import TOOLS, ask, chat_message, read_answer, target
from tests.providers.ollama.test_request import sent
from tests.providers.test_conformance import Exchange, good
from tests.providers.wire.ollama import OllamaWire, call, last, lines, piece

LOCAL = target(provider="ollama", baseUrl="http://127.0.0.1:11434", apiKeyEnv=None)


def read(*pieces: Any) -> Solution:
    return read_answer(OllamaFormat(), lines(*pieces))


async def solve(response: httpx.Response, **asked: Any) -> Solution:
    return await Exchange(OllamaWire(), response).solve(**asked)


# What it cannot be sent, and a key.


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("auto", []),
        ("none", []),
        ("required", ["Ollama has no tool choice: the model decides whether to call a tool"]),
        (
            {"name": "rag.query"},
            ["Ollama has no tool choice: only `rag.query` was offered"],
        ),
    ],
)
async def test_a_tool_choice_that_ollama_lacks_is_noted(choice: Any, told: list[str]) -> None:
    body = OllamaWire().answer("Yes")
    assert (await solve(good(body), tools=TOOLS, toolChoice=choice)).notices == told
    assert (await solve(good(body), toolChoice=choice)).notices == []


async def test_a_key_is_sent_where_there_is_one() -> None:
    cloud = target(provider="ollama", baseUrl="https://ollama.com/api")
    assert cloud.headers(OllamaFormat().headers)["authorization"].startswith("Bearer sk-")
    assert "authorization" not in LOCAL.headers(OllamaFormat().headers)
    assert OllamaFormat().url(cloud, ask()) == "https://ollama.com/api/chat"


# What it sends.


def test_thoughts_that_led_to_a_call_are_kept_up_to_a_bound() -> None:
    calls = piece({"tool_calls": [call("refund", {})]})
    solution = read(piece({"thinking": "I "}), piece({"thinking": "see."}), calls, last())
    assert solution.provider_data == {"thinking": "I see."}
    too_long = read(piece({"thinking": "x" * MAX_PROVIDER_DATA_BYTES}), calls, last())
    assert too_long.provider_data is None
    assert "the provider's own data" in too_long.notices[0]


def test_calls_come_with_ids_or_without_and_stay_apart() -> None:
    plain = call("rag_query", {"q": "†ü"})
    solution = read(
        piece({"content": "One moment. ", "tool_calls": [plain, plain]}),
        piece({"tool_calls": [call("refund", {}, id="call_1")]}),
        last(),
    )
    assert [(each.provider_id, each.tool, each.arguments) for each in solution.calls] == [
        (None, "rag.query", {"q": "†ü"}),
        (None, "rag.query", {"q": "†ü"}),
        ("call_1", "refund", {}),
    ]
    assert (solution.text, solution.stop_reason) == ("One moment. ", "calls")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [('{"n": 1}', {"n": 1}), ("{n", "{n"), (None, None), ([1], "[1]"), ({"n": 1}, {"n": 1})],
)
def test_arguments_that_are_no_object_are_read_for_what_they_are(
    arguments: Any, expected: Any
) -> None:
    calls = [{"function": {"name": "refund", "arguments": arguments}}]
    [made] = read({"message": {"tool_calls": calls}, "done": True}).calls
    assert made.arguments == expected


def test_the_last_piece_of_an_old_server_has_no_message() -> None:
    solution = read(piece({"content": "x"}), {"model": "m", "done": True, "eval_count": 4})
    assert (solution.text, solution.usage.output_tokens) == ("x", 4)


async def test_what_comes_after_the_end_is_not_read() -> None:
    body = OllamaWire().answer("Hello") + lines(piece({"content": " again"}), last("length"))
    solution = await solve(good(body))
    assert (solution.text, solution.stop_reason) == ("Hello", "stop")


# How it refuses.


async def error_message(status: int, error: Any, at: EndpointTarget = LOCAL) -> str:
    with pytest.raises((ProviderRefused, ContextOverflow)) as refused:
        await solve(httpx.Response(status, json={"error": error}))
    application_error = model_errors.provider_error(refused.value, at, "tiny", 1)
    assert application_error.non_retryable
    return application_error.message


async def test_a_model_that_is_not_there_is_to_be_pulled() -> None:
    message = await error_message(404, "model 'tiny' not found")
    assert "model 'tiny' not found. Pull it where Ollama runs (`ollama pull tiny`)" in message
    elsewhere = target(baseUrl="http://x")
    assert "pull" not in await error_message(404, "no such model", elsewhere)


async def test_a_conversation_that_does_not_fit_is_reported_with_the_setting() -> None:
    # Ollama hands on what the server within it sent: JSON in a text.
    inner = "request (5000 tokens) exceeds the available context size (4096 tokens)"
    error = json.dumps({"error": {"code": 400, "message": inner, "type": "exceed_context_size"}})
    message = await error_message(400, error)
    assert message.endswith(f"{inner}. Raise `num_ctx` in the `options` of the agent's `model`")
    assert "num_ctx" not in await error_message(400, '"tiny" does not support thinking')


# Its own client, as a second witness.


def test_what_its_own_client_sends_is_what_we_send() -> None:
    seen: list[dict[str, Any]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append({"path": request.url.path, **json.loads(request.content)})
        return httpx.Response(200, content=OllamaWire().answer("Hi"))

    ours = sent(chat_message("user", "Hi"), tools=TOOLS[1:], output={"type": "object"})
    client = ollama.Client(transport=httpx.MockTransport(handle))
    tools = [{**tool, "function": {**tool["function"]}} for tool in ours["tools"]]
    plain = {"messages": ours["messages"], "options": ours["options"], "format": ours["format"]}
    list(client.chat(model=ours["model"], stream=True, tools=tools, **plain))
    assert seen[0].pop("path") == "/api/chat"
    ours = {name: ours[name] for name in ours if name not in ("truncate", "shift")}
    assert seen[0] == ours
