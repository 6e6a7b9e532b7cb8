"""Neighbours of one role become one message, and nothing else changes."""

import json
from typing import Any

from holdfast.providers.content import encode_json
from holdfast.providers.message_list import merge_neighbours

USER = b'{"role":"user","content":['
ASSISTANT = b'{"role":"assistant","content":['
CLOSING = b"]}"


def message(role: str, *parts: Any) -> bytes:
    return encode_json({"role": role, "content": list(parts)})


def joined(*fragments: bytes) -> Any:
    return json.loads(b"[" + b",".join(merge_neighbours(fragments, (USER, ASSISTANT))) + b"]")


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
    assert merge_neighbours(fragments, (USER, ASSISTANT)) == fragments


def test_what_has_no_opening_stays_as_it_is_and_parts_its_neighbours() -> None:
    foreign = encode_json({"role": "system", "content": "s"})
    fragments = [message("user", "a"), foreign, foreign, message("user", "b")]
    assert merge_neighbours(fragments, (USER, ASSISTANT)) == fragments


def test_a_longer_conversation_begins_with_the_shorter_one() -> None:
    fragments = [message("user", "a"), message("assistant", "b"), message("user", "c")]
    short = b",".join(merge_neighbours(fragments, (USER, ASSISTANT))).removesuffix(CLOSING)
    longer = [*fragments, message("user", "d"), message("assistant", "e")]
    assert b",".join(merge_neighbours(longer, (USER, ASSISTANT))).startswith(short)


def test_nothing_is_nothing() -> None:
    assert merge_neighbours([], (USER,)) == []
