"""What a run hands over spares the query; it is checked as a page is, and can always be dropped."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from holdfast.activities.model.conversation_cache import ConversationCache, PagePrefetch
from holdfast.activities.model.conversation_reader import ConversationChanged, ConversationReader
from holdfast.providers.base import Provider
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.transport.http import HttpProvider
from holdfast.schemas.internal.model_request import (
    Ask,
    ConversationPage,
    ConversationPageRequest,
    ConversationPointer,
)
from tests.activities.model.logged_run import RUN, LoggedRun, take_any
from tests.providers.fakes import TOOLS, ask, chat_message, target

NO_NETWORK = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(500)))
Answer = Callable[[ConversationPageRequest], ConversationPage]


class PrefetchProcess:
    def __init__(self, **bounds: int) -> None:
        self.run = LoggedRun(ask(tools=TOOLS))
        self.handing = PagePrefetch(ConversationCache(), **bounds)
        self.reader = ConversationReader(self.run.page, self.handing)
        self.model = HttpProvider(OpenAIFormat(), target(), NO_NETWORK)

    def provider(self, _: Ask) -> Provider:
        return self.model

    def answer(self, want: ConversationPageRequest) -> ConversationPage:
        items = self.run.items[want.after : want.upto]
        return ConversationPage(items=items, ask=self.run.ask)

    def hand_over(self, answer: Answer | None = None, **pointer: Any) -> None:
        at = self.run.pointer().model_copy(update=pointer)
        self.handing.store(RUN.workflow_id, at, answer or self.answer)

    async def read(self, **pointer: Any) -> list[bytes]:
        """What a request at the end of the log is made of; `run.wanted` is what was queried."""
        self.run.wanted.clear()
        at = self.run.pointer().model_copy(update=pointer)
        request = await self.reader.read(RUN, at, self.provider, take_any)
        assert request.ask == self.run.ask
        return list(request.fragments)


@pytest.fixture
def process() -> PrefetchProcess:
    made = PrefetchProcess()
    made.run.append(chat_message("user", "one"))
    return made


async def test_what_is_handed_over_is_not_asked_for(process: PrefetchProcess) -> None:
    queried = await process.read()
    for more in ("two", "three"):
        process.run.append(chat_message("user", more))
        process.run.note()
        process.hand_over()
        handed = await process.read()
        assert process.run.wanted == []
        assert handed[: len(queried)] == queried
    assert len(handed) == 3


async def test_only_what_is_not_held_yet_is_handed_over(process: PrefetchProcess) -> None:
    wanted: list[ConversationPageRequest] = []

    def answer(want: ConversationPageRequest) -> ConversationPage:
        wanted.append(want)
        return process.answer(want)

    await process.read()
    process.run.append(chat_message("user", "two"))
    process.hand_over(answer)
    assert wanted == [ConversationPageRequest(after=1, upto=2)]


async def test_it_serves_one_request(process: PrefetchProcess) -> None:
    process.hand_over()
    assert await process.read() == await process.read()
    assert process.run.wanted == [ConversationPageRequest(after=1, upto=1)]


async def test_it_serves_no_other_request(process: PrefetchProcess) -> None:
    process.hand_over()
    process.run.append(chat_message("user", "two"))
    assert len(await process.read()) == 2
    assert process.run.wanted == [ConversationPageRequest(after=0, upto=2)]


async def test_it_does_not_serve_who_holds_less_by_now(process: PrefetchProcess) -> None:
    await process.read()
    process.run.append(chat_message("user", "two"))
    process.hand_over()
    process.handing.conversations.take(RUN)
    assert len(await process.read()) == 2
    assert process.run.wanted == [ConversationPageRequest(after=0, upto=2)]


async def test_what_does_not_match_the_digest_is_asked_for(process: PrefetchProcess) -> None:
    process.hand_over(
        lambda _: ConversationPage(items=process.run.items[:1] * 2, ask=process.run.ask)
    )
    assert len(await process.read()) == 1
    assert process.run.wanted == [ConversationPageRequest(after=0, upto=1)]


async def test_what_does_not_fit_into_one_page_is_asked_for(process: PrefetchProcess) -> None:
    process.run.append(chat_message("user", "two"), chat_message("user", "three"))
    process.hand_over(
        lambda want: ConversationPage(
            items=[process.run.items[0], "{"], cut=True, ask=process.run.ask
        )
    )
    process.run.items[1] = "{" + process.run.items[1].removeprefix("{")
    assert len(await process.read()) == 3
    assert [(want.after, want.offset) for want in process.run.wanted] == [(1, 1)]


async def test_a_call_that_the_model_answers_is_handed_over_beside_the_run(
    process: PrefetchProcess,
) -> None:
    process.hand_over(call="t1c1")
    process.hand_over()
    for pointer in ({"call": "t1c1"}, {}):
        assert len(await process.read(**pointer)) == 1
        assert process.run.wanted == []


async def test_a_bad_page_of_a_call_is_asked_for_too(process: PrefetchProcess) -> None:
    process.hand_over(lambda _: ConversationPage(items=[], ask=process.run.ask), call="t1c1")
    assert len(await process.read(call="t1c1")) == 1
    process.hand_over(lambda _: ConversationPage(items=[], ask=process.run.ask), call="t1c1")
    with pytest.raises(ConversationChanged):
        await process.read(call="t1c1", digest="of something else")


def handed_over(handing: PagePrefetch, name: str, size: int) -> ConversationPointer:
    """Hand over so many bytes for a run; where it points."""
    pointer = ConversationPointer(turn=1, entries=1, digest=name)
    handing.store(name, pointer, lambda _: ConversationPage(items=["x" * size], ask=ask()))
    return pointer


def test_a_page_that_is_never_taken_makes_room() -> None:
    handing = PagePrefetch(ConversationCache(), limit_bytes=20_000)
    pointers = {name: handed_over(handing, name, 4_000) for name in "abcd"}
    assert handing.size_bytes <= 20_000
    there = [handing.take(name, pointer) is not None for name, pointer in pointers.items()]
    assert there == [False, False, True, True]
    assert handing.size_bytes == 0


def test_of_a_run_the_newest_alone_is_kept() -> None:
    handing = PagePrefetch(ConversationCache())
    before = [handed_over(handing, "a", 4_000), handing.size_bytes][1]
    handed_over(handing, "a", 4_000)
    assert handing.size_bytes == before


def test_what_is_too_large_alone_is_not_kept_and_nothing_goes_for_it() -> None:
    handing = PagePrefetch(ConversationCache(), limit_bytes=20_000)
    small = handed_over(handing, "a", 4_000)
    large = handed_over(handing, "b", 20_000)
    assert handing.take("b", large) is None
    assert handing.take("a", small) is not None
