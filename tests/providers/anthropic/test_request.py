"""What Anthropic is sent: messages, marks of the cache, settings. Its own types check each body."""

import json
from typing import Any

import pytest

from holdfast.providers.anthropic.format import DEFAULT_OUTPUT_TOKENS, AnthropicFormat
from holdfast.schemas.message import ChatMessage
from tests.providers.fakes import KEY, TOOLS, ask, chat_message, sent_body
from tests.providers.wire.anthropic import AnthropicWire
from tests.providers.wire.base import PICTURE

URL = "https://api.anthropic.com/v1/messages"
HEADERS = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}


def sent(*messages: ChatMessage, **asked: Any) -> dict[str, Any]:
    """The body of a request, which Anthropic's types have taken."""
    made = sent_body(AnthropicFormat(), *messages, **asked)
    AnthropicWire().understands(URL, HEADERS, made)
    found: dict[str, Any] = json.loads(made)
    return found


def turns(*messages: ChatMessage) -> list[tuple[str, list[Any]]]:
    """The messages of a request without marks, by role; a block of text as its text."""
    made = sent(*messages, model={"options": {"cache_control": None}})["messages"]
    return [(each["role"], [part.get("text", part) for part in each["content"]]) for each in made]


def asking(*ids: str, text: str = "", **more: Any) -> ChatMessage:
    calls = [{"id": each, "providerId": each, "tool": "find", "arguments": {}} for each in ids]
    return chat_message("assistant", text, calls=calls, **more)


def result(own: str, content: Any = "found", **more: Any) -> ChatMessage:
    return chat_message("tool", content, callId=own, providerId=own, tool="find", **more)


def test_texts_of_nothing_are_left_out() -> None:
    made = turns(
        chat_message("user", "Hi"), chat_message("assistant", " \n"), asking("a"), result("a", "")
    )
    assert made[1][1] == [{"type": "tool_use", "id": "a", "name": "find", "input": {}}]
    assert made[2][1] == [{"type": "tool_result", "tool_use_id": "a", "content": []}]


def test_a_system_message_in_a_conversation_is_marked_as_such() -> None:
    made = turns(chat_message("user", "Hi"), chat_message("system", "Be brief."))
    assert made == [("user", ["Hi", "<system>\nBe brief.\n</system>"])]


def test_ids_of_other_providers_are_written_as_anthropic_s() -> None:
    made = turns(chat_message("user", "Hi"), asking("call:1/ä"), result("call:1/ä"))
    assert (made[1][1][0]["id"], made[2][1][0]["tool_use_id"]) == ("call_1__", "call_1__")


@pytest.mark.parametrize(
    ("picture", "source"),
    [
        (
            {"mediaType": "image/webp", "data": PICTURE},
            {"type": "base64", "media_type": "image/webp", "data": PICTURE},
        ),
        ({"url": "https://a.b/c.png"}, {"type": "url", "url": "https://a.b/c.png"}),
        (
            {"url": f"data:image/png;base64,{PICTURE}"},
            {"type": "base64", "media_type": "image/png", "data": PICTURE},
        ),
    ],
    ids=["data", "address", "data in an address"],
)
def test_a_picture_is_sent_wherever_a_user_or_a_tool_shows_it(
    picture: dict[str, Any], source: dict[str, Any]
) -> None:
    content = [{"type": "image", **picture}, {"type": "text", "text": "this"}]
    made = turns(chat_message("user", content), asking("a"), result("a", content))
    shown = {"type": "image", "source": source}
    assert made[0][1] == [shown, "this"]
    assert made[2][1][0]["content"] == [shown, {"type": "text", "text": "this"}]


def test_a_picture_that_anthropic_does_not_take_is_described() -> None:
    picture = {"type": "image", "mediaType": "image/svg+xml", "data": PICTURE}
    assert "image/svg+xml" in turns(chat_message("user", [picture]))[0][1][0]


def test_a_picture_in_an_answer_follows_behind_the_results() -> None:
    picture = {"type": "image", "mediaType": "image/png", "data": PICTURE}
    answer = asking("a").model_copy(update={"content": chat_message("user", [picture]).content})
    made = turns(chat_message("user", "Hi"), answer, result("a"))
    assert [each["type"] for each in made[2][1] if isinstance(each, dict)] == [
        "tool_result",
        "image",
    ]


