"""A worker holds conversations as bytes that only grow, and no more of them than it may."""

import asyncio
import json

from holdfast.activities.model.conversation_cache import (
    FRAGMENT_BYTES,
    CachedConversation,
    ConversationCache,
    RunKey,
    SharedBytes,
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
    held = ConversationCache(limit_bytes=40_000)
    runs = [RunKey(str(number), "1") for number in range(11)]
    for run in runs[:10]:
        held.keep(run, of_size(4_000))
    held.keep(runs[0], held.take(runs[0]))
    held.keep(runs[10], of_size(4_000))
    assert held.size_bytes == 40_000
    assert [held.take(run).entries for run in runs] == [1, 0, *[1] * 9]


def test_one_over_a_tenth_is_not_kept_and_nothing_goes_for_it() -> None:
    held = ConversationCache(limit_bytes=30_000)
    held.keep(RunKey("a", "1"), of_size(3_000))
    held.keep(RunKey("b", "1"), of_size(3_001))
    assert held.take(RunKey("b", "1")).entries == 0
    assert held.take(RunKey("a", "1")).entries == 1


def test_keeping_a_run_twice_counts_it_once() -> None:
    held = ConversationCache()
    held.keep(RunKey("a", "1"), of_size(3_000))
    held.keep(RunKey("a", "1"), of_size(4_000))
    assert held.size_bytes == 4_000


async def test_requests_wait_in_their_order_until_their_bytes_fit() -> None:
    shared, started, ends = SharedBytes(100), list[str](), dict[str, asyncio.Event]()

    async def request(name: str, *sizes: int) -> None:
        ends[name] = asyncio.Event()
        async with shared.share() as take:
            for size_bytes in sizes:
                await take(size_bytes)
            started.append(name)
            await ends[name].wait()

    async def all_started() -> list[str]:
        for _ in range(20):
            await asyncio.sleep(0)
        return started

    large, small, again, gone = ("large", 1_000), ("small", 10), ("again", 60, 70), ("gone", 90)
    async with asyncio.TaskGroup() as group:
        group.create_task(request("first", 30))
        # More than all of it counts as all, and a small one behind it waits, too.
        group.create_task(request(*large))
        cancelled = group.create_task(request(*gone))
        group.create_task(request(*small))
        assert await all_started() == ["first"]
        cancelled.cancel()
        ends["first"].set()
        assert await all_started() == ["first", "large"]
        ends["large"].set()
        assert await all_started() == ["first", "large", "small"]
        # What is read again is in place of what was read first.
        group.create_task(request(*again))
        assert await all_started() == ["first", "large", "small", "again"]
        for each in ("small", "again"):
            ends[each].set()
    async with shared.share() as take:
        await take(100)
