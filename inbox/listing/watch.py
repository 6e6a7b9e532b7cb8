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

from remote.errors import CommandError
from remote.text import one_line

EVERY_SECONDS: Final = 1.5
KEEP_ALIVE_SECONDS: Final = 15.0
MAX_LISTENERS: Final = 500
MAX_WATCHED: Final = 100
_TROUBLE_CHARS: Final = 500

Mark = Callable[[], Awaitable[str]]


class FullError(Exception):
    """There are as many listeners, or as many views of the list, as are watched at a time."""


@dataclass
class _Watched:
    """One view of a list: how it was seen last, or why it could not be."""

    listeners: int = 0
    mark: str = ""
    trouble: str = ""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Watches:
    """All views that somebody looks at now."""

    def __init__(self) -> None:
        self._watched: dict[object, _Watched] = {}
        self._listeners = 0

    def check_room(self, key: object) -> None:
        """See that there is room for another listener.

        Raises:
            FullError: there is none.
        """
        new = key not in self._watched
        if self._listeners >= MAX_LISTENERS or (new and len(self._watched) >= MAX_WATCHED):
            raise FullError

    async def changes(self, key: object, mark: Mark, seen: str) -> AsyncGenerator[bytes]:
        """Server-sent events for one listener, for as long as they listen."""
        watched = self._join(key, mark)
        trouble = ""
        try:
            while watched.task is not None and not watched.task.done():
                news = watched.news
                if watched.trouble != trouble:
                    trouble = watched.trouble
                    yield _frame("trouble", escape(trouble) or "<!-- over -->")
                if watched.mark and not trouble and watched.mark != seen:
                    seen = watched.mark
                    yield _frame("changed", "changed", seen)
                elif not await _set(news):
                    yield b": nothing new\n\n"
        finally:
            self._leave(key, watched)

    def _join(self, key: object, mark: Mark) -> _Watched:
        watched = self._watched.setdefault(key, _Watched())
        if watched.task is None or watched.task.done():
            watched.task = asyncio.create_task(_watch(watched, mark))
        watched.listeners += 1
        self._listeners += 1
        return watched

    def _leave(self, key: object, watched: _Watched) -> None:
        watched.listeners -= 1
        self._listeners -= 1
        if not watched.listeners and watched.task is not None:
            watched.task.cancel()
            del self._watched[key]


async def _watch(watched: _Watched, mark: Mark) -> None:
    """Look again and again."""
    while True:
        before = (watched.mark, watched.trouble)
        try:
            watched.mark, watched.trouble = await mark(), ""
        except CommandError as error:
            watched.trouble = one_line(str(error), _TROUBLE_CHARS)
        if (watched.mark, watched.trouble) != before:
            watched.news.set()
            watched.news = asyncio.Event()
        await asyncio.sleep(EVERY_SECONDS)


async def _set(news: asyncio.Event) -> bool:
    """Whether there is news, within the time after which a line is sent anyway."""
    try:
        await asyncio.wait_for(news.wait(), KEEP_ALIVE_SECONDS)
    except TimeoutError:
        return False
    return True


def _frame(event: str, data: str, id: str = "") -> bytes:
    lines = [f"id: {id}"] if id else []
    return "\n".join([*lines, f"event: {event}", f"data: {data}", "", ""]).encode()
