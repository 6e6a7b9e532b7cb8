"""§10: what stands for the older part of a conversation, from the run's log to each provider."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from holdfast.activities.model.conversation_cache import CachedConversation, ConversationCache
from holdfast.activities.model.conversation_reader import ConversationReader, encoder_for
from holdfast.catalog.endpoints import FORMATS
from holdfast.providers.base import EncodedMessage, ProviderRequest, ToolNames
from holdfast.schemas.internal.model_request import ConversationPageRequest, ConversationPointer
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.settings.endpoints import ProviderName
from tests.activities.test_generate import Setting
from tests.engine.driver import call, says, tool
from tests.engine.windowed import Windowed
from tests.providers.fakes import RUN, LoggedRun, provider, said

TOO_LONG = {
    "error": {
        "message": "This model's maximum context length is 8192 tokens. However, your messages"
        " resulted in 9001 tokens. Please reduce the length of the messages.",
        "code": "context_length_exceeded",
    }
}


def encode(message: ChatMessage) -> EncodedMessage:
    """A provider's encoding: who says what."""
    return EncodedMessage((f"{message.role}: {message.content}".encode(),))


def summarised() -> LoggedRun:
    """A run of four messages, the first two of which were summarised, and then the third."""
    run = LoggedRun()
    run.say(said("user", "one"), said("assistant", "two"))
    run.say(said("user", "three"), said("assistant", "four"))
    run.summarise(2, "the first two")
    run.summarise(3, "the first three")
    return run


def held(run: LoggedRun, since: int) -> CachedConversation:
    """The conversation of a run after entry `since`."""
    conversation = CachedConversation(since, run.pointer(since).digest)
    for item in run.items[since:]:
        conversation.append(item, encode)
    return conversation


# What is held.


def test_the_summary_stands_before_what_came_after_it_and_the_older_is_left_out() -> None:
    run = summarised()
    conversation = held(run, 3)
    assert conversation.fragments() == (b"user: the first three", b"assistant: four")
    assert (conversation.entries, conversation.digest) == (6, run.pointer().digest)


