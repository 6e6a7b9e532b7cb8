"""Neighbours of one role become one message, and nothing else changes."""

import json
from typing import Any

from holdfast.providers.content import encoded
from holdfast.providers.message_merging import merged

USER = b'{"role":"user","content":['
ASSISTANT = b'{"role":"assistant","content":['
CLOSING = b"]}"


def message(role: str, *parts: Any) -> bytes:
    return encoded({"role": role, "content": list(parts)})


def joined(*fragments: bytes) -> Any:
    return json.loads(b"[" + b",".join(merged(fragments, (USER, ASSISTANT), CLOSING)) + b"]")


def test_neighbours_of_one_role_are_one_message_with_the_parts_of_all_in_order() -> None:
    fragments = [message("user", "a"), message("user", "b", {"c": ["]}"]}), message("user", "d")]
    assert joined(*fragments) == [{"role": "user", "content": ["a", "b", {"c": ["]}"]}, "d"]}]


def test_roles_take_turns() -> None:
    said = [message(role, role[0]) for role in ("user", "user", "assistant", "assistant", "user")]
    assert joined(*said) == [
        {"role": "user", "content": ["u", "u"]},
        {"role": "assistant", "content": ["a", "a"]},
        {"role": "user", "content": ["u"]},
    ]


def test_a_message_alone_keeps_its_bytes() -> None:
    fragments = [message("user", "ä]}"), message("assistant", "b"), message("user", "c")]
    assert merged(fragments, (USER, ASSISTANT), CLOSING) == fragments


def test_what_has_no_opening_stays_as_it_is_and_parts_its_neighbours() -> None:
    foreign = encoded({"role": "system", "content": "s"})
    fragments = [message("user", "a"), foreign, foreign, message("user", "b")]
    assert merged(fragments, (USER, ASSISTANT), CLOSING) == fragments


def test_a_longer_conversation_begins_with_the_shorter_one() -> None:
    fragments = [message("user", "a"), message("assistant", "b"), message("user", "c")]
    short = b",".join(merged(fragments, (USER, ASSISTANT), CLOSING)).removesuffix(CLOSING)
    longer = [*fragments, message("user", "d"), message("assistant", "e")]
    assert b",".join(merged(longer, (USER, ASSISTANT), CLOSING)).startswith(short)


def test_nothing_is_nothing() -> None:
    assert merged([], (USER,), CLOSING) == []
