"""Requests as Gemini takes them: where they go, and each message, tool and setting in them."""

from typing import Any

import pytest

from holdfast.catalog.endpoints import FORMATS
from holdfast.providers.gemini.format import UNSIGNED, GeminiFormat
from tests.providers.fakes import KEY, TOOLS, ask, chat_message
from tests.providers.gemini.gemini_exchange import BASE, CALL, OWN, PICTURE, at, contents, sent

# Where it is sent.


@pytest.mark.parametrize(
    ("base", "model", "expected"),
    [
        (BASE, "gemini-3-flash", f"{BASE}/v1beta/models/gemini-3-flash"),
        (f"{BASE}/v1beta/", "models/gemini-3-flash", f"{BASE}/v1beta/models/gemini-3-flash"),
        (f"{BASE}/v1", "gemini-3-flash", f"{BASE}/v1/models/gemini-3-flash"),
        ("http://h:1/gemini", "tunedModels/a", "http://h:1/gemini/v1beta/tunedModels/a"),
        (BASE, "a/b:c@d", f"{BASE}/v1beta/models/a/b%3Ac%40d"),
    ],
)
def test_the_address_holds_the_version_and_the_model(base: str, model: str, expected: str) -> None:
    url = GeminiFormat().url(at(base), ask(model={"name": model}))
    assert str(url) == f"{expected}:streamGenerateContent?alt=sse"


def test_the_key_is_in_a_header_and_never_in_the_address() -> None:
    assert at().headers(GeminiFormat().headers) == {"x-goog-api-key": KEY}
    assert KEY not in str(GeminiFormat().url(at(), ask()))
    assert FORMATS["gemini"].headers(None) == {}


# What is sent.


def test_settings_of_the_model_are_in_their_place_and_those_of_the_request_at_the_top() -> None:
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]
    options = {
        "topP": 0.5,
        "thinkingConfig": {"thinkingBudget": 0},
        "generationConfig": {"seed": 7, "topP": 0.1},
        "safetySettings": safety,
        "contents": [],
        "tools": [],
        "systemInstruction": {},
    }
    made = sent(model={"maxOutputTokens": 50, "options": options})
    assert made["generationConfig"] == {
        "temperature": 0.7,
        "maxOutputTokens": 50,
        "topP": 0.5,
        "seed": 7,
        "thinkingConfig": {"thinkingBudget": 0},
    }
    assert made["safetySettings"] == safety
    assert made["contents"]
    assert made["systemInstruction"]["parts"]
    assert "tools" not in made


