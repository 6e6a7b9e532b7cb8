"""What providers cache of a request is found again at the next one, counted and priced."""

import json
from typing import Any

import pytest

from holdfast.catalog.endpoints import FORMATS
from holdfast.providers.answer.streamed_answer import StreamedAnswer
from holdfast.providers.base import ProviderRequest, ToolNames
from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.fakes import TOOLS, ReceivedText, ask, chat_message, fragments_of, sent_body
from tests.providers.wire.anthropic import started, stopped

NAMES = ToolNames(())
HOSTS = {
    "openai": "api.openai.com",
    "openai-responses": "api.openai.com",
    "anthropic": "api.anthropic.com",
    "gemini": "generativelanguage.googleapis.com",
    "ollama": "127.0.0.1",
    "bedrock": "bedrock-runtime.eu-central-1.amazonaws.com",
}
MARK = {"type": "ephemeral"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
}
SCHEMA["additionalProperties"] = False


@pytest.fixture(params=FORMATS.values(), ids=lambda provider_format: provider_format.kind)
def provider_format(request: pytest.FixtureRequest) -> ProviderFormat:
    found: ProviderFormat = request.param
    return found


def body(
    provider_format: ProviderFormat, host: str = "", key: str = "", **asked: Any
) -> dict[str, Any]:
    """A request of a conversation with a call, a result, and these settings."""
    wanted = ask(tools=TOOLS, **asked)
    calls = [{"id": "t1c1", "providerId": "c1", "tool": "refund", "arguments": {}}]
    messages = (
        chat_message("user", "Hi"),
        chat_message("assistant", "", calls=calls),
        chat_message("tool", "done", tool="refund", callId="t1c1", providerId="c1"),
    )
    request = ProviderRequest(wanted, fragments_of(provider_format, *messages), key)
    sent = provider_format.body(request, host or HOSTS[provider_format.kind])
    found: dict[str, Any] = json.loads(sent)
    return found


def changed(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def test_the_state_stands_behind_all_else(provider_format: ProviderFormat) -> None:
    """Between two turns the state and what a plan waits for change, and nothing before them."""
    one, other = (body(provider_format, tail=f"The state: {number}") for number in (1, 2))
    name = {"gemini": "contents", "openai-responses": "input"}.get(provider_format.kind, "messages")
    assert changed(one, other) == {name}
    text = [json.dumps(each[name]) for each in (one, other)]
    assert text[0].replace("The state: 1", "") == text[1].replace("The state: 2", "")
    assert text[0].rindex("The state") > text[0].rindex("done")


# What is asked otherwise for one turn, and what else than that changes for it: tools and
# instructions precede the conversation in every cache.
CHOICE = {
    "openai": {"tool_choice"},
    "openai-responses": {"tool_choice"},
    "anthropic": {"tool_choice"},
    "gemini": {"toolConfig"},
    # It has no tool choice: the tool that must be called is the only one.
    "ollama": {"tools"},
    # Nor has it `none`: then no tool is offered.
    "bedrock": {"toolConfig"},
}
FORM = {
    "openai": {"response_format"},
    "openai-responses": {"text"},
    "anthropic": {"output_config"},
    # No form while there are tools.
    "gemini": {"tools", "generationConfig"},
    "ollama": {"format"},
    "bedrock": {"outputConfig"},
}


def test_a_forced_call_or_a_final_answer_changes_no_more_than_it_must(
    provider_format: ProviderFormat,
) -> None:
    plain, choice, form = (
        body(provider_format),
        CHOICE[provider_format.kind],
        FORM[provider_format.kind],
    )
    assert changed(body(provider_format, toolChoice={"name": "refund"}), plain) == choice
    assert changed(body(provider_format, toolChoice="none"), plain) == choice
    assert changed(body(provider_format, toolChoice="none", output=SCHEMA), plain) == choice | form


def test_anthropic_finds_tools_and_instructions_again_whatever_changes_behind_them() -> None:
    sent = body(FORMATS["anthropic"], tail="The state")
    assert [tool.get("cache_control") for tool in sent["tools"]] == [None, MARK]
    assert sent["system"][-1]["cache_control"] == MARK
    assert json.dumps(sent).count("cache_control") == 4  # it takes no more
    assert "cache_control" not in sent["messages"][-1]["content"][-1]  # the state
    options = {"options": {"cache_control": None}}
    assert "ephemeral" not in json.dumps(body(FORMATS["anthropic"], model=options))


@pytest.mark.parametrize("turns", [1, 2, 7])
@pytest.mark.parametrize("calls", [1, 40])
def test_anthropic_finds_the_end_of_the_last_request_however_many_calls_it_led_to(
    turns: int, calls: int
) -> None:
    """Each request has a mark on the very block that ended the conversation before."""

    def ended(turn: int) -> list[int]:
        messages = [chat_message("user", "Hi")]
        for at in range(turn):
            asked = [
                {"id": f"{at}.{n}", "providerId": f"c{at}-{n}", "tool": "refund", "arguments": {}}
                for n in range(calls)
            ]
            messages.append(chat_message("assistant", "", calls=asked))
            messages += [
                chat_message(
                    "tool", "x", tool="refund", callId=f"{at}.{n}", providerId=f"c{at}-{n}"
                )
                for n in range(calls)
            ]
        sent = json.loads(sent_body(FORMATS["anthropic"], *messages, tail="S"))
        blocks = [block for message in sent["messages"] for block in message["content"]]
        return [index for index, block in enumerate(blocks) if "cache_control" in block]

    assert ended(turns - 1)[-1] in ended(turns)


@pytest.mark.parametrize(
    ("host", "is_sent"),
    [
        ("api.openai.com", True),
        ("mine.openai.azure.com", True),
        ("api.mistral.ai", True),
        ("127.0.0.1", False),
        ("openrouter.ai", False),
    ],
)
def test_a_conversation_has_one_key_where_that_helps(host: str, is_sent: bool) -> None:
    sent = body(FORMATS["openai"], host, "k1")
    assert sent.get("prompt_cache_key") == ("k1" if is_sent else None)
    own = body(FORMATS["openai"], host, "k1", model={"options": {"prompt_cache_key": "mine"}})
    assert own["prompt_cache_key"] == "mine"


def read(provider_format: ProviderFormat, *events: dict[str, Any]) -> Usage:
    reading = provider_format.answer_reader(StreamedAnswer(ReceivedText(), NAMES))
    for event in events:
        reading.read(json.dumps(event))
    return reading.solution().usage


def completed(**usage: Any) -> list[dict[str, Any]]:
    choice = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}
    tokens = {"prompt_tokens": 2_000, "completion_tokens": 20, **usage}
    return [{"choices": [choice], "usage": tokens}]


