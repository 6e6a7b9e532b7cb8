"""§10: the summary of the older part of a conversation, from the run's log to each provider."""

import json

import httpx
import pytest

from holdfast.activities.model.conversation_cache import (
    CachedConversation,
    ConversationCache,
    PagePrefetch,
    fragments,
)
from holdfast.activities.model.conversation_reader import ConversationReader
from holdfast.providers.base import EncodedMessage
from holdfast.schemas.internal.model_request import ConversationPointer
from holdfast.schemas.message import ChatMessage
from tests.activities.model.logged_run import RUN, LoggedRun, take_any
from tests.activities.test_generate import Setting
from tests.providers.fakes import chat_message, provider

TOO_LONG = {
    "error": {
        "message": "This model's maximum context length is 8192 tokens. However, your messages"
        " resulted in 9001 tokens. Please reduce the length of the messages.",
        "code": "context_length_exceeded",
    }
}


def encode(message: ChatMessage) -> EncodedMessage:
    return EncodedMessage((f"{message.role}: {message.content}".encode(),))


def summarised() -> LoggedRun:
    """A run of four messages, the first two of which were summarised, and then the third."""
    run = LoggedRun()
    run.append(chat_message("user", "one"), chat_message("assistant", "two"))
    run.append(chat_message("user", "three"), chat_message("assistant", "four"))
    run.summarise(2, "the first two")
    run.summarise(3, "the first three")
    return run


def held(run: LoggedRun, since: int) -> CachedConversation:
    conversation = CachedConversation(since, run.pointer(since).digest)
    for item in run.items[since:]:
        conversation.append(item, encode)
    return conversation


# What is held.


def test_the_summary_precedes_later_messages_and_older_ones_are_left_out() -> None:
    run = summarised()
    conversation = held(run, 3)
    assert fragments(conversation.messages()) == (b"user: the first three", b"assistant: four")
    assert (conversation.entries, conversation.digest) == (6, run.pointer().digest)


def test_the_older_summary_is_read_where_it_holds() -> None:
    conversation = held(summarised(), 2)
    shown = (b"user: the first two", b"user: three", b"assistant: four")
    assert fragments(conversation.messages()) == shown
    assert [fragments(conversation.messages(upto)) for upto in (2, 3, 4, 6)] == [
        shown[:1],
        shown[:2],
        shown,
        shown,
    ]


def test_it_counts_as_what_is_held() -> None:
    without, with_ = CachedConversation(), CachedConversation()
    with_.append(json.dumps({"type": "summary", "upto": 0, "text": "x" * 5_000}), encode)
    assert with_.size_bytes - without.size_bytes >= 5_000


# How it is read from the run.


async def read(
    reader: ConversationReader, run: LoggedRun, pointer: ConversationPointer
) -> list[str]:
    """The contents of the messages that a request is made with."""
    fragments = (await reader.read(RUN, pointer, lambda _: provider(_refuse), take_any)).fragments
    return [json.loads(fragment)["content"] for fragment in fragments]


async def test_a_new_summary_has_the_conversation_read_again_from_where_it_holds() -> None:
    run = LoggedRun()
    run.append(
        chat_message("user", "one"), chat_message("assistant", "two"), chat_message("user", "three")
    )
    reader = ConversationReader(run.page, PagePrefetch(ConversationCache()))
    assert await read(reader, run, run.pointer()) == ["one", "two", "three"]
    run.summarise(2, "so far")

    assert await read(reader, run, run.pointer(since=2)) == ["so far", "three"]
    assert [(want.after, want.upto) for want in run.wanted] == [(0, 3), (2, 4)]
    run.append(chat_message("assistant", "four"))
    assert await read(reader, run, run.pointer(since=2)) == ["so far", "three", "four"]
    assert run.wanted[-1].after == 4, "only what is new"


async def test_the_request_for_a_summary_is_made_of_what_is_held() -> None:
    run = LoggedRun()
    run.append(
        chat_message("user", "one"), chat_message("assistant", "two"), chat_message("user", "three")
    )
    reader = ConversationReader(run.page, PagePrefetch(ConversationCache()))
    await read(reader, run, run.pointer())
    pointer = run.pointer().model_copy(update={"summary": True, "upto": 2})

    assert await read(reader, run, pointer) == ["one", "two"]
    assert (run.wanted[-1].after, run.wanted[-1].summary) == (3, True)
    assert await read(reader, run, run.pointer()) == ["one", "two", "three"]


async def test_a_cold_worker_reads_no_more_than_the_model() -> None:
    run = summarised()
    assert await read(
        ConversationReader(run.page, PagePrefetch(ConversationCache())), run, run.pointer(since=3)
    ) == [
        "the first three",
        "four",
    ]
    assert [want.after for want in run.wanted] == [3]


def _refuse(_: httpx.Request) -> httpx.Response:
    return httpx.Response(500)


# What the activity returns of it.


async def test_a_refusal_for_its_length_is_an_outcome_with_a_notice() -> None:
    setting = Setting(handler=lambda _: httpx.Response(400, json=TOO_LONG))
    solution = await setting.generate()
    [notice] = solution.pop("notices")
    assert solution == {"tooLong": True, "window": 8192}
    assert "answered 400: This model's maximum context length is 8192 tokens" in notice


def test_an_entry_that_is_no_message_and_no_summary_is_none() -> None:
    with pytest.raises(ValueError, match="an entry is an object"):
        CachedConversation().append('{"type": "notice"}', encode)