def test_thoughts_go_back_where_they_stood() -> None:
    first, second = ({"type": "thinking", "thinking": each, "signature": "s"} for each in "ab")
    hidden = {"type": "redacted_thinking", "data": "x"}
    order = [first, {"type": "text", "characters": 2}, hidden, {"type": "tool_use"}, second]
    answer = asking("a", "b", text="oh! Well", providerData=order)
    made = turns(chat_message("user", "Hi"), answer, result("a"), result("b"))
    assert [each if isinstance(each, str) else each.get("id", each) for each in made[1][1]] == [
        first,
        "oh",
        hidden,
        "a",
        second,
        "! Well",
        "b",
    ]


@pytest.mark.parametrize(
    "data",
    [
        {"thinking": "of another provider"},
        ["nonsense", {"type": "thinking"}, {"type": "text", "characters": "many"}],
        [{"type": "tool_use"}] * 3,
        "text",
    ],
)
def test_data_of_no_such_form_changes_nothing(data: Any) -> None:
    plain = turns(chat_message("user", "Hi"), asking("a"), result("a"))
    assert turns(chat_message("user", "Hi"), asking("a", providerData=data), result("a")) == plain


def marks(made: dict[str, Any]) -> list[Any]:
    blocks = [*made["system"], *(part for each in made["messages"] for part in each["content"])]
    return [part.get("text") or part["tool_use_id"] for part in blocks if "cache_control" in part]


@pytest.mark.parametrize("own", [None, {"type": "ephemeral", "ttl": "1h"}])
def test_an_agent_can_set_what_is_cached(own: Any) -> None:
    made = sent(model={"options": {"cache_control": own}})
    assert marks(made) == []
    assert made.get("cache_control") == own


def test_the_maximum_output_has_a_default_which_leaves_room_for_thoughts() -> None:
    thinking = {"type": "enabled", "budget_tokens": 2_000}
    assert sent()["max_tokens"] == DEFAULT_OUTPUT_TOKENS
    assert sent(model={"maxOutputTokens": 7})["max_tokens"] == 7
    made = sent(model={"options": {"thinking": thinking}})
    assert made["max_tokens"] == DEFAULT_OUTPUT_TOKENS + 2_000


@pytest.mark.parametrize(
    ("settings", "temperature"),
    [
        ({}, 0.7),
        ({"temperature": 0}, 0),
        ({"temperature": None}, None),
        ({"options": {"thinking": {"type": "adaptive"}}}, None),
        ({"options": {"thinking": {"type": "disabled"}}}, 0.7),
        ({"options": {"thinking": {"type": "adaptive"}, "temperature": 1}}, 1),
    ],
)
def test_a_model_with_thinking_is_sent_no_temperature(
    settings: dict[str, Any], temperature: float | None
) -> None:
    assert sent(model=settings).get("temperature") == temperature


def test_options_change_anything_but_what_is_the_engine_s() -> None:
    options = {"top_k": 3, "max_tokens": 9, "tools": [], "messages": [], "system": "s", "stream": 0}
    made = sent(tools=TOOLS, model={"options": options})
    assert (made["top_k"], made["max_tokens"], made["stream"]) == (3, 9, True)
    assert len(made["tools"]) == 2
    assert made["system"][0]["text"] == "Be brief."


def test_the_form_of_an_answer_is_beside_the_agent_s_own_settings() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    made = sent(output=schema, model={"options": {"output_config": {"effort": "low"}}})
    assert made["output_config"]["effort"] == "low"
    assert made["output_config"]["format"]["type"] == "json_schema"


@pytest.mark.parametrize(("output", "told"), [(True, 0), ({"type": "object"}, 1)])
def test_a_form_of_an_answer_that_cannot_be_requested_is_left_out_and_reported(
    output: Any, told: int
) -> None:
    assert "output_config" not in sent(output=output)
    assert len(AnthropicFormat().unsupported_notices(ask(output=output))) == told