def replied(**usage: Any) -> list[dict[str, Any]]:
    last, end = stopped("end_turn")
    return [started(**usage), {**last, "usage": {"output_tokens": 20}}, end]


def generated(**usage: Any) -> list[dict[str, Any]]:
    candidate = {"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}
    counts = {"promptTokenCount": 2_000, "candidatesTokenCount": 20, **usage}
    return [{"candidates": [candidate], "usageMetadata": counts}]


WRITTEN = {"cached_tokens": 1_024, "cache_write_tokens": 900}
ANTHROPIC = {"input_tokens": 100, "cache_read_input_tokens": 1_400}
# The server, the usage of its answer, and the input that was read from a cache or written to it.
TOLD: list[tuple[str, list[dict[str, Any]], int | None, int | None]] = [
    ("openai", completed(prompt_tokens_details={"cached_tokens": 1_920}), 1_920, None),
    ("openai", completed(prompt_tokens_details=WRITTEN), 1_024, 900),
    # DeepSeek, Kimi, and vLLM that was set not to report it.
    ("openai", completed(prompt_cache_hit_tokens=1_984, prompt_cache_miss_tokens=16), 1_984, None),
    ("openai", completed(cached_tokens=1_000), 1_000, None),
    ("openai", completed(prompt_tokens_details=None), None, None),
    ("anthropic", replied(**ANTHROPIC, cache_creation_input_tokens=500), 1_400, 500),
    ("gemini", generated(cachedContentTokenCount=1_500), 1_500, None),
    ("gemini", generated(), None, None),
]


@pytest.mark.parametrize(("kind", "events", "cached", "written"), TOLD)
def test_what_was_cached_is_some_of_the_input(
    kind: Any, events: list[dict[str, Any]], cached: int | None, written: int | None
) -> None:
    usage = read(FORMATS[kind], *events)
    assert (usage.input_tokens, usage.output_tokens) == (2_000, 20)
    assert (usage.cached_tokens, usage.written_tokens) == (cached, written)


def test_written_cache_tokens_are_no_part_of_the_reported_usage() -> None:
    assert Usage(input_tokens=10, written_tokens=5).to_json() == Usage(input_tokens=10).to_json()
