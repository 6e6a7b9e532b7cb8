"""What providers cache of a request is found again at the next one, counted and priced."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from holdfast.activities.generate import token_cost
from holdfast.catalog.endpoints import FORMATS
from holdfast.providers.base import ProviderRequest, ToolNames
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.settings.endpoints import Price
from tests.providers.fakes import TOOLS, Heard, ask, chunk, provider, said, stream
from tests.support.model_server import Answer as ModelAnswer
from tests.support.model_server import (
    llama_refuses,
    openai_refuses,
    openai_refuses_without_a_number,
    serve,
)

NAMES = ToolNames(())
HOSTS = {
    "openai": "api.openai.com",
    "anthropic": "api.anthropic.com",
    "gemini": "generativelanguage.googleapis.com",
    "ollama": "127.0.0.1",
}
MARK = {"type": "ephemeral"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
}
SCHEMA["additionalProperties"] = False


@pytest.fixture(params=FORMATS.values(), ids=lambda spoken: spoken.kind)
def spoken(request: pytest.FixtureRequest) -> ProviderFormat:
    """One provider after the other."""
    found: ProviderFormat = request.param
    return found


def body(spoken: ProviderFormat, host: str = "", key: str = "", **asked: Any) -> dict[str, Any]:
    """A request of a conversation with a call, a result, and these settings."""
    wanted = ask(tools=TOOLS, **asked)
    names = ToolNames(wanted.tools)
    calls = [{"id": "t1c1", "providerId": "c1", "tool": "refund", "arguments": {}}]
    messages = (
        said("user", "Hi"),
        said("assistant", "", calls=calls),
        said("tool", "done", tool="refund", callId="t1c1", providerId="c1"),
    )
    encoded = [spoken.encode(message, names) for message in messages]
    fragments = tuple(part for each in encoded for part in (*each.fragments, *each.deferred))
    sent = spoken.body(ProviderRequest(wanted, fragments, key), host or HOSTS[spoken.kind])
    found: dict[str, Any] = json.loads(sent)
    return found


def changed(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    """The settings in which two requests differ."""
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


CONVERSATION = {"openai": "messages", "anthropic": "messages", "gemini": "contents"}


def test_the_state_stands_behind_all_else(spoken: ProviderFormat) -> None:
    """Between two turns the state and what a plan waits for change, and nothing before them."""
    one, other = (body(spoken, tail=f"The state: {number}") for number in (1, 2))
    name = CONVERSATION.get(spoken.kind, "messages")
    assert changed(one, other) == {name}
    text = [json.dumps(each[name]) for each in (one, other)]
    assert text[0].replace("The state: 1", "") == text[1].replace("The state: 2", "")
    assert text[0].rindex("The state") > text[0].rindex("done")


# What is asked otherwise for one turn, and what else than that changes for it: tools and
# instructions stand before the conversation in every cache.
FORCED_ONCE = {
    "openai": {"tool_choice"},
    "anthropic": {"tool_choice"},
    "gemini": {"toolConfig"},
    # It has no tool choice: the tool that must be called is the only one.
    "ollama": {"tools"},
}
FINAL = {
    "openai": {"tool_choice"},
    "anthropic": {"tool_choice"},
    "gemini": {"toolConfig"},
    "ollama": {"tools"},
}
FINAL_IN_A_FORM = {
    "openai": {"tool_choice", "response_format"},
    "anthropic": {"tool_choice", "output_config"},
    # No form while there are tools.
    "gemini": {"toolConfig", "tools", "generationConfig"},
    "ollama": {"tools", "format"},
}


def test_a_tool_that_must_be_called_first_changes_no_more_than_it_must(
    spoken: ProviderFormat,
) -> None:
    forced = body(spoken, toolChoice={"name": "refund"})
    assert changed(forced, body(spoken)) == FORCED_ONCE[spoken.kind]


def test_a_final_answer_changes_no_more_than_it_must(spoken: ProviderFormat) -> None:
    assert changed(body(spoken, toolChoice="none"), body(spoken)) == FINAL[spoken.kind]
    formed = body(spoken, toolChoice="none", output=SCHEMA)
    assert changed(formed, body(spoken)) == FINAL_IN_A_FORM[spoken.kind]


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
        messages = [said("user", "Hi")]
        for at in range(turn):
            asked = [
                {"id": f"{at}.{n}", "providerId": f"c{at}-{n}", "tool": "refund", "arguments": {}}
                for n in range(calls)
            ]
            messages.append(said("assistant", "", calls=asked))
            messages += [
                said("tool", "x", tool="refund", callId=f"{at}.{n}", providerId=f"c{at}-{n}")
                for n in range(calls)
            ]
        spoken = FORMATS["anthropic"]
        encoded = [spoken.encode(message, NAMES) for message in messages]
        fragments = tuple(part for each in encoded for part in (*each.fragments, *each.deferred))
        sent = json.loads(spoken.body(ProviderRequest(ask(tail="S"), fragments), "x"))
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


async def test_a_server_that_knows_no_key_is_asked_without() -> None:
    asked: list[dict[str, Any]] = []
    hello = stream([chunk({"content": "Hello"}), chunk(finish="stop")])

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        if "prompt_cache_key" not in asked[-1]:
            return httpx.Response(200, content=hello)
        said = "Unrecognized request argument supplied: prompt_cache_key"
        return httpx.Response(400, json={"error": {"message": said}})

    at_openai = provider(handler)
    for _ in range(2):
        solution = await at_openai.solve(ProviderRequest(ask(), (), "k1"), Heard())
        assert (solution.text, solution.notices) == ("Hello", [])
    assert ["prompt_cache_key" in each for each in asked] == [True, False, False]


def read(spoken: ProviderFormat, *events: dict[str, Any]) -> Usage:
    """The usage that an answer of these events tells."""
    reading = spoken.answer_reader(StreamedAnswer(Heard(), NAMES))
    for event in events:
        reading.read(json.dumps(event))
    return reading.solution().usage


def completed(**usage: Any) -> list[dict[str, Any]]:
    """A completion as OpenAI's format has it."""
    choice = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}
    tokens = {"prompt_tokens": 2_000, "completion_tokens": 20, **usage}
    return [{"choices": [choice], "usage": tokens}]


