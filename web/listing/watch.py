"""Who looks at a list is told when it changes: one look a second or two, for all who see the same.

    lists ──look──► mark of the page ──another?──► `changed`, to each listener

Nothing is remembered of a listener: whoever comes back says which mark they have seen
(`Last-Event-ID`), here or at another inbox.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from html import escape
from typing import Final

from holdfast.client.command_errors import CommandError
from holdfast.runtime.text_safety import one_line
from holdfast.web.http.streaming import frame

EVERY_SECONDS: Final = 1.5
MAX_WATCHED: Final = 100
_TROUBLE_CHARS: Final = 500

Mark = Callable[[], Awaitable[str]]


@dataclass
class _Watched:
    """One view of a list: how it was seen last, or why it could not be."""

    listeners: int = 0
    mark: str = ""
    trouble: str = ""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """Have everyone look who waits for news."""
        self.news.set()
        self.news = asyncio.Event()


class Watches:
    """All views that somebody looks at now."""

    def __init__(self) -> None:
        self._watched: dict[object, _Watched] = {}

    def has_room(self, key: object) -> bool:
        """Whether there is room for a listener to this view."""
        return key in self._watched or len(self._watched) < MAX_WATCHED

    async def changes(self, key: object, mark: Mark, seen: str) -> AsyncGenerator[str, None]:
        """The frames for one listener, for as long as they listen."""
        watched = self._join(key, mark)
        trouble = ""
        try:
            while watched.task is not None and not watched.task.done():
                news = watched.news
                if watched.trouble != trouble:
                    trouble = watched.trouble
                    yield frame("trouble", escape(trouble) or "<!-- over -->")
                if watched.mark and not trouble and watched.mark != seen:
                    seen = watched.mark
                    yield frame("changed", "changed", seen)
                else:
                    await news.wait()
        finally:
            self._leave(key, watched)

    def _join(self, key: object, mark: Mark) -> _Watched:
        watched = self._watched.setdefault(key, _Watched())
        if watched.task is None or watched.task.done():
            watched.task = asyncio.create_task(_watch(watched, mark))
        watched.listeners += 1
        return watched

    def _leave(self, key: object, watched: _Watched) -> None:
        watched.listeners -= 1
        if not watched.listeners and watched.task is not None:
            watched.task.cancel()
            del self._watched[key]


async def _watch(watched: _Watched, mark: Mark) -> None:
    """Look again and again."""
    try:
        while True:
            before = (watched.mark, watched.trouble)
            try:
                watched.mark, watched.trouble = await mark(), ""
            except CommandError as error:
                watched.trouble = one_line(str(error), _TROUBLE_CHARS)
            if (watched.mark, watched.trouble) != before:
                watched.tell()
            await asyncio.sleep(EVERY_SECONDS)
    finally:
        watched.tell()  # whoever waits sees that nobody looks any more
