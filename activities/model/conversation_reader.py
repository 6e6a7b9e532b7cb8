"""Reads a run's conversation page by page, from the end of the cached part.

The result is right if its digest chain ends in the digest of the request. If it does not, the
cached part is dropped and everything is read again, once.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from holdfast.activities.model.conversation_cache import (
    CachedConversation,
    RunKey,
)
from holdfast.activities.model.page_prefetch import PagePrefetch
from holdfast.providers.base import Encoder, Provider, ToolNames
from holdfast.schemas.agent import Calling
from holdfast.schemas.base import readable_json
from holdfast.schemas.internal.model_request import (
    Ask,
    ConversationPage,
    ConversationPageRequest,
    ConversationPointer,
)
from holdfast.schemas.message import ChatMessage, TextPart

MAX_PAGES = 10_000


class RunNotOpen(Exception):
    """The run does not exist any more, or is closed."""


class RunUnresponsive(Exception):
    """The run did not answer several queries."""


class ConversationChanged(Exception):
    """The run's conversation does not have the digest of the request."""


class PageSource(Protocol):
    """Queries runs for pages of their logs."""

    async def page(self, run: RunKey, want: ConversationPageRequest) -> ConversationPage:
        """Return the page `want` of a run.

        Raises:
            RunNotOpen, RunUnresponsive: the run does not answer.
        """


class ConversationReader:
    """Reads conversations up to a pointer: from the cache, the prefetched page, and the run."""

    def __init__(self, pages: PageSource, prefetch: PagePrefetch) -> None:
        self._pages = pages
        self._prefetch, self._cache = prefetch, prefetch.conversations

    async def read(
        self, run: RunKey, pointer: ConversationPointer, provider_of: Callable[[Ask], Provider]
    ) -> tuple[tuple[bytes, ...], Ask]:
        """Return the conversation's fragments up to the pointer, and the settings of the request.

        Raises:
            RunNotOpen, RunUnresponsive: the run does not answer.
            ConversationChanged: read again, it still does not have the pointer's digest.
        """
        for conversation, prefetched in self._beginnings(run, pointer):
            ask = await self._extend(run, conversation, pointer, provider_of, prefetched)
            if ask is not None and conversation.digest == pointer.digest:
                if pointer.call is None:
                    self._cache.keep(run, conversation)
                return conversation.fragments(pointer.upto or None), ask
        raise ConversationChanged(
            "the conversation's digest does not match that of the request: the run's log up to"
            f" entry {pointer.entries} is not what it was when the request was made"
        )

    def _beginnings(
        self, run: RunKey, pointer: ConversationPointer
    ) -> Iterator[tuple[CachedConversation, ConversationPage | None]]:
        """Yield a beginning of the conversation, and the prefetched page behind it.

        The few messages by which a call is answered are not cached: they are read once.
        """
        prefetched = self._prefetch.take(run.workflow_id, pointer)
        if pointer.call is None or prefetched is not None:
            cached = CachedConversation() if pointer.call else self._cache.take(run)
            if cached.since != pointer.since:
                cached = CachedConversation(pointer.since, pointer.origin)
            yield (
                cached,
                prefetched.page if prefetched and prefetched.after == cached.entries else None,
            )
        yield CachedConversation(pointer.since, pointer.origin), None

    async def _extend(
        self,
        run: RunKey,
        conversation: CachedConversation,
        pointer: ConversationPointer,
        provider_of: Callable[[Ask], Provider],
        prefetched: ConversationPage | None,
    ) -> Ask | None:
        """Read on from the cached part; None if that cannot lead to the pointer."""
        if conversation.entries > pointer.entries:
            return None
        page = prefetched or await self._pages.page(run, pointer.page_after(conversation.entries))
        if page.ask is None:
            return None
        provider = provider_of(page.ask)
        names = ToolNames(page.ask.tools)
        encoding = (provider.kind, page.ask.calling, *names.clashes)
        if conversation.encoding not in (None, encoding):
            return None
        conversation.encoding = encoding
        encode = encoder_for(page.ask.calling, partial(provider.encode, names=names))
        ask, beginning = page.ask, ""
        for _ in range(MAX_PAGES):
            items = list(page.items)
            if items:
                items[0] = beginning + items[0]
            # The last entry may go on in the next page.
            beginning = items.pop() if page.cut and items else ""
            try:
                for item in items:
                    conversation.append(item, encode)
            except ValueError:
                return None
            if conversation.entries >= pointer.entries or not any(page.items):
                break
            page = await self._pages.page(
                run, pointer.page_after(conversation.entries, len(beginning))
            )
        return ask


def encoder_for(calling: Calling, encode: Encoder) -> Encoder:
    """Return the encoder of messages for a way of calling tools.

    In composed calling, the model's calls are in the text of its answer, and the provider is
    offered no tools. Calls and results become text, so that no format needs to know.
    """
    if calling == "native":
        return encode
    return lambda message: encode(without_native_calls(message))


def without_native_calls(message: ChatMessage) -> ChatMessage:
    """Return the message without calls, or a result as a message of the user."""
    if message.role == "tool" and message.call_id is not None:
        what = "Error" if message.is_error else "Result"
        introduction = f"{what} of {message.call_id} ({message.tool}):"
        content = message.content
        if isinstance(content, str):
            return ChatMessage(role="user", content=f"{introduction} {content}")
        return ChatMessage(role="user", content=[TextPart(text=introduction), *content])
    if not message.calls:
        return message
    content = message.content
    if message.said is None:  # the calls were made natively, as those of an imported transcript
        calls = [{"_tool": call.tool, **call.arguments} for call in message.calls]
        answer = readable_json({"calls": calls, "output": None})
        content = f"{content}\n{answer}" if content and isinstance(content, str) else answer
    return message.model_copy(update={"calls": [], "content": content})
