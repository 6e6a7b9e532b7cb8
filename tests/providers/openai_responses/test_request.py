"""What the Responses API is sent, checked against the types of the `openai` package."""

import json
from typing import Any

import httpx
import pytest

from holdfast.providers.base import ProviderRequest
from holdfast.providers.openai_responses.format import OpenAIResponsesFormat
from holdfast.providers.transport.http import HttpProvider
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import ChatMessage
from tests.providers.fakes import (
    KEY,
    TOOLS,
    ReceivedText,
    ask,
    chat_message,
    read_answer,
    sent_body,
    target,
)
from tests.providers.wire.openai_responses import (
    call,
    ended,
    events,
    opening,
    piecemeal,
    text_output,
    thought,
    understood,
)

OFFICIAL = "api.openai.com"
PICTURE = {"type": "image", "mediaType": "image/png", "data": "iVBORw0KGgo="}
CALL = {"id": "t1c1", "providerId": "call_9", "tool": "rag.query", "arguments": {"q": "†ü"}}


def sent(*messages: ChatMessage, host: str = OFFICIAL, **asked: Any) -> dict[str, Any]:
    """The body of a request, once the package's types have taken it."""
    return understood(sent_body(OpenAIResponsesFormat(), *messages, host=host, **asked))


def again(solution: Solution) -> ChatMessage:
    """An answer as a run keeps it."""
    calls = [{"id": f"t1c{number}", **each.to_json()} for number, each in enumerate(solution.calls)]
    data = solution.to_json().get("providerData")
    return chat_message("assistant", solution.text, calls=calls, providerData=data)


def test_nothing_is_stored_and_reasoning_is_asked_for_in_encrypted_form() -> None:
    made = sent()
    assert (made["store"], made["stream"]) == (False, True)
    assert made["include"] == ["reasoning.encrypted_content"]
    assert made["input"] == [{"type": "message", "role": "user", "content": "Hi"}]


def test_an_answer_goes_back_item_by_item_as_it_came() -> None:
    items = (thought(0, "gAAAA-first", "I look."), thought(2, "gAAAA-second"))
    one, other = call(3, "refund", '{"n": 1}'), call(5, "refund", '{"n": 2}')
    told = opening(
        piecemeal(0, items[0]),
        text_output(1, "Let me see.", phase="commentary"),
        piecemeal(2, items[1]),
        piecemeal(3, one, '{"n": 1}'),
        piecemeal(4, thought(4, "gAAAA-third")),
        piecemeal(5, other, '{"n": 2}'),
    )
    answer = read_answer(OpenAIResponsesFormat(), events(*told, ended()))
    results = [
        chat_message("tool", "ok", callId=f"t1c{n}", providerId=each.provider_id, tool="refund")
        for n, each in enumerate(answer.calls)
    ]
    _, *back = sent(chat_message("user", "Hi"), again(answer), *results)["input"]
    kinds = ["reasoning", "message", "reasoning", "function_call", "reasoning", "function_call"]
    assert [each["type"] for each in back] == [*kinds, *["function_call_output"] * 2]
    assert [back[0], back[2]] == list(items)
    assert (back[1]["id"], back[1]["phase"]) == ("msg_1", "commentary")
    assert back[1]["content"][0]["text"] == "Let me see."
    assert [back[3]["id"], back[5]["id"]] == ["fc_3", "fc_5"]
    assert [each["call_id"] for each in back[-2:]] == ["call_3", "call_5"]


def test_two_messages_go_back_as_two() -> None:
    told = opening(text_output(0, "I look.", phase="commentary"), text_output(1, "5 days."))
    answer = read_answer(OpenAIResponsesFormat(), events(*told, ended()))
    own = {"type": "message", "role": "assistant"}
    assert sent(chat_message("user", "Hi"), again(answer))["input"][1:] == [
        {**own, "content": "I look.", "phase": "commentary"},
        {**own, "content": "5 days."},
    ]


@pytest.mark.parametrize(
    "data",
    [
        {"reasoning_content": "Hm."},
        [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "tool_use"}],
        [{"type": "reasoning", "summary": []}, {"type": "reasoning", "text": "Hm."}],
        ["x"],
        None,
    ],
)
def test_the_thoughts_of_another_provider_s_model_stay_where_they_are(data: Any) -> None:
    answer = chat_message("assistant", "Done.", calls=[CALL], providerData=data)
    _, text, asked = sent(chat_message("user", "Hi"), answer)["input"]
    assert text == {"type": "message", "role": "assistant", "content": "Done."}
    assert asked["arguments"] == '{"q": "†ü"}'
    assert "id" not in asked


