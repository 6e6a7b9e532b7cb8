"""Requests as Converse takes them: botocore's service model has taken every one of them."""

import json
from typing import Any

import httpx
import pytest

from holdfast.providers.base import ProviderRequest, ToolNames
from holdfast.providers.bedrock.format import BedrockFormat
from holdfast.providers.transport.http import HttpProvider
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import ChatMessage
from tests.providers.fakes import (
    TOOLS,
    ReceivedText,
    ask,
    chat_message,
    fragments_of,
    sent_body,
    target,
)
from tests.providers.wire.base import PICTURE
from tests.providers.wire.bedrock import BedrockWire, taken

WIRE = BedrockWire()
CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
POINT = {"cachePoint": {"type": "default"}}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


def sent(*messages: ChatMessage, **asked: Any) -> dict[str, Any]:
    """The body of a request, which botocore would send as well."""
    body = sent_body(BedrockFormat(), *messages, **asked)
    return taken("/model/gpt-test/converse-stream", body)


def called(*ids: str, **more: Any) -> ChatMessage:
    calls = [{"id": each, "providerId": each, "tool": "find", "arguments": {}} for each in ids]
    return chat_message("assistant", calls=calls, **more)


def result(own: str, content: Any = "found", **more: Any) -> ChatMessage:
    return chat_message("tool", content, callId=own, providerId=own, tool="find", **more)


def test_options_stand_where_converse_has_them() -> None:
    options = {
        "topP": 0.5,
        "inferenceConfig": {"stopSequences": ["END"]},
        "guardrailConfig": {"guardrailIdentifier": "abc", "guardrailVersion": "1"},
        "thinking": {"type": "enabled", "budget_tokens": 2_000},
        "additionalModelRequestFields": {"top_k": 5},
        "messages": [],
    }
    made = sent(model={"maxOutputTokens": 50, "options": options})
    assert made["inferenceConfig"] == {
        "maxTokens": 50,
        "temperature": 0.7,
        "topP": 0.5,
        "stopSequences": ["END"],
    }
    assert made["additionalModelRequestFields"] == {"top_k": 5, "thinking": options["thinking"]}
    assert made["guardrailConfig"] == options["guardrailConfig"]
    assert made["messages"]
    assert "toolConfig" not in made


@pytest.mark.parametrize("asked", [{}, {"tools": TOOLS, "toolChoice": "none"}])
def test_a_conversation_with_calls_has_a_tool_even_where_none_is_offered(asked: Any) -> None:
    made = sent(chat_message("user", "Hi"), called("a"), result("a"), **asked)
    [tool] = made["toolConfig"]["tools"]
    assert tool["toolSpec"]["description"] == "No tool can be called now."
    assert "toolConfig" not in sent(chat_message("user", 'Hi {"toolUse":{'), **asked)


def test_pictures_of_results_follow_the_last_one_and_ids_are_as_amazon_takes_them() -> None:
    picture = {"type": "image", "mediaType": "image/png", "data": PICTURE}
    far = {"type": "image", "url": "https://x/y.png"}
    odd = {**picture, "mediaType": "image/svg+xml"}
    long = "call:" + "x" * 80
    made = sent(
        chat_message("user", [far, odd]), called(long, "b"), result(long, [picture]), result("b")
    )
    user, model, results = made["messages"]
    assert [part["text"] for part in user["content"]] == [
        "(a picture at https://x/y.png, which was not fetched)",
        "(a picture of type image/svg+xml, which cannot be shown)",
    ]
    assert len(model["content"][0]["toolUse"]["toolUseId"]) == 64
    assert [next(iter(part)) for part in results["content"]] == [
        *("toolResult", "toolResult", "text", "image")
    ]


def test_what_has_no_role_in_a_conversation_is_a_user_s_and_nothing_is_empty() -> None:
    [first, *_] = sent(chat_message("assistant", "Hello"), chat_message("system", "In French."))[
        "messages"
    ]
    assert first == {
        "role": "user",
        "content": [{"text": "(the conversation begins with an answer)"}],
    }
    made = sent(
        chat_message("user", ""), chat_message("assistant", " "), called("a"), result("a", " ")
    )
    assert made["messages"][0]["content"] == [{"text": "(an empty message)"}]
    assert made["messages"][2]["content"][0]["toolResult"]["content"] == [{"text": "-"}]


