"""A worker's cache of conversations, as the bytes that providers receive, and pages that extend it.

A conversation only grows, as the run's log does, until a summary replaces its older part: then
another starts. The digest chain of the cached part proves that it is still a part of that log.

When a run schedules `generate` in the process of the activity, it stores the new part of its log
here as a page, which saves the activity a query. Pages whose activity runs on another worker make
room for others. Everything here can be dropped and read again from the run.
"""

import asyncio
import json
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import takewhile
from threading import Lock
from typing import NamedTuple

from holdfast.providers.base import EncodedMessage, Encoder
from holdfast.schemas.base import link, sha256
from holdfast.schemas.internal.model_request import (
    ConversationPage,
    ConversationPageRequest,
    ConversationPointer,
)
from holdfast.schemas.message import ChatMessage

DEFAULT_CACHE_BYTES = 256 * 1024 * 1024
# A larger conversation, with files, would drop many others: it is read again.
_MAX_CACHED_PART = 0.1
# Of the conversations of running requests, with their files.
MAX_RUNNING_BYTES = 300_000_000
# The size of a fragment besides its own bytes, and of a conversation besides its fragments.
FRAGMENT_BYTES = 256
_CONVERSATION_BYTES = 1024
DEFAULT_PREFETCH_BYTES = 32 * 1024 * 1024
# The size of a page besides its texts.
_PAGE_BYTES = 4096

TakeBytes = Callable[[int], Awaitable[None]]
Answer = Callable[[ConversationPageRequest], ConversationPage]


class RunKey(NamedTuple):
    """One run of a workflow."""

    workflow_id: str
    run_id: str


class CachedMessage(NamedTuple):
    """A message by the number of its entry, as the provider receives it."""

    number: int
    role: str
    encoded: EncodedMessage


class CachedConversation:
    """A run's log after entry `since` up to `entries`, in one `encoding`.

    An encoding is that of a kind of provider, a way of calling, and names of tools; None before the
    first message. The entries before `since` are replaced by the newest summary of the log.
    `origin` is the digest there.
    """

    def __init__(self, since: int = 0, origin: str = "") -> None:
        self.encoding: tuple[str, ...] | None = None
        self.since = self.entries = since
        self.digest = origin
        self.size_bytes = _CONVERSATION_BYTES
        self._summary: list[CachedMessage] = []
        self._messages: list[CachedMessage] = []

    def append(self, item: str, encode: Encoder, filled: ChatMessage | None = None) -> None:
        """Append the next entry, as the run sends it: its JSON text, or `#` and its digest.

        `filled` is its message with the files that it has in the store.

        Raises:
            ValueError: the text is no entry.
        """
        if item.startswith("#"):
            digest = item[1:]
        else:
            digest = sha256(item.encode("utf-8", "surrogatepass"))
            record = json.loads(item)
            if not isinstance(record, dict) or not ("message" in record or "upto" in record):
                raise ValueError(
                    "an entry is an object with a `message`, or with a summary `upto` another"
                )
            encoded = EncodedMessage()
            if "message" in record:
                message = filled or ChatMessage.read(record["message"])
                encoded = encode(message)
                self._messages.append(CachedMessage(self.entries + 1, message.role, encoded))
            elif record["upto"] == self.since:
                encoded = encode(ChatMessage(role="user", content=record["text"]))
                self._summary = [CachedMessage(self.entries + 1, "user", encoded)]
            new = (*encoded.fragments, *encoded.deferred)
            self.size_bytes += sum(len(fragment) + FRAGMENT_BYTES for fragment in new)
        self.entries += 1
        self.digest = link(self.digest, digest)

    def messages(self, upto: int | None = None) -> Iterator[CachedMessage]:
        """Yield all messages, or those up to an entry without open calls; a summary is first."""
        yield from self._summary
        yield from takewhile(lambda one: upto is None or one.number <= upto, self._messages)


def fragments(messages: Iterable[CachedMessage]) -> tuple[bytes, ...]:
    """Return messages as they are sent: those of an earlier request are the beginning."""
    sent, deferred = list[bytes](), list[bytes]()
    for message in messages:
        if message.role != "tool":
            sent += deferred
            deferred.clear()
        sent += message.encoded.fragments
        deferred += message.encoded.deferred
    return (*sent, *deferred)


