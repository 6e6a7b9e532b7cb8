"""Notify the viewers of a list of its changes, with one query every second or two for each view.

    lists ──query──► mark of the page ──changed?──► `changed`, to each viewer

No viewer is stored: a reconnecting one sends the last mark (`Last-Event-ID`), here or to another
inbox.
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
    listeners: int = 0
    mark: str = ""
    trouble: str = ""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """Wake all viewers."""
        self.news.set()
        self.news = asyncio.Event()


class ListWatches:
    """The watched views of a process."""

    def __init__(self) -> None:
        self._watched: dict[object, _Watched] = {}

    def has_room(self, key: object) -> bool:
        """Report whether one more viewer of this view is allowed."""
        return key in self._watched or len(self._watched) < MAX_WATCHED

    async def changes(self, key: object, mark: Mark, seen: str) -> AsyncGenerator[str, None]:
        """Yield the frames for one viewer."""
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
        watched.tell()  # waiting viewers see that the watch has ended