def test_tools_have_only_what_every_model_takes() -> None:
    parameters = {
        "title": "Find",
        "type": "object",
        "properties": {"q": {"type": "string", "title": "Q"}},
        "required": ["q"],
        "additionalProperties": False,
        "anyOf": [{"required": ["q"]}],
    }
    made = sent(tools=[{"name": "find", "description": "", "parameters": parameters}])
    [tool] = made["toolConfig"]["tools"]
    own = {key: parameters[key] for key in ("type", "properties", "required")}
    assert tool["toolSpec"]["inputSchema"] == {"json": own}
    assert '{"anyOf": [{"required": ["q"]}]}' in tool["toolSpec"]["description"]


def test_a_schema_is_in_the_instructions_too_and_an_own_effort_beside_it() -> None:
    made = sent(output=SCHEMA, model={"options": {"outputConfig": {"effort": "low"}}})
    assert made["outputConfig"]["effort"] == "low"
    held = made["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"]
    assert json.loads(held) == SCHEMA
    [notice] = BedrockFormat().unsupported_notices(ask(output={"type": "array"}))
    assert "cannot enforce" in notice


def marks(made: dict[str, Any]) -> list[bool]:
    """Whether tools, instructions, and each message end with a cache mark."""
    places = [made["toolConfig"]["tools"], made["system"]]
    return [each[-1] == POINT for each in [*places, *(m["content"] for m in made["messages"])]]


def test_claude_s_requests_are_marked_for_the_cache_and_others_not() -> None:
    conversation = (chat_message("user", "Hi"), called("a"), result("a"), called("b"), result("b"))
    fragments = fragments_of(BedrockFormat(), *conversation)

    def marked(name: str, key: str = "run", **options: Any) -> list[bool]:
        wanted = ask(tools=TOOLS, model={"name": name, "options": options}, tail="The state")
        body = BedrockFormat().body(ProviderRequest(wanted, fragments, cache_key=key), "")
        return marks(taken("/model/gpt-test/converse-stream", body))

    # The last message ends with the state, which is not cached.
    assert marked(CLAUDE) == [True, True, False, False, True, False, False]
    assert not any(marked("amazon.nova-pro-v1:0"))
    assert not any(marked(CLAUDE, cachePoint=None))
    assert not any(marked(CLAUDE, key=""))
    assert any(marked("arn:aws:bedrock:eu:1:inference-profile/x", cachePoint=POINT["cachePoint"]))


class RefusingServer:
    """A server that refuses with one message until a request is as it has to be."""

    def __init__(self, status: int, message: str, *answers: bytes) -> None:
        self._replies = iter(
            [
                httpx.Response(status, json={"message": message}),
                *(httpx.Response(200, content=each) for each in answers),
            ]
        )
        self.requests: list[httpx.Request] = []
        http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        at = target(provider="bedrock", baseUrl=WIRE.base_url)
        self._provider = HttpProvider(BedrockFormat(), at, http)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return next(self._replies)

    async def solve(self, **asked: Any) -> Solution:
        wanted = ask(tools=TOOLS, **asked)
        fragments = fragments_of(
            BedrockFormat(), chat_message("user", "Hi"), names=ToolNames(wanted.tools)
        )
        request = ProviderRequest(wanted, fragments, cache_key="run")
        return await self._provider.solve(request, ReceivedText())


async def test_a_model_that_does_not_stream_calls_is_asked_for_the_whole_answer() -> None:
    message = "This model doesn't support tool use in streaming mode."
    server = RefusingServer(400, message, WIRE.whole, WIRE.whole)
    for _ in range(2):
        solution = await server.solve()
        assert [call.tool for call in solution.calls] == ["refund"]
    paths = [request.url.path.rpartition("/")[2] for request in server.requests]
    assert paths == ["converse-stream", "converse", "converse"]
    assert "toolConfig" in json.loads(server.requests[1].content)


async def test_a_model_that_cannot_be_forced_is_left_to_choose() -> None:
    message = (
        "This model doesn't support the toolConfig.toolChoice.any field. Remove"
        " toolConfig.toolChoice.any and try again."
    )
    server = RefusingServer(400, message, WIRE.answer("Yes"))
    solution = await server.solve(toolChoice="required")
    assert "toolChoice" not in json.loads(server.requests[1].content)["toolConfig"]
    assert "it decides whether to call one" in solution.notices[0]


@pytest.mark.parametrize("status", [400, 403])
async def test_a_model_without_a_cache_gets_no_marks(status: int) -> None:
    message = "You invoked an unsupported model or your request did not allow prompt caching."
    server = RefusingServer(status, message, WIRE.answer("Yes"))
    await server.solve(model={"name": CLAUDE})
    found = [b"cachePoint" in request.content for request in server.requests]
    assert found == [True, False]
