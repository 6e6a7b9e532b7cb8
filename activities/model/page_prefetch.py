"""What runs hand over to the activity that asks their model, where both are in one process.

When a run has its model asked, it hands over what is new in its log: then the activity need not
query for it. That only saves a question. What is handed over can be dropped at any time; it is no
use where another worker carries the activity out, and makes room for others.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from temporalio.worker import Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

from holdfast.activities.model.conversation_cache import ConversationCache
from holdfast.schemas.internal.model_request import (
    HAND_OVER,
    ConversationPage,
    ConversationPageRequest,
    ConversationPointer,
)

DEFAULT_PREFETCH_BYTES = 32 * 1024 * 1024
# What a page takes besides its texts.
_PAGE_BYTES = 4096

Answer = Callable[[ConversationPageRequest], ConversationPage]


class PrefetchedPage(NamedTuple):
    """The first page of what leads to a pointer: the entries after number `after`."""

    pointer: ConversationPointer
    after: int
    page: ConversationPage
    size_bytes: int


class PagePrefetch:
    """What was handed over and not taken yet, at most `limit_bytes` of it.

    For a run, and for each call that its model answers, the newest is kept. Workflows hand over in
    threads of their own.
    """

    def __init__(
        self, conversations: ConversationCache, limit_bytes: int = DEFAULT_PREFETCH_BYTES
    ) -> None:
        self.conversations = conversations
        self._limit_bytes = limit_bytes
        self._held: OrderedDict[tuple[str, str | None], PrefetchedPage] = OrderedDict()
        self._lock = Lock()
        self.size_bytes = 0

    def store(self, workflow_id: str, pointer: ConversationPointer, answer: Answer) -> None:
        """Keep what the run itself `answer`s of what is not held yet of its conversation."""
        after = 0
        if pointer.call is None:
            after = self.conversations.entries_of(workflow_id, pointer.since)
        if after > pointer.entries:
            return
        page = answer(
            ConversationPageRequest(
                after=after, upto=pointer.entries, call=pointer.call, summary=pointer.summary
            )
        )
        self._keep(workflow_id, PrefetchedPage(pointer, after, page, _size_bytes(page)))

    def take(self, workflow_id: str, pointer: ConversationPointer) -> PrefetchedPage | None:
        """What was handed over for the request at this pointer, if it is still here."""
        with self._lock:
            handed = self._drop((workflow_id, pointer.call))
        return handed if handed is not None and handed.pointer == pointer else None

    def _keep(self, workflow_id: str, handed: PrefetchedPage) -> None:
        key = (workflow_id, handed.pointer.call)
        with self._lock:
            self._drop(key)
            if handed.size_bytes > self._limit_bytes:
                return
            self._held[key] = handed
            self.size_bytes += handed.size_bytes
            while self.size_bytes > self._limit_bytes:
                self._drop(next(iter(self._held)))

    def _drop(self, key: tuple[str, str | None]) -> PrefetchedPage | None:
        handed = self._held.pop(key, None)
        if handed is not None:
            self.size_bytes -= handed.size_bytes
        return handed


class PagePrefetchInterceptor(Interceptor):
    """Gives the workflows of a worker the function by which they hand over."""

    def __init__(self, prefetch: PagePrefetch) -> None:
        self._handing = prefetch

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Add the function; the SDK calls this."""
        input.unsafe_extern_functions[HAND_OVER] = self._handing.store
        return None


def _size_bytes(page: ConversationPage) -> int:
    """What a page takes. Its ask refers to what the run holds anyway, but for two texts."""
    texts = list(page.items)
    if page.ask is not None:
        texts += [page.ask.instructions, page.ask.tail or ""]
    return _PAGE_BYTES + sum(map(sys.getsizeof, texts))
