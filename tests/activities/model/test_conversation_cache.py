"""A worker holds conversations as bytes that only grow, and no more of them than it may."""

import json

from holdfast.activities.model.conversation_cache import (
    FRAGMENT_BYTES,
    CachedConversation,
    ConversationCache,
    RunKey,
    fragments,
)
from holdfast.providers.base import EncodedMessage
from holdfast.schemas.base import link, sha256
from holdfast.schemas.message import ChatMessage


def encode(message: ChatMessage) -> EncodedMessage:
    """A provider's encoding, with something that has to wait for the last result."""
    text = str(message.content).encode()
    return EncodedMessage((text,), (text + b" later",) if message.tool == "map" else ())


def item(role: str, content: str, tool: str | None = None) -> str:
    message = {"role": role, "content": content, "tool": tool}
    return json.dumps({"type": "message", "message": message})


def of_size(size_bytes: int) -> CachedConversation:
    conversation = CachedConversation()
    conversation.append(
        item("user", "x" * (size_bytes - conversation.size_bytes - FRAGMENT_BYTES)), encode
    )
    assert conversation.size_bytes == size_bytes
    return conversation


def test_its_digest_is_the_chain_over_all_entries_seen_by_the_model_or_not() -> None:
    conversation = CachedConversation()
    first, second = item("user", "†"), "#" + "ab" * 32
    conversation.append(first, encode)
    conversation.append(second, encode)
    assert conversation.entries == 2
    assert conversation.digest == link(link("", sha256(first.encode())), "ab" * 32)
    assert fragments(conversation.messages()) == ("†".encode(),)


def test_later_parts_of_results_follow_the_last_result() -> None:
    conversation = CachedConversation()
    conversation.append(item("tool", "1", "map"), encode)
    conversation.append(item("tool", "2"), encode)
    assert fragments(conversation.messages()) == (b"1", b"2", b"1 later")
    conversation.append(item("assistant", "3"), encode)
    assert fragments(conversation.messages()) == (b"1", b"2", b"1 later", b"3")


def test_what_was_kept_is_taken_again_by_one_alone() -> None:
    held, run, kept = ConversationCache(), RunKey("a", "1"), of_size(2_000)
    held.keep(run, kept)
    assert held.take(run) is kept
    assert held.take(run).entries == 0
    assert held.size_bytes == 0


def test_a_run_that_continued_as_new_uses_what_is_held() -> None:
    held, kept = ConversationCache(), of_size(2_000)
    held.keep(RunKey("a", "1"), kept)
    assert held.entries_of("a", since=0) == 1
    assert held.entries_of("a", since=7) == 7, "one with a summary begins again"
    assert held.entries_of("b", since=0) == 0
    assert held.take(RunKey("a", "2")) is kept


def test_the_oldest_go_when_there_are_too_many_bytes() -> None:
    held = ConversationCache(limit_bytes=10_000)
    runs = [RunKey(str(number), "1") for number in range(4)]
    for run in runs[:3]:
        held.keep(run, of_size(3_000))
    held.keep(runs[0], held.take(runs[0]))
    held.keep(runs[3], of_size(3_000))
    assert held.size_bytes == 9_000
    assert [held.take(run).entries for run in runs] == [1, 0, 1, 1]


def test_one_too_large_alone_is_not_kept_and_nothing_goes_for_it() -> None:
    held = ConversationCache(limit_bytes=10_000)
    held.keep(RunKey("a", "1"), of_size(3_000))
    held.keep(RunKey("b", "1"), of_size(10_001))
    assert held.take(RunKey("b", "1")).entries == 0
    assert held.take(RunKey("a", "1")).entries == 1


def test_keeping_a_run_twice_counts_it_once() -> None:
    held = ConversationCache()
    held.keep(RunKey("a", "1"), of_size(3_000))
    held.keep(RunKey("a", "1"), of_size(4_000))
    assert held.size_bytes == 4_000
