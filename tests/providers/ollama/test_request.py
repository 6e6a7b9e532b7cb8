"""What an Ollama chat is sent, checked against the types of the `ollama` package."""

from typing import Any

import pytest

from holdfast.providers.ollama.format import OllamaFormat
from holdfast.schemas.message import ChatMessage
from tests.providers.fakes import TOOLS, chat_message, sent_body
from tests.providers.wire.ollama import understood

PICTURE = {"type": "image", "mediaType": "image/png", "data": "iVBORw0KGgo="}
CALL = {"id": "t1c1", "providerId": "call_9", "tool": "rag.query", "arguments": {"q": "†ü"}}


def sent(*messages: ChatMessage, **asked: Any) -> dict[str, Any]:
    """The body of a request, once the package's types have taken it."""
    return understood(sent_body(OllamaFormat(), *messages, **asked))


def test_pictures_are_base64_beside_the_text_and_no_address_is_sent_as_one() -> None:
    address = {"type": "image", "url": "https://x/y.png"}
    holding = {"type": "image", "url": "data:image/png;name=a.png;base64,AAAA"}
    content = [{"type": "text", "text": "What is it?"}, PICTURE, address, holding]
    _, user = sent(chat_message("user", content))["messages"]
    assert user["images"] == [PICTURE["data"], "AAAA"]
    assert user["content"] == (
        "What is it?\n\n(a picture at https://x/y.png, which was not fetched)"
    )


def test_pictures_of_results_follow_the_last_result_of_the_turn() -> None:
    pictured = chat_message("tool", [PICTURE], tool="rag.query", providerId="call_9")
    plain = chat_message("tool", "ok", tool="rag.query", providerId="call_10")
    asked = chat_message("assistant", calls=[CALL, {**CALL, "providerId": "call_10"}])
    messages = sent(asked, pictured, plain)["messages"]
    assert [each["role"] for each in messages] == ["system", "assistant", "tool", "tool", "user"]
    assert messages[4] == {
        "role": "user",
        "content": "The pictures of the result of rag_query:",
        "images": [PICTURE["data"]],
    }


@pytest.mark.parametrize(
    ("output", "expected"), [({"type": "object"}, {"type": "object"}), (True, "json")]
)
def test_a_structured_answer_is_a_schema_or_any_json(output: Any, expected: Any) -> None:
    assert sent(output=output)["format"] == expected
    assert "format" not in sent()


def test_a_prompt_that_does_not_fit_is_never_cut_in_silence() -> None:
    assert (sent()["truncate"], sent()["shift"]) == (False, False)
    assert sent(model={"options": {"truncate": True}})["truncate"] is True
    assert sent(model={"options": {"shift": True}})["shift"] is True


def test_settings_of_the_model_are_in_options_and_those_of_the_request_at_the_top() -> None:
    options = {
        "num_ctx": 32_768,
        "top_p": 0.5,
        "keep_alive": "1h",
        "think": "high",
        "options": {"seed": 7, "top_p": 0.1},
        "stream": False,
        "messages": [],
        "tools": [],
    }
    made = sent(model={"maxOutputTokens": 50, "options": options}, tools=TOOLS)
    assert made["options"] == {
        "temperature": 0.7,
        "num_predict": 50,
        "num_ctx": 32_768,
        "top_p": 0.5,
        "seed": 7,
    }
    assert (made["keep_alive"], made["think"], made["stream"]) == ("1h", "high", True)
    assert (len(made["messages"]), len(made["tools"])) == (2, 2)


def test_options_have_the_last_word() -> None:
    options = {"num_predict": 9, "temperature": 0, "format": "json", "model": "other"}
    made = sent(model={"maxOutputTokens": 50, "options": options}, output={"type": "object"})
    assert made["options"] == {"num_predict": 9, "temperature": 0}
    assert (made["format"], made["model"]) == ("json", "other")


def test_thoughts_go_back_with_the_calls_that_they_led_to() -> None:
    thoughts = {"thinking": "I should look."}
    _, assistant, other = sent(
        chat_message("assistant", calls=[CALL], providerData=thoughts),
        chat_message("assistant", "Done.", providerData=thoughts),
    )["messages"]
    assert assistant["thinking"] == "I should look."
    assert "thinking" not in other
    for foreign in (["x"], {"thinking": 3}, "x", None):
        said_before = chat_message("assistant", calls=[CALL], providerData=foreign)
        assert "thinking" not in sent(said_before)["messages"][1]
