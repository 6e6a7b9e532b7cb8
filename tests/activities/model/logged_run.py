"""A run's log, as a worker asks for it page by page."""

from holdfast.activities.model.conversation_cache import RunKey
from holdfast.schemas.base import canonical_json, link, sha256
from holdfast.schemas.internal.model_request import (
    Ask,
    ConversationPage,
    ConversationPageRequest,
    ConversationPointer,
)
from holdfast.schemas.message import ChatMessage
from tests.providers.fakes import ask

RUN = RunKey("agent-1", "run-1")


class LoggedRun:
    """A run's log, and the pages that it answers: of `size` characters at most."""

    def __init__(self, asked: Ask | None = None, size: int = 1_000_000) -> None:
        self.ask = asked or ask()
        self.size = size
        self.items: list[str] = []
        self.wanted: list[ConversationPageRequest] = []
        self.error: Exception | None = None

    def append(self, *messages: ChatMessage) -> None:
        for message in messages:
            entry = {"type": "message", "n": len(self.items) + 1, "message": message.to_json()}
            self.items.append(canonical_json(entry).decode())

    def summarise(self, upto: int, text: str) -> None:
        entry = {"type": "summary", "n": len(self.items) + 1, "upto": upto, "text": text}
        self.items.append(canonical_json(entry).decode())

    def note(self) -> None:
        """Append an entry that the model does not see."""
        self.items.append("#" + sha256(f"{len(self.items)}".encode()))

    def pointer(self, entries: int | None = None, since: int = 0) -> ConversationPointer:
        """The place after `entries` entries; without, the end. What is read begins `since`."""
        upto = len(self.items[:entries])
        origin = self._digest(since)
        digest = self._digest(upto)
        return ConversationPointer(turn=1, entries=upto, digest=digest, since=since, origin=origin)

    def _digest(self, upto: int) -> str:
        digest = ""
        for item in self.items[:upto]:
            own = item[1:] if item.startswith("#") else sha256(item.encode())
            digest = link(digest, own)
        return digest

    async def page(self, run: RunKey, want: ConversationPageRequest) -> ConversationPage:
        assert run == RUN
        self.wanted.append(want)
        if self.error is not None:
            raise self.error
        items, room = [], self.size
        cut = False
        for index in range(want.after, min(want.upto, len(self.items))):
            item = self.items[index][want.offset if index == want.after else 0 :]
            cut = len(item) > room
            items.append(item[:room])
            room -= len(items[-1])
            if room == 0:
                break
        return ConversationPage(items=items, cut=cut, ask=self.ask if want.offset == 0 else None)


async def take_any(size_bytes: int) -> None:
    """Take bytes for a request, of which there are enough."""
