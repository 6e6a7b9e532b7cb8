"""The messages of a request as one list: roles in turns, and neighbours joined."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.catalog.endpoints import FORMATS
from holdfast.providers.base import ProviderRequest
from holdfast.providers.contents import encode_json
from holdfast.providers.message_list import alternate_roles, merge_neighbours
from holdfast.schemas.message import ChatMessage
from tests.providers.fakes import ask, chat_message, fragments_of

PICTURE = {"type": "image", "mediaType": "image/png", "data": "AAAA"}
CALL = {"id": "t1c1", "providerId": "call_9", "tool": "rag.query", "arguments": {}}
CALLED = chat_message("assistant", calls=[CALL])
RESULT = chat_message("tool", "12 °C", providerId="call_9", tool="rag.query")

Messages = list[dict[str, Any]]


def sent(kind: str, *messages: ChatMessage, tail: str | None = None) -> Messages:
    """The messages of a request to a model that insists on turns."""
    spoken = FORMATS["ollama" if kind == "ollama" else "openai"]
    fragments = fragments_of(spoken, *messages)
    request = ProviderRequest(ask(tail=tail), fragments, alternates_roles=True)
    made: Messages = json.loads(spoken.body(request, "localhost"))["messages"]
    return made


def check(messages: Messages) -> None:
    """As Mistral's template does: users and answers take turns, calls and results aside."""
    assert all(each["role"] != "system" for each in messages[1:])
    said_in_turn = [
        each["role"]
        for each in messages
        if each["role"] in ("user", "assistant") and not each.get("tool_calls")
    ]
    assert said_in_turn[::2] == ["user"] * len(said_in_turn[::2])
    assert said_in_turn[1::2] == ["assistant"] * len(said_in_turn[1::2])


SPOKEN = st.lists(
    st.sampled_from(
        [
            [chat_message("user", "Hi")],
            [chat_message("user", [PICTURE])],
            [chat_message("assistant", "Yes")],
            [chat_message("system", "Be kind.")],
            [CALLED, RESULT],
            [CALLED, chat_message("tool", [PICTURE], providerId="call_9")],
        ]
    )
)


@given(SPOKEN, st.sampled_from([None, "The state: {}"]), st.sampled_from(["openai", "ollama"]))
def test_any_conversation_is_put_in_turns_and_stays_as_it_is_then(
    spoken: list[list[ChatMessage]], tail: str | None, kind: str
) -> None:
    messages = sent(kind, *(message for each in spoken for message in each), tail=tail)
    check(messages)
    assert alternate_roles(messages) == messages


USER = b'{"role":"user","content":['
ASSISTANT = b'{"role":"assistant","content":['


def fragment(role: str, *parts: Any) -> bytes:
    return encode_json({"role": role, "content": list(parts)})


def joined(*fragments: bytes) -> Any:
    return json.loads(b"[" + b",".join(merge_neighbours(fragments, (USER, ASSISTANT))) + b"]")


def test_neighbours_of_one_role_are_one_message_with_the_parts_of_all_in_order() -> None:
    fragments = [fragment("user", "a"), fragment("user", "b", {"c": ["]}"]}), fragment("user", "d")]
    assert joined(*fragments) == [{"role": "user", "content": ["a", "b", {"c": ["]}"]}, "d"]}]


def test_a_message_alone_keeps_its_bytes() -> None:
    fragments = [fragment("user", "ä]}"), fragment("assistant", "b"), fragment("user", "c")]
    assert merge_neighbours(fragments, (USER, ASSISTANT)) == fragments


def test_what_has_no_opening_stays_as_it_is_and_parts_its_neighbours() -> None:
    foreign = encode_json({"role": "system", "content": "s"})
    fragments = [fragment("user", "a"), foreign, foreign, fragment("user", "b")]
    assert merge_neighbours(fragments, (USER, ASSISTANT)) == fragments
