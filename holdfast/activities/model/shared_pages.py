"""Pages of runs' logs in the store, for `generate` in another process than the run's.

Any worker takes the requests to an endpoint with a rate limit. The process of the run writes a page
for each, in the background: the settings of the request (`ask`), and the entries since the page
before. A page of more than 64 KB is complete: the next one begins behind it. A reader follows the
pages back to what it has cached.

The digest chain proves the entries, but not the settings. So each page is sealed with a secret, the
digest of the run's id and the pointer: Temporal has both, the store has neither. A page that is
late, missing or damaged costs a query.
"""

import asyncio
import logging
import zlib
from concurrent.futures import Future

from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter

from holdfast.activities.model.conversation_cache import Answer, RunKey
from holdfast.runtime.storage.store import Store
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.internal.model_request import ConversationPage, ConversationPointer

FULL_CHARACTERS = 64 * 1024
# Pages that a slow store has not taken yet, and runs whose last full page is known.
MAX_WRITING = 256
MAX_RUNS = 10_000
# The pauses before a page is read: its request may be there before it.
PAUSES_SECONDS = (0, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3)

logger = logging.getLogger("holdfast")


def page_secret(run: RunKey, pointer: ConversationPointer) -> str:
    return sha256(canonical_json([*run, pointer.to_json()]))


class SharedPage(ConversationPage):
    """The entries after number `after`; `before` is the secret of the page that ends there."""

    after: int
    before: str | None = None


class SharedPages:
    """Writes and reads pages, for the runs of this process and the requests that it takes."""

    def __init__(self, store: Store, converter: DataConverter) -> None:
        self._store, self._converter = store, converter
        self._loop = asyncio.get_running_loop()
        # Of each run: the entry behind which the next page begins, and the page that ends there.
        self._ends: dict[RunKey, tuple[int, str | None]] = {}
        self._writing: set[Future[None]] = set()

    def write(self, run: RunKey, pointer: ConversationPointer, answer: Answer) -> None:
        """Write the page of a request, from what `answer` returns now; safe in any thread."""
        if len(self._writing) >= MAX_WRITING:
            return
        after, before = (0, None) if pointer.call else self._ends.get(run, (0, None))
        if after < pointer.since:
            after, before = pointer.since, None
        page, secret = answer(pointer.page_after(after)), page_secret(run, pointer)
        # What the run cannot answer at once is not written, and the next page begins behind it.
        is_whole = not page.cut and len(page.items) == pointer.entries - after
        if is_whole:
            shared = SharedPage(items=page.items, ask=page.ask, after=after, before=before)
            task = self._keep(run, secret, shared)
            writing = asyncio.run_coroutine_threadsafe(task, self._loop)
            self._writing.add(writing)
            writing.add_done_callback(self._writing.discard)
        if not pointer.call and (not is_whole or sum(map(len, page.items)) > FULL_CHARACTERS):
            if len(self._ends) >= MAX_RUNS:
                self._ends.clear()
            self._ends[run] = (pointer.entries, secret if is_whole else None)

    async def _keep(self, run: RunKey, secret: str, page: SharedPage) -> None:
        try:
            [payload] = await self._converter.encode([page.to_json()])
            data = await asyncio.to_thread(zlib.compress, payload.SerializeToString())
            await self._store.keep_sealed(secret, data)
        except Exception as error:  # any: of a codec, too
            self._ends.pop(run, None)
            logger.warning("the page of a request is not stored: %s", error)

    async def read(self, secret: str | None, after: int) -> ConversationPage | None:
        """Return the log after an entry up to the request with this secret, if it is stored."""
        page = None if secret is None else await self._fetch(secret)
        if page is None or page.after <= after:
            return page and page.model_copy(update={"items": page.items[after - page.after :]})
        earlier = await self.read(page.before, after)
        return earlier and page.model_copy(update={"items": [*earlier.items, *page.items]})

    async def _fetch(self, secret: str) -> SharedPage | None:
        problem: Exception | None = None
        for pause_seconds in PAUSES_SECONDS:
            await asyncio.sleep(pause_seconds)
            try:
                data = zlib.decompress(await self._store.fetch_sealed(secret))
                [value] = await self._converter.decode([Payload.FromString(data)])
                return SharedPage.read(value)
            except Exception as error:  # any: of a codec, too
                problem = error
        logger.warning("the page of a request is not read from the store: %s", problem)
        return None