def test_a_tool_is_not_strict_and_is_translated_where_openai_would_refuse_it() -> None:
    top = {"anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "array"}}}
    [tool] = sent(tools=[{"name": "find", "description": "Find.", "parameters": top}])["tools"]
    assert tool["strict"] is False
    assert tool["parameters"] == {
        "properties": {"a": {"items": {}, "type": "array"}},
        "type": "object",
    }
    assert tool["description"].startswith("Find.\n\nThe arguments must also fit")


def test_an_output_schema_is_beside_other_settings_of_the_text() -> None:
    schema = {"type": "object", "properties": {"total": {"type": "number"}}}
    options = {"options": {"text": {"verbosity": "low"}}}
    named = {"type": "json_schema", "name": "output", "schema": schema, "strict": False}
    assert sent(output=schema, model=options)["text"] == {"format": named, "verbosity": "low"}
    assert sent(output=True)["text"] == {"format": {"type": "json_object"}}
    assert "text" not in sent()


def test_options_have_the_last_word_but_for_what_is_the_engine_s() -> None:
    own = {"store": True, "background": True, "previous_response_id": "resp_1", "input": []}
    options = {"max_output_tokens": 9, "include": None, "temperature": None, **own}
    made = sent(model={"maxOutputTokens": 50, "options": options}, tools=TOOLS)
    assert made["max_output_tokens"] == 9
    assert "include" not in made
    assert "temperature" not in made
    assert (made["store"], len(made["input"])) == (False, 1)
    assert not own.keys() & made.keys() - {"store", "input"}


def test_images_of_an_answer_and_a_system_s_word_follow() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    _, _, shown, told = sent(
        chat_message("user", "Hi"),
        chat_message("assistant", [PICTURE]),
        chat_message("system", "Be quick."),
    )["input"]
    assert shown["content"][1] == picture | {"detail": "auto"}
    assert told == {"type": "message", "role": "system", "content": "Be quick."}


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/responses"),
        (
            "https://mine.openai.azure.com/openai/v1?api-version=preview",
            "https://mine.openai.azure.com/openai/v1/responses?api-version=preview",
        ),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1/responses"),
    ],
)
async def test_it_is_asked_at_openai_at_azure_and_at_any_server(
    base_url: str, expected: str
) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, content=events(*opening(text_output(0, "Hi")), ended()))

    headers = {"headersEnv": {"api-key": "TEST_KEY"}}
    at = target(provider="openai-responses", baseUrl=base_url, **headers)
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    provider = HttpProvider(OpenAIResponsesFormat(), at, http)
    request = ProviderRequest(ask(), (b"{}",), cache_key="k1")
    assert (await provider.solve(request, ReceivedText())).text == "Hi"
    assert str(asked[0].url) == expected
    assert asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert asked[0].headers["api-key"] == KEY
    key = json.loads(asked[0].content).get("prompt_cache_key")
    assert key == (None if "127.0.0.1" in base_url else "k1")


async def refused_once(message: str, status: int = 400) -> tuple[list[dict[str, Any]], Any]:
    """Two requests to a server that refuses encrypted reasoning: what it was sent."""
    made: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        made.append(understood(request.content))
        if any("encrypted_content" in str(made[-1].get(name)) for name in ("include", "input")):
            return httpx.Response(status, json={"error": {"message": message}})
        return httpx.Response(200, content=events(*opening(text_output(0, "Hi")), ended()))

    data = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
        {"type": "call", "id": "fc_1"},
    ]
    answered = chat_message("assistant", calls=[CALL], providerData=data)
    at = target(provider="openai-responses")
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    provider = HttpProvider(OpenAIResponsesFormat(), at, http)
    names = ProviderRequest(ask(tools=TOOLS), ()).tool_names
    fragments = provider.encode(answered, names).fragments
    for _ in range(2):
        solution = await provider.solve(
            ProviderRequest(ask(tools=TOOLS), fragments), ReceivedText()
        )
    return made, solution


@pytest.mark.parametrize(
    "message",
    ["Encrypted content is not supported with this model.", "Unknown parameter: 'include'."],
)
async def test_a_model_that_does_not_reason_is_not_asked_for_its_reasoning_again(
    message: str,
) -> None:
    made, solution = await refused_once(message)
    assert solution.text == "Hi"
    assert ["include" in each for each in made] == [True, False, False]


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("The encrypted content gAAA...DQ== could not be verified.", 400),
        ("Item with id 'rs_1' not found. Items are not persisted when `store` is set to", 404),
    ],
)
async def test_reasoning_that_a_model_cannot_read_is_left_out_of_the_request(
    message: str, status: int
) -> None:
    made, _ = await refused_once(message, status)
    assert ["include" in each for each in made] == [True, False] * 2
    [asked] = made[1]["input"]
    assert (asked["type"], "id" in asked) == ("function_call", False)