class SharedBytes:
    """Bytes of memory that the running requests of a worker share; each waits until its own fit.

    A request takes all of them at once: none waits with bytes for which another waits.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = self._free_bytes = limit_bytes
        self._first, self._freed = asyncio.Lock(), asyncio.Event()

    @asynccontextmanager
    async def share(self) -> AsyncIterator[TakeBytes]:
        """Yield a function that takes bytes, at most all, in place of those that it took before."""
        taken = 0

        async def take(size_bytes: int) -> None:
            nonlocal taken
            self._give(taken)
            taken, size_bytes = 0, min(size_bytes, self._limit_bytes)
            async with self._first:  # the others wait behind it, so that it does not wait for ever
                while size_bytes > self._free_bytes:
                    self._freed.clear()
                    await self._freed.wait()
                self._free_bytes -= size_bytes
                taken = size_bytes

        try:
            yield take
        finally:
            self._give(taken)

    def _give(self, size_bytes: int) -> None:
        self._free_bytes += size_bytes
        self._freed.set()


class ConversationCache:
    """The cached conversations of a worker, at most `limit_bytes` of them.

    A taken conversation is no longer in the cache until it is kept again, but in those of `running`
    requests: another reader of the same run starts from the beginning. The least recently used are
    dropped first.
    """

    def __init__(self, limit_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self.running = SharedBytes(MAX_RUNNING_BYTES)
        # By workflow id: a run that continued as new has the same log.
        self._conversations: OrderedDict[str, CachedConversation] = OrderedDict()
        self.size_bytes = 0

    def entries_of(self, workflow_id: str, since: int) -> int:
        """Return the last cached entry of a conversation that starts after entry `since`.

        Safe to call in any thread.
        """
        conversation = self._conversations.get(workflow_id)
        if conversation is None or conversation.since != since:
            return since
        return conversation.entries

    def take(self, run: RunKey) -> CachedConversation:
        """Take a run's conversation out of the cache, or return an empty one."""
        conversation = self._conversations.pop(run.workflow_id, None)
        if conversation is None:
            return CachedConversation()
        self.size_bytes -= conversation.size_bytes
        return conversation

    def keep(self, run: RunKey, conversation: CachedConversation) -> None:
        """Cache a conversation, unless it is over a tenth of the cache."""
        self.take(run)
        if conversation.size_bytes > self._limit_bytes * _MAX_CACHED_PART:
            return
        self._conversations[run.workflow_id] = conversation
        self.size_bytes += conversation.size_bytes
        while self.size_bytes > self._limit_bytes:
            _, oldest = self._conversations.popitem(last=False)
            self.size_bytes -= oldest.size_bytes


class PrefetchedPage(NamedTuple):
    """The first page of the entries after number `after`, up to a pointer."""

    pointer: ConversationPointer
    after: int
    page: ConversationPage
    size_bytes: int


class PagePrefetch:
    """The pages not taken yet, at most `limit_bytes` of them.

    The newest page of a run, and of each call that its model answers, is stored. Workflows store
    pages in threads of their own.
    """

    def __init__(
        self, conversations: ConversationCache, limit_bytes: int = DEFAULT_PREFETCH_BYTES
    ) -> None:
        self.conversations = conversations
        self._limit_bytes = limit_bytes
        self._pages: OrderedDict[tuple[str, str | None], PrefetchedPage] = OrderedDict()
        self._lock = Lock()
        self.size_bytes = 0

    def store(self, workflow_id: str, pointer: ConversationPointer, answer: Answer) -> None:
        """Store the page that `answer` returns for the part of the conversation not cached yet."""
        after = 0
        if pointer.call is None:
            after = self.conversations.entries_of(workflow_id, pointer.since)
        if after > pointer.entries:
            return
        page = answer(pointer.page_after(after))
        # But for two texts, its ask refers to data of the run.
        texts = [*page.items, *((page.ask.instructions, page.ask.tail or "") if page.ask else ())]
        size_bytes = _PAGE_BYTES + sum(map(sys.getsizeof, texts))
        key = (workflow_id, pointer.call)
        with self._lock:
            self._drop(key)
            if size_bytes > self._limit_bytes:
                return
            self._pages[key] = PrefetchedPage(pointer, after, page, size_bytes)
            self.size_bytes += size_bytes
            while self.size_bytes > self._limit_bytes:
                self._drop(next(iter(self._pages)))

    def take(self, workflow_id: str, pointer: ConversationPointer) -> PrefetchedPage | None:
        with self._lock:
            prefetched = self._drop((workflow_id, pointer.call))
        return prefetched if prefetched is not None and prefetched.pointer == pointer else None

    def _drop(self, key: tuple[str, str | None]) -> PrefetchedPage | None:
        prefetched = self._pages.pop(key, None)
        if prefetched is not None:
            self.size_bytes -= prefetched.size_bytes
        return prefetched