def test_an_agent_s_tool_config_is_added_to_the_tool_choice() -> None:
    config = {"retrievalConfig": {"languageCode": "de"}}
    made = sent(tools=TOOLS, toolChoice="required", model={"options": {"toolConfig": config}})
    assert made["toolConfig"] == {**config, "functionCallingConfig": {"mode": "ANY"}}
    own = {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert sent(tools=TOOLS, model={"options": {"toolConfig": own}})["toolConfig"] == own


def test_parameters_are_sent_as_json_schema_and_no_parameters_as_none() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string", "minLength": 1}}}
    tools = [*TOOLS, {"name": "find", "description": "", "parameters": schema}]
    assert sent(tools=tools)["tools"] == [
        {
            "functionDeclarations": [
                {"name": "rag_query", "description": "Search."},
                {"name": "refund"},
                {"name": "find", "parametersJsonSchema": schema},
            ]
        }
    ]


def test_any_json_is_asked_for_by_its_media_type() -> None:
    config = {"temperature": 0.7, "responseMimeType": "application/json"}
    assert sent(output=True)["generationConfig"] == config
    schema = {"type": "object", "properties": {"a": {"const": 1}}}
    assert sent(output=schema)["generationConfig"] == {
        **config,
        "responseJsonSchema": {
            "type": "object",
            "properties": {"a": {"type": "number", "enum": [1]}},
        },
    }


@pytest.mark.parametrize("output", [True, {"type": "object"}])
def test_a_form_and_tools_are_never_asked_for_together(output: Any) -> None:
    made = sent(tools=TOOLS, output=output, toolChoice="none")
    assert made["generationConfig"]["responseMimeType"] == "application/json"
    assert set(made) == {"contents", "systemInstruction", "generationConfig"}
    made = sent(tools=TOOLS, output=output)
    assert made["generationConfig"] == {"temperature": 0.7}
    assert made["tools"]
    [notice] = GeminiFormat().unsupported_notices(ask(tools=TOOLS, output=output))
    assert "cannot enforce an output's schema beside tools" in notice
    assert (
        GeminiFormat().unsupported_notices(ask(output=output))
        == GeminiFormat().unsupported_notices(ask(tools=TOOLS))
        == []
    )


def test_results_are_in_one_content_each_with_the_id_that_gemini_gave_its_call() -> None:
    asked = chat_message("assistant", "Let me look.", calls=[CALL, OWN])
    failed = '{"error": {"code": "denied", "message": "no"}}'
    results = [
        chat_message(
            "tool", failed, callId="t1c1", providerId="fc_9", tool="rag.query", isError=True
        ),
        chat_message("tool", "12", callId="t1c2", providerId="t1c2", tool="rag.query"),
    ]
    said_before = (chat_message("user", "Hi"), asked, *results, chat_message("user", "And?"))
    _, model, user = contents(*said_before, tail="The state: {}")
    called = {"name": "rag_query", "args": {"q": "†ü"}}
    assert model["parts"] == [
        {"text": "Let me look."},
        {"functionCall": {**called, "id": "fc_9"}, "thoughtSignature": UNSIGNED},
        {"functionCall": called},
    ]
    assert user["parts"] == [
        {"functionResponse": {"name": "rag_query", "id": "fc_9", "response": {"error": failed}}},
        {"functionResponse": {"name": "rag_query", "response": {"output": "12"}}},
        {"text": "And?"},
        {"text": "The state: {}"},
    ]


def test_pictures_of_results_follow_the_last_result_of_the_turn() -> None:
    pictured = chat_message("tool", [PICTURE], tool="rag.query", callId="t1c1", providerId="fc_9")
    plain = chat_message("tool", "ok", tool="rag.query", callId="t1c2", providerId="t1c2")
    _, _, user = contents(chat_message("assistant", calls=[CALL, OWN]), pictured, plain)
    assert ["functionResponse" in part for part in user["parts"]] == [True, True, False, False]
    assert user["parts"][2:] == [
        {"text": "The pictures of the result of rag_query:"},
        {"inlineData": {"mimeType": "image/png", "data": PICTURE["data"]}},
    ]


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        (
            {"url": "https://x/y.JPG?s=a.b"},
            {"fileData": {"fileUri": "https://x/y.JPG?s=a.b", "mimeType": "image/jpeg"}},
        ),
        (
            {"url": "gs://x/y", "mediaType": "image/webp"},
            {"fileData": {"fileUri": "gs://x/y", "mimeType": "image/webp"}},
        ),
        ({"url": "https://x/y"}, {"fileData": {"fileUri": "https://x/y"}}),
        ({"url": "http://x/y"}, {"text": "(a picture at http://x/y, which was not fetched)"}),
        (
            {"url": "data:image/png;base64,iVBORw0KGgo="},
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        ),
        (
            {"mediaType": "image/gif", "data": "R0lGOD=="},
            {"text": "(a picture of type image/gif, which cannot be shown)"},
        ),
    ],
)
def test_a_picture_is_sent_by_value_or_address_or_marked_as_missing(
    picture: Any, expected: Any
) -> None:
    [user] = contents(chat_message("user", [{"type": "image", **picture}]))
    assert user["parts"] == [expected]


def test_an_empty_message_is_left_out_or_marked_as_empty() -> None:
    empty = chat_message("assistant", "")
    assert contents(
        chat_message("user", "Hi"), empty, chat_message("user", "You said nothing.")
    ) == [{"role": "user", "parts": [{"text": "Hi"}, {"text": "You said nothing."}]}]
    assert contents(chat_message("user", "")) == [
        {"role": "user", "parts": [{"text": "(an empty message)"}]}
    ]


def test_what_has_no_role_in_a_conversation_is_a_user_s() -> None:
    [user] = contents(chat_message("system", "Now in French."), chat_message("tool", "12 °C"))
    assert user == {
        "role": "user",
        "parts": [{"text": "<system>\nNow in French.\n</system>"}, {"text": "12 °C"}],
    }
