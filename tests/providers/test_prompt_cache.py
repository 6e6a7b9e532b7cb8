"""What a model was sent once begins every later request of the run, byte for byte (§10).

Providers cache what they have read, and find it again by nothing else. What changes from turn to
turn, the state, is at the end.
"""

import json
from functools import partial
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.activities.model.conversation_cache import CachedConversation, fragments
from holdfast.catalog.endpoints import FORMATS
from holdfast.providers.base import ProviderRequest
from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.base import canonical_json
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.message import ChatMessage
from tests.providers.fakes import NAMES, TOOLS, ask, chat_message, sent_body
from tests.providers.wire.wires import WIRES

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.fixture(params=FORMATS.values(), ids=lambda provider_format: provider_format.kind)
def provider_format(request: pytest.FixtureRequest) -> ProviderFormat:
    found: ProviderFormat = request.param
    return found


def body(provider_format: ProviderFormat, **asked: Any) -> dict[str, Any]:
    """A request of a conversation with a call, a result, and these settings."""
    calls = [{"id": "t1c1", "providerId": "c1", "tool": "refund", "arguments": {}}]
    messages = (
        chat_message("user", "Hi"),
        chat_message("assistant", "", calls=calls),
        chat_message("tool", "done", tool="refund", callId="t1c1", providerId="c1"),
    )
    host = httpx.URL(WIRES[provider_format.kind].base_url).host
    sent = sent_body(provider_format, *messages, host=host, tools=TOOLS, **asked)
    found: dict[str, Any] = json.loads(sent)
    return found


def changed(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def test_the_state_stands_behind_all_else(provider_format: ProviderFormat) -> None:
    """Between two turns the state and what a plan waits for change, and nothing before them."""
    one, other = (body(provider_format, tail=f"The state: {number}") for number in (1, 2))
    name = WIRES[provider_format.kind].messages
    assert changed(one, other) == {name}
    text = [json.dumps(each[name]) for each in (one, other)]
    assert text[0].replace("The state: 1", "") == text[1].replace("The state: 2", "")
    assert text[0].rindex("The state") > text[0].rindex("done")


# What is asked otherwise for one turn, and what else than that changes for it: tools and
# instructions are before the conversation in every cache.
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
    kind, plain = provider_format.kind, body(provider_format)
    choice = CHOICE[kind]
    assert changed(body(provider_format, toolChoice={"name": "refund"}), plain) == choice
    assert changed(body(provider_format, toolChoice="none"), plain) == choice
    both = body(provider_format, toolChoice="none", output=SCHEMA)
    assert changed(both, plain) == choice | FORM[kind]


@pytest.mark.parametrize("turns", [1, 2, 7])
@pytest.mark.parametrize("calls", [1, 40])
def test_anthropic_finds_the_end_of_the_last_request_however_many_calls_it_led_to(
    turns: int, calls: int
) -> None:
    """Each request has a mark on the very block that ended the conversation before."""

    def ended(turn: int) -> list[int]:
        messages = [chat_message("user", "Hi")]
        for at in range(turn):
            ids = [f"{at}.{number}" for number in range(calls)]
            asked = [{"id": id, "providerId": id, "tool": "refund", "arguments": {}} for id in ids]
            messages.append(chat_message("assistant", "", calls=asked))
            messages += [
                chat_message("tool", "x", tool="refund", callId=id, providerId=id) for id in ids
            ]
        sent = json.loads(sent_body(FORMATS["anthropic"], *messages, tail="S"))
        blocks = [block for message in sent["messages"] for block in message["content"]]
        return [index for index, block in enumerate(blocks) if "cache_control" in block]

    assert ended(turns - 1)[-1] in ended(turns)


def test_written_cache_tokens_are_no_part_of_the_reported_usage() -> None:
    assert Usage(input_tokens=10, written_tokens=5).to_json() == Usage(input_tokens=10).to_json()


# What stands behind the messages, in each format.
SETTINGS = {"gemini": b'],"systemInstruction":', "bedrock": b'],"system":'}
# Anthropic's marks are no part of what is cached; they go with the end of the conversation.
MARK = b',"cache_control":{"type":"ephemeral"}'
PICTURE = {"type": "image", "mediaType": "image/png", "data": "AAAA"}
TEXTS = st.text(max_size=12)
CONTENTS: st.SearchStrategy[Any] = TEXTS | TEXTS.map(
    lambda text: [{"type": "text", "text": text}, PICTURE]
)
Turn = list[ChatMessage]


@st.composite
def turns(draw: st.DrawFn) -> list[Turn]:
    """The messages of some turns: of users, of the model, and of its calls."""
    made: list[Turn] = []
    for number in range(draw(st.integers(1, 5))):
        heard = [chat_message("user", draw(CONTENTS)) for _ in range(draw(st.integers(0, 2)))]
        ids = [f"c{number}.{index}" for index in range(draw(st.integers(0, 3)))]
        calls = [{"id": id, "providerId": id, "tool": "refund", "arguments": {}} for id in ids]
        results = [
            chat_message("tool", draw(CONTENTS), tool="refund", callId=id, providerId=id)
            for id in ids
        ]
        made.append([chat_message("assistant", draw(TEXTS), calls=calls), *results, *heard])
    return made


class TurnRecorder:
    """What a worker makes of a run that continues, turn by turn."""

    def __init__(self, provider_format: ProviderFormat) -> None:
        self._format = provider_format
        self._conversation = CachedConversation()
        self._encode = partial(provider_format.encode, names=NAMES)
        self.receive([chat_message("user", "Begin.")])

    def receive(self, turn: Turn) -> None:
        for message in turn:
            entry = {"type": "message", "message": message.to_json()}
            self._conversation.append(canonical_json(entry).decode(), self._encode)

    def messages(self) -> bytes:
        """The messages of a request, as they are sent now: their end is still open."""
        request = ProviderRequest(ask(tools=TOOLS), fragments(self._conversation.messages()))
        body = self._format.body(request, "localhost")
        end = body.rindex(SETTINGS.get(self._format.kind, b'],"model":"gpt-test"'))
        return body[:end].replace(MARK, b"").removesuffix(b"]}")


@pytest.mark.parametrize("provider_format", FORMATS.values(), ids=FORMATS)
@given(heard=turns())
def test_a_request_begins_with_the_one_before(
    provider_format: ProviderFormat, heard: list[Turn]
) -> None:
    worker = TurnRecorder(provider_format)
    before = worker.messages()
    for turn in heard:
        worker.receive(turn)
        now = worker.messages()
        assert now.startswith(before)
        before = now


def test_a_request_is_made_of_the_very_bytes_that_are_held(provider_format: ProviderFormat) -> None:
    """Nothing that was encoded is read again: it may be no JSON at all."""
    fragments = tuple(b"<%d>" % number for number in range(100))
    body = provider_format.body(ProviderRequest(ask(tools=TOOLS), fragments), "localhost")
    assert b",".join(fragments) in body
