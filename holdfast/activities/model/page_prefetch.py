"""Pages of runs' logs for `generate`, where run and activity are in one process.

When a run schedules `generate`, it stores the new part of its log here, which saves the activity a
query. A page can be dropped at any time; pages whose activity runs on another worker make room for
others.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from holdfast.activities.model.conversation_cache import ConversationCache
from holdfast.schemas.internal.model_request import (
    ConversationPage,
    ConversationPageRequest,
    ConversationPointer,
)

DEFAULT_PREFETCH_BYTES = 32 * 1024 * 1024
# The size of a page besides its texts.
_PAGE_BYTES = 4096

Answer = Callable[[ConversationPageRequest], ConversationPage]


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
        """Take the page of the request at this pointer, if it is still stored."""
        with self._lock:
            prefetched = self._drop((workflow_id, pointer.call))
        return prefetched if prefetched is not None and prefetched.pointer == pointer else None

    def _drop(self, key: tuple[str, str | None]) -> PrefetchedPage | None:
        prefetched = self._pages.pop(key, None)
        if prefetched is not None:
            self.size_bytes -= prefetched.size_bytes
        return prefetched
