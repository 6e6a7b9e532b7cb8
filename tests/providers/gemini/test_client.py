"""Google's own client as a witness: it sends what we send, and reads what our fake server says."""

import json
from typing import Any

import httpx
from google import genai
from google.genai import types

from holdfast.providers.gemini.format import GeminiFormat
from tests.providers.fakes import KEY, ask, said
from tests.providers.gemini.gemini_exchange import CALL, SIGNED, at, read, sent
from tests.providers.wire.gemini import call, event, events, typed

LOOSE = {"type": "object", "properties": {"q": {"type": "string"}}}


def by_google_s_client(*server_events: Any) -> tuple[httpx.Request, list[types.Part]]:
    """What Google's own client sends for a conversation with a call, and what it reads."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, content=events(server_events))

    http = httpx.Client(transport=httpx.MockTransport(answer))
    client = genai.Client(api_key=KEY, http_options=types.HttpOptions(httpx_client=http))
    call_part, result_part = (
        types.Part(
            function_call=types.FunctionCall(id="fc_9", name="rag_query", args={"q": "†ü"}),
            thought_signature=b"signed",
        ),
        types.Part(
            function_response=types.FunctionResponse(
                id="fc_9", name="rag_query", response={"output": "12"}
            )
        ),
    )
    picture = types.Part.from_uri(file_uri="https://x/y.png", mime_type="image/png")
    declared = types.FunctionDeclaration(name="rag_query", parameters_json_schema=LOOSE)
    calling = types.FunctionCallingConfig(
        mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["rag_query"]
    )
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        temperature=0.7,
        max_output_tokens=50,
        thinking_config=types.ThinkingConfig(thinking_budget=0),
        tools=[types.Tool(function_declarations=[declared])],
        tool_config=types.ToolConfig(function_calling_config=calling),
    )
    chunks = client.models.generate_content_stream(
        model="gpt-test",
        contents=[
            types.Content(role="user", parts=[types.Part(text="Hi"), picture]),
            types.Content(role="model", parts=[call_part]),
            types.Content(role="user", parts=[result_part]),
        ],
        config=config,
    )
    parts = [part for chunk in chunks for part in chunk.parts or ()]
    return asked[0], parts


def test_google_s_own_client_sends_the_same_and_reads_our_server() -> None:
    server_events = [
        event({"text": "Yes"}),
        event(call("refund", {"a": 1}, thoughtSignature=SIGNED), finish="STOP"),
    ]
    request, parts = by_google_s_client(*server_events)
    hello = said(
        "user", [{"type": "text", "text": "Hi"}, {"type": "image", "url": "https://x/y.png"}]
    )
    data = [{"type": "call", "signature": SIGNED}]
    asked = said("assistant", calls=[CALL], providerData=data)
    result = said("tool", "12", callId="t1c1", providerId="fc_9", tool="rag.query")
    ours = sent(
        *(hello, asked, result),
        tools=[{"name": "rag.query", "description": "", "parameters": LOOSE}],
        toolChoice={"name": "rag.query"},
        model={"maxOutputTokens": 50, "options": {"thinkingConfig": {"thinkingBudget": 0}}},
    )
    theirs = json.loads(request.content)
    del theirs["systemInstruction"]["role"]
    assert typed(ours) == typed(theirs)
    assert request.headers["x-goog-api-key"] == KEY
    assert str(GeminiFormat().url(at(), ask())) == str(request.url).replace("/v1/", "/v1beta/")
    solution = read(*server_events)
    assert [part.text for part in parts if part.text] == [solution.text]
    [called] = [part.function_call for part in parts if part.function_call]
    assert (called.name, called.args) == (solution.calls[0].tool, solution.calls[0].arguments)
