"""§10: what a model was sent once begins every later request of the run, byte for byte.

Providers keep what they have read, and find it again by nothing else. What changes from turn to
turn, the state, is at the end.
"""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.activities.model.conversation_cache import CachedConversation, fragments
from holdfast.catalog.endpoints import FORMATS
from holdfast.providers.base import ProviderRequest
from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.base import canonical_json
from holdfast.schemas.message import ChatMessage
from tests.providers.fakes import NAMES, TOOLS, ask, chat_message

# What stands behind the messages, in each format.
SETTINGS = {"gemini": b'],"systemInstruction":', "bedrock": b'],"system":'}
# Anthropic's marks are no part of what is cached; they go with the end of the conversation.
MARK = b',"cache_control":{"type":"ephemeral"}'
PICTURE = {"type": "image", "mediaType": "image/png", "data": "AAAA"}
TEXTS = st.text(max_size=12)
CONTENTS: st.SearchStrategy[Any] = TEXTS | TEXTS.map(
    lambda text: [{"type": "text", "text": text}, PICTURE]
)
each_format = pytest.mark.parametrize("spoken", FORMATS.values(), ids=lambda each: each.kind)

Turn = list[ChatMessage]


@st.composite
def turns(draw: st.DrawFn) -> list[Turn]:
    """The messages of some turns: of users, of the model, and of what it called."""
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

    def __init__(self, spoken: ProviderFormat) -> None:
        self._spoken = spoken
        self._conversation = CachedConversation()
        self._encode = partial(spoken.encode, names=NAMES)
        self.receive([chat_message("user", "Begin.")])

    def receive(self, turn: Turn) -> None:
        for message in turn:
            entry = {"type": "message", "message": message.to_json()}
            self._conversation.append(canonical_json(entry).decode(), self._encode)

    def messages(self) -> bytes:
        """The messages of a request, as they are sent now: their end is still open."""
        request = ProviderRequest(ask(tools=TOOLS), fragments(self._conversation.messages()))
        body = self._spoken.body(request, "localhost")
        end = body.rindex(SETTINGS.get(self._spoken.kind, b'],"model":"gpt-test"'))
        return body[:end].replace(MARK, b"").removesuffix(b"]}")


@each_format
@given(heard=turns())
def test_a_request_begins_with_the_one_before(spoken: ProviderFormat, heard: list[Turn]) -> None:
    worker = TurnRecorder(spoken)
    before = worker.messages()
    for turn in heard:
        worker.receive(turn)
        now = worker.messages()
        assert now.startswith(before)
        before = now


@each_format
def test_a_request_is_made_of_the_very_bytes_that_are_held(spoken: ProviderFormat) -> None:
    """Nothing that was encoded is read again: it may be no JSON at all."""
    fragments = tuple(b"<%d>" % number for number in range(100))
    body = spoken.body(ProviderRequest(ask(tools=TOOLS), fragments), "localhost")
    assert b",".join(fragments) in body
