"""Reading a run's conversation, page by page: only what is not held yet is asked for.

What was read is right when the digest chain over it ends in the digest that the request was made
with. Where it does not, what was held is dropped and all is read anew, once.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from temporalio.exceptions import ApplicationError

from holdfast.activities.model.composed_messages import encoder_for
from holdfast.activities.model.conversation_cache import (
    CachedConversation,
    ConversationCache,
    Encode,
    RunKey,
)
from holdfast.activities.model.page_prefetch import PagePrefetch
from holdfast.providers.base import (
    Provider,
    ToolNames,
)
from holdfast.providers.model_errors import model_error
from holdfast.schemas.internal.model_request import (
    Ask,
    ConversationPage,
    ConversationPageRequest,
    ConversationPointer,
)

MAX_PAGES = 10_000


class RunNotOpen(Exception):
    """The run is not there any more, or is over."""


class RunUnresponsive(Exception):
    """The run did not answer, though asked several times."""


class ConversationChanged(Exception):
    """What the run says of its conversation is not what it was to be."""


class PageSource(Protocol):
    """Answers for runs."""

    async def page(self, run: RunKey, want: ConversationPageRequest) -> ConversationPage:
        """What `run` answers to `want`.

        Raises:
            RunGone, RunSilent: it does not answer.
        """


class ConversationReader:
    """Reads conversations up to a pointer: what is held already, what the run has handed over, and
    the rest from the run."""

    def __init__(
        self,
        pages: PageSource,
        conversations: ConversationCache,
        prefetch: PagePrefetch | None = None,
    ) -> None:
        self._pages = pages
        self._conversations = conversations
        self._handing = prefetch

    async def read(
        self, run: RunKey, pointer: ConversationPointer, provider_of: Callable[[Ask], Provider]
    ) -> tuple[tuple[bytes, ...], Ask]:
        """The conversation's fragments up to the pointer, and how the model is to be asked.

        Raises:
            RunGone, RunSilent: the run does not answer.
            ConversationChanged: read all anew, it still does not have the pointer's digest.
        """
        for conversation, handed in self._beginnings(run, pointer):
            ask = await self._extend(run, conversation, pointer, provider_of, handed)
            if ask is not None and conversation.digest == pointer.digest:
                if pointer.call is None:
                    self._conversations.keep(run, conversation)
                return conversation.fragments(pointer.upto or None), ask
        raise ConversationChanged(
            "the conversation's digest does not match that of the request: the run's log up to"
            f" entry {pointer.entries} is not what it was when the request was made"
        )

    def _beginnings(
        self, run: RunKey, pointer: ConversationPointer
    ) -> Iterator[tuple[CachedConversation, ConversationPage | None]]:
        """What there is to begin with, and the page behind it that was handed over. The few
        messages by which a call is answered are not held: nobody asks for them again."""
        handed = self._handing and self._handing.take(run.workflow_id, pointer)
        if pointer.call is None or handed is not None:
            held = CachedConversation() if pointer.call else self._conversations.take(run)
            if held.since != pointer.since:
                held = CachedConversation(pointer.since, pointer.origin)
            yield held, handed.page if handed and handed.after == held.entries else None
        yield CachedConversation(pointer.since, pointer.origin), None

    async def _extend(
        self,
        run: RunKey,
        conversation: CachedConversation,
        pointer: ConversationPointer,
        provider_of: Callable[[Ask], Provider],
        handed: ConversationPage | None,
    ) -> Ask | None:
        """Read on from what is held; None where that cannot lead to the pointer."""
        if conversation.entries > pointer.entries:
            return None
        page = handed or await self._pages.page(run, _want(conversation, pointer))
        if page.ask is None:
            return None
        provider = provider_of(page.ask)
        names = ToolNames(page.ask.tools)
        encoding = (provider.kind, page.ask.calling, *names.clashes)
        if conversation.encoding not in (None, encoding):
            return None
        conversation.encoding = encoding
        encode = encoder_for(page.ask.calling, partial(provider.encode, names=names))
        try:
            await self._fill(run, conversation, pointer, page, encode)
        except ValueError:
            return None
        return page.ask

    async def _fill(
        self,
        run: RunKey,
        conversation: CachedConversation,
        pointer: ConversationPointer,
        page: ConversationPage,
        encode: Encode,
    ) -> None:
        begun = ""
        for _ in range(MAX_PAGES):
            begun = _take(page, begun, conversation, encode)
            if conversation.entries >= pointer.entries or not any(page.items):
                return
            page = await self._pages.page(run, _want(conversation, pointer, len(begun)))


def _want(
    conversation: CachedConversation, pointer: ConversationPointer, offset: int = 0
) -> ConversationPageRequest:
    return ConversationPageRequest(
        after=conversation.entries,
        upto=pointer.entries,
        offset=offset,
        call=pointer.call,
        summary=pointer.summary,
    )


def _take(
    page: ConversationPage, begun: str, conversation: CachedConversation, encode: Encode
) -> str:
    """Append a page's entries, the first of which has begun already; what it cuts off its last."""
    items = list(page.items)
    if items:
        items[0] = begun + items[0]
    cut = items.pop() if page.cut and items else ""
    for item in items:
        conversation.append(item, encode)
    return cut


def conversation_error(
    error: RunNotOpen | RunUnresponsive | ConversationChanged,
) -> ApplicationError:
    """Why the conversation could not be had."""
    match error:
        case RunUnresponsive():
            said = f"the run could not be asked for its conversation: {error}"
            return model_error(said, retried=True)
        case _:
            return model_error(str(error))
