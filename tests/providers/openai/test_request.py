"""What chat completions are sent, checked against the types of the `openai` package."""

import json
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from holdfast.providers.base import ToolNames
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.schemas.message import ChatMessage
from tests.providers.fakes import TOOLS, ask, chat_message, sent_body

OFFICIAL = "api.openai.com"
PARAMS: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsStreaming)
PICTURE = {"type": "image", "mediaType": "image/png", "data": "iVBORw0KGgo="}
CALL = {"id": "t1c1", "providerId": "call_9", "tool": "rag.query", "arguments": {"q": "†ü"}}


def sent(*messages: ChatMessage, host: str = OFFICIAL, **asked: Any) -> dict[str, Any]:
    """The body of a request, once the package's types have accepted it."""
    made: dict[str, Any] = json.loads(sent_body(OpenAIFormat(), *messages, host=host, **asked))
    checked = PARAMS.validate_json(json.dumps(made))
    assert set(checked) == set(made), "there are fields that the format does not have"
    # Pydantic reads the lists of these types lazily: reading them is what checks them.
    assert len(list(checked["messages"])) == len(made["messages"])
    assert len(list(checked.get("tools", []))) == len(made.get("tools", []))
    return made


def test_it_streams_and_asks_for_the_usage() -> None:
    made = sent()
    assert made["stream"] is True
    assert made["stream_options"] == {"include_usage": True}


def test_thoughts_go_back_with_the_answer_that_they_led_to() -> None:
    thoughts = {"reasoning_content": "I should look."}
    answers = [chat_message("assistant", calls=[CALL], providerData=thoughts)]
    foreign: tuple[Any, ...] = (["x"], {}, None)
    answers += [chat_message("assistant", "Done.", providerData=each) for each in foreign]
    _, first, *others = json.loads(sent_body(OpenAIFormat(), *answers))["messages"]
    assert first["reasoning_content"] == "I should look."
    assert all("reasoning_content" not in each for each in others)


def names(*of: str) -> ToolNames:
    tools = [{"name": name, "description": "", "parameters": {}} for name in of]
    return ToolNames(ask(tools=tools).tools)


@pytest.mark.parametrize("name", ["rag.query", "a" * 100, "naïve", "", "x y", "\ud83d"])
def test_a_name_that_no_provider_takes_is_mapped_there_and_back(name: str) -> None:
    mapped = names(name).to_provider(name)
    assert mapped.isascii()
    assert 0 < len(mapped) <= 64
    assert all(character.isalnum() or character in "_-" for character in mapped)
    assert names(name).from_provider(mapped) == name


def test_names_stay_apart_and_good_ones_stay_as_they_are() -> None:
    all_names = ["a.b", "a_b", "a-b", "a..b", "c.d", "x" * 64, "x" * 65, "x" * 66]
    made = names(*all_names)
    mapped = [made.to_provider(name) for name in all_names]
    assert len(set(mapped)) == len(all_names)
    assert [made.from_provider(name) for name in mapped] == all_names
    assert mapped[1:3] == ["a_b", "a-b"]
    assert mapped[4] == "c_d"
    assert made.clashes == ("a.b",)


def test_an_output_schema_is_asked_for_as_a_response_format() -> None:
    schema = {"type": "object", "properties": {"total": {"type": "number"}}}
    assert sent(output=schema)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "output", "schema": schema, "strict": False},
    }
    assert "response_format" not in sent()


def test_data_is_sent_as_its_json() -> None:
    part = {"type": "data", "kind": "order", "data": {"id": 7}, "description": "The order"}
    content = sent(chat_message("user", [{"type": "text", "text": "See:"}, part]))["messages"][1][
        "content"
    ]
    assert content == 'See:\n\n{"kind": "order", "data": {"id": 7}, "description": "The order"}'


def test_a_result_of_no_call_is_sent_as_a_message_of_the_user() -> None:
    assert sent(chat_message("tool", "12 °C"))["messages"][1] == {
        "role": "user",
        "content": "12 °C",
    }


def test_only_openai_s_own_servers_get_the_newer_name_of_the_length() -> None:
    model = {"maxOutputTokens": 50}
    for host in (OFFICIAL, "mine.openai.azure.com"):
        assert sent(model=model, host=host)["max_completion_tokens"] == 50
    made = sent(model=model, host="localhost")
    assert made["max_tokens"] == 50
    assert "max_completion_tokens" not in made


def test_options_have_the_last_word_but_for_what_is_the_engine_s() -> None:
    options: dict[str, Any] = {
        "top_p": 0.5,
        "max_tokens": 9,
        "temperature": None,
        "stream": False,
        "messages": [],
        "tools": [],
    }
    made = sent(model={"maxOutputTokens": 50, "options": options}, tools=TOOLS)
    assert made["top_p"] == 0.5
    assert made["max_tokens"] == 9
    assert "max_completion_tokens" not in made
    assert "temperature" not in made
    assert made["stream"] is True
    assert len(made["messages"]) == 2
    assert len(made["tools"]) == 2


def test_a_tool_that_openai_would_refuse_is_translated() -> None:
    top = {"anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "array"}}}
    made = sent(tools=[{"name": "find", "description": "Find.", "parameters": top}])
    [function] = [tool["function"] for tool in made["tools"]]
    assert function["parameters"] == {
        "properties": {"a": {"items": {}, "type": "array"}},
        "type": "object",
    }
    assert function["description"].startswith("Find.\n\nThe arguments must also fit")


def test_a_list_without_items_in_an_output_is_translated() -> None:
    output = {"type": "object", "properties": {"a": {"type": "array"}}}
    held = sent(output=output)["response_format"]["json_schema"]
    assert (held["strict"], held["schema"]["properties"]["a"]["items"]) == (False, {})


def test_no_temperature_is_sent_where_there_is_none() -> None:
    assert sent()["temperature"] == 0.7
    assert "temperature" not in sent(model={"temperature": None})
