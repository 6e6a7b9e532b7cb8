"""Composed calling (§4): a provider is sent words alone, and never a call or a result."""

from typing import Any

import pytest

from holdfast.activities.model.conversation_reader import without_native_calls
from holdfast.schemas.message import ChatMessage
from tests.activities.model.test_conversation_reader import Pair
from tests.providers.fakes import ask, chat_message
from tests.providers.test_conformance import wire
from tests.providers.wire.base import PICTURE

# The fixture of each provider.
__all__ = ["wire"]

CALLED = '{"calls": [{"_tool": "refund"}], "output": null}'
CALL = {"id": "t1c1", "providerId": "t1c1", "tool": "refund", "arguments": {}}
IMAGE = {"type": "image", "mediaType": "image/png", "data": PICTURE}


def result(content: Any, **more: Any) -> ChatMessage:
    return chat_message("tool", content, callId="t1c1", providerId="t1c1", tool="refund", **more)


ASSISTANT = chat_message("assistant", CALLED, calls=[CALL], said="")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (ASSISTANT, chat_message("assistant", CALLED, said="")),
        # A native call, of a run that has changed to composed calling since.
        (
            chat_message("assistant", "Let me.", calls=[CALL]),
            chat_message("assistant", f"Let me.\n{CALLED}"),
        ),
        (result("done"), chat_message("user", "Result of t1c1 (refund): done")),
        (result("no", isError=True), chat_message("user", "Error of t1c1 (refund): no")),
        (
            result([IMAGE]),
            chat_message("user", [{"type": "text", "text": "Result of t1c1 (refund):"}, IMAGE]),
        ),
        (chat_message("tool", "found"), chat_message("tool", "found")),
        (chat_message("user", "Hi"), chat_message("user", "Hi")),
    ],
)
def test_calls_and_results_are_written_in_words(message: ChatMessage, words: ChatMessage) -> None:
    assert without_native_calls(message) == words


async def test_a_conversation_is_read_again_where_the_calling_is_another() -> None:
    pair = Pair()
    pair.run.append(chat_message("user", "Hi"), ASSISTANT, result("done"))
    native = await pair.read()
    pair.run.ask = ask(calling="composed")
    composed = await pair.read()
    assert b'"tool_calls"' in native[1]
    assert b'"tool_calls"' not in composed[1]
    assert b"Result of t1c1 (refund): done" in composed[2]