def replied(**usage: Any) -> list[dict[str, Any]]:
    """A message as Anthropic streams it."""
    message = {"type": "message", "role": "assistant", "content": [], "model": "claude"}
    return [
        {"type": "message_start", "message": {**message, "usage": usage}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 20},
        },
        {"type": "message_stop"},
    ]


def generated(**usage: Any) -> list[dict[str, Any]]:
    """An answer as Gemini has it."""
    candidate = {"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}
    counts = {"promptTokenCount": 2_000, "candidatesTokenCount": 20, **usage}
    return [{"candidates": [candidate], "usageMetadata": counts}]


TOLD: list[tuple[str, str, list[dict[str, Any]], int | None, int | None]] = [
    ("OpenAI", "openai", completed(prompt_tokens_details={"cached_tokens": 1_920}), 1_920, None),
    (
        "OpenAI, GPT-5.6",
        "openai",
        completed(prompt_tokens_details={"cached_tokens": 1_024, "cache_write_tokens": 900}),
        1_024,
        900,
    ),
    (
        "DeepSeek",
        "openai",
        completed(prompt_cache_hit_tokens=1_984, prompt_cache_miss_tokens=16),
        1_984,
        None,
    ),
    ("Kimi", "openai", completed(cached_tokens=1_000), 1_000, None),
    ("vLLM, asked not to tell", "openai", completed(prompt_tokens_details=None), None, None),
    (
        "Anthropic",
        "anthropic",
        replied(input_tokens=100, cache_read_input_tokens=1_400, cache_creation_input_tokens=500),
        1_400,
        500,
    ),
    ("Gemini", "gemini", generated(cachedContentTokenCount=1_500), 1_500, None),
    ("Gemini, nothing cached", "gemini", generated(), None, None),
]


@pytest.mark.parametrize(
    ("kind", "events", "cached", "written"), [row[1:] for row in TOLD], ids=[row[0] for row in TOLD]
)
def test_what_was_cached_is_some_of_the_input(
    kind: Any, events: list[dict[str, Any]], cached: int | None, written: int | None
) -> None:
    usage = read(FORMATS[kind], *events)
    assert (usage.input_tokens, usage.output_tokens) == (2_000, 20)
    assert (usage.cached_tokens, usage.written_tokens) == (cached, written)


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        (
            {"input": 3, "output": 15, "cached": 0.3, "cacheWrite": 3.75},
            0.0003 + 0.00042 + 0.001875,
        ),
        ({"input": 3, "output": 15, "cached": 0.3}, 0.0003 + 0.00042 + 0.0015),
        ({"input": 3, "output": 15}, 0.006),
    ],
)
def test_reading_and_writing_a_cache_have_prices(price: Any, cost: float) -> None:
    usage = Usage(input_tokens=2_000, output_tokens=0, cached_tokens=1_400, written_tokens=500)
    assert token_cost(usage, Price.model_validate(price)) == pytest.approx(cost)


def test_more_cannot_be_written_than_was_sent() -> None:
    usage = Usage(input_tokens=10, output_tokens=0, cached_tokens=8, written_tokens=99)
    price = Price(input=1, output=0, cached=0, cache_write=2)
    assert token_cost(usage, price) == pytest.approx(4 / 1_000_000)


def test_what_was_written_is_no_part_of_what_a_run_is_told() -> None:
    assert Usage(input_tokens=10, written_tokens=5).to_json() == Usage(input_tokens=10).to_json()


def posted(url: str, *messages: str) -> httpx.Response:
    """What a server answers to a conversation of these messages."""
    conversation = [{"role": "user", "content": text} for text in messages]
    return httpx.post(f"{url}/chat/completions", json={"messages": conversation})


def test_the_tests_own_model_tells_what_an_earlier_request_began_with() -> None:
    with serve([ModelAnswer("Hi", usage="cached")]) as model:
        answers = [posted(model.url, *sent) for sent in (["a" * 400], ["a" * 400, "b"], ["c"])]
    details = [
        json.loads(line[6:])["usage"]["prompt_tokens_details"]["cached_tokens"]
        for each in answers
        for line in each.text.splitlines()
        if "prompt_tokens_details" in line
    ]
    assert details[0] == 0
    assert 100 < details[1] < 120
    assert details[2] < 12


@pytest.mark.parametrize(
    ("refuses", "is_told"),
    [(openai_refuses, True), (openai_refuses_without_a_number, False), (llama_refuses, True)],
)
def test_the_tests_own_model_refuses_what_is_longer_than_its_window(
    refuses: Callable[[int, int], ModelAnswer], is_told: bool
) -> None:
    with serve([ModelAnswer("Hi")], window=100, refuses=refuses) as model:
        assert posted(model.url, "short").status_code == 200
        refused = posted(model.url, "long" * 100)
    assert refused.status_code == 400
    assert ("100 tokens" in refused.text) is is_told