def test_the_older_summary_is_read_where_it_holds() -> None:
    conversation = held(summarised(), 2)
    shown = (b"user: the first two", b"user: three", b"assistant: four")
    assert conversation.fragments() == shown
    assert [conversation.fragments(upto) for upto in (2, 3, 4, 6)] == [
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
    fragments, _ = await reader.read(RUN, pointer, lambda _: provider(_refuse))
    return [json.loads(fragment)["content"] for fragment in fragments]


async def test_a_new_summary_has_the_conversation_read_anew_from_where_it_holds() -> None:
    run = LoggedRun()
    run.say(said("user", "one"), said("assistant", "two"), said("user", "three"))
    reader = ConversationReader(run, ConversationCache())
    assert await read(reader, run, run.pointer()) == ["one", "two", "three"]
    run.summarise(2, "so far")

    assert await read(reader, run, run.pointer(since=2)) == ["so far", "three"]
    assert [(want.after, want.upto) for want in run.wanted] == [(0, 3), (2, 4)]
    run.say(said("assistant", "four"))
    assert await read(reader, run, run.pointer(since=2)) == ["so far", "three", "four"]
    assert run.wanted[-1].after == 4, "only what is new"


async def test_the_request_for_a_summary_is_made_of_what_is_held() -> None:
    run = LoggedRun()
    run.say(said("user", "one"), said("assistant", "two"), said("user", "three"))
    reader = ConversationReader(run, ConversationCache())
    await read(reader, run, run.pointer())
    pointer = run.pointer().model_copy(update={"summary": True, "upto": 2})

    assert await read(reader, run, pointer) == ["one", "two"]
    assert (run.wanted[-1].after, run.wanted[-1].summary) == (3, True)
    assert await read(reader, run, run.pointer()) == ["one", "two", "three"]


async def test_a_cold_worker_reads_no_more_than_the_model() -> None:
    run = summarised()
    assert await read(ConversationReader(run, ConversationCache()), run, run.pointer(since=3)) == [
        "the first three",
        "four",
    ]
    assert [want.after for want in run.wanted] == [3]


def _refuse(_: httpx.Request) -> httpx.Response:
    return httpx.Response(500)


# What the activity says of it.


async def test_a_refusal_for_its_length_is_no_error_but_says_so() -> None:
    setting = Setting(handler=lambda _: httpx.Response(400, json=TOO_LONG))
    solution = await setting.generate()
    [notice] = solution.pop("notices")
    assert solution == {"tooLong": True, "window": 8192}
    assert "answered 400: This model's maximum context length is 8192 tokens" in notice


# What providers are sent.

Told = tuple[str, Any]


def of_openai(body: dict[str, Any]) -> Iterator[Told]:
    for message in body["messages"]:
        yield from (("call", one["id"]) for one in message.get("tool_calls", ()))
        if message["role"] == "tool":
            yield "result", message["tool_call_id"]


def of_anthropic(body: dict[str, Any]) -> Iterator[Told]:
    for message in body["messages"]:
        for part in message["content"] if isinstance(message["content"], list) else ():
            match part:
                case {"type": "tool_use", "id": known}:
                    yield "call", known
                case {"type": "tool_result", "tool_use_id": known}:
                    yield "result", known


def of_gemini(body: dict[str, Any]) -> Iterator[Told]:
    for content in body["contents"]:
        for part in content["parts"]:
            for key, told in (("functionCall", "call"), ("functionResponse", "result")):
                if key in part:
                    yield told, part[key]["name"]


def of_ollama(body: dict[str, Any]) -> Iterator[Told]:
    for message in body["messages"]:
        yield from (("call", one["function"]["name"]) for one in message.get("tool_calls", ()))
        if message["role"] == "tool":
            yield "result", message["tool_name"]


TELL = {"openai": of_openai, "anthropic": of_anthropic, "gemini": of_gemini, "ollama": of_ollama}


class Sent(Windowed):
    """A run whose requests are made as one provider is sent them: `bodies`."""

    spoken: ProviderName
    bodies: list[dict[str, Any]]

    def answer(self, pointer: ConversationPointer) -> Any:
        format_ = FORMATS[self.spoken]
        page = self.run.pages.page(
            ConversationPageRequest(
                after=pointer.since, upto=pointer.entries, summary=pointer.summary
            )
        )
        assert page.ask is not None
        names = ToolNames(page.ask.tools)
        held = CachedConversation(pointer.since, pointer.origin)
        for item in page.items:
            held.append(item, encoder_for(page.ask.calling, lambda one: format_.encode(one, names)))
        request = ProviderRequest(page.ask, held.fragments(pointer.upto or None))
        self.bodies.append(json.loads(format_.body(request, "api.example.com")))
        return super().answer(pointer)


@pytest.mark.parametrize("spoken", sorted(FORMATS))
def test_no_provider_is_sent_a_result_without_its_call(spoken: ProviderName) -> None:
    answers = [says("", *[call("look", {"n": n})] * (1 + n % 3)) for n in range(24)]
    play = Sent(
        6_000,
        tool("look"),
        model=[*answers, says("done")],
        outcomes={"look": lambda one: f"{one.id}:" + "x" * 700},
        definition={"budget": {"max_turns": 99, "max_iterations": 99, "max_calls": 99}},
    )
    play.spoken, play.bodies = spoken, []
    play.to_end()

    assert len(play.records("summary")) > 1
    assert play.result["output"] == "done"
    for body in play.bodies:
        calls = {"call": 0, "result": 0}
        open_: list[Any] = []
        for told, which in TELL[spoken](body):
            calls[told] += 1
            if told == "call":
                open_.append(which)
            else:
                open_.remove(which)
        assert not open_
        assert calls["call"] == calls["result"]
    assert sum(1 for body in play.bodies for _ in TELL[spoken](body)) > 100


def test_an_entry_that_is_no_message_and_no_summary_is_none() -> None:
    with pytest.raises(ValueError, match="an entry is an object"):
        CachedConversation().append('{"type": "notice"}', encode)
