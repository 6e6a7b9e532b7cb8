"""What a worker holds of the runs' conversations: the very bytes that providers are sent.

A conversation only grows, as the run's log does. The digest chain of what is held says whether it
is still the beginning of that log. Everything here can be dropped and read again from the run.
"""

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from activities.providers.base import Encoded
from schemas.base import link, sha256
from schemas.message import ChatMessage

DEFAULT_CACHE_BYTES = 256 * 1024 * 1024
# What a fragment takes besides its own bytes, and a conversation besides its fragments.
_FRAGMENT_BYTES = 64
_CONVERSATION_BYTES = 1024

Encode = Callable[[ChatMessage], Encoded]


class Run(NamedTuple):
    """One run of a workflow."""

    workflow_id: str
    run_id: str


class Conversation:
    """A run's log from its beginning up to `entries`, in one `encoding`: what providers of one
    kind are sent in one calling, with the tools under the same names. None is none yet."""

    def __init__(self) -> None:
        self.encoding: tuple[str, ...] | None = None
        self.entries = 0
        self.digest = ""
        self.size_bytes = _CONVERSATION_BYTES
        self._fragments: list[bytes] = []
        self._later: list[bytes] = []

    def append(self, item: str, encode: Encode) -> None:
        """The next entry, as the run sends it: its JSON text, or `#` and its digest.

        Raises:
            ValueError: the text is no entry.
        """
        if item.startswith("#"):
            digest = item[1:]
        else:
            digest = sha256(item.encode("utf-8", "surrogatepass"))
            self._add(_message(item), encode)
        self.entries += 1
        self.digest = link(self.digest, digest)

    def fragments(self) -> tuple[bytes, ...]:
        """The messages as they are sent now. Those of an earlier time are the beginning of it."""
        return (*self._fragments, *self._later)

    def _add(self, message: ChatMessage, encode: Encode) -> None:
        encoded = encode(message)
        if message.role != "tool":
            self._fragments += self._later
            self._later.clear()
        self._fragments += encoded.now
        self._later += encoded.later
        new = (*encoded.now, *encoded.later)
        self.size_bytes += sum(len(fragment) + _FRAGMENT_BYTES for fragment in new)


class Conversations:
    """The conversations that a worker holds, at most `limit_bytes` of them.

    Whoever takes one has it alone until it is kept again: another reader of the same run begins
    anew. Those not asked for the longest go first.
    """

    def __init__(self, limit_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: OrderedDict[Run, Conversation] = OrderedDict()
        self.size_bytes = 0

    def take(self, run: Run) -> Conversation:
        """What is held of a run's conversation, which may be nothing."""
        conversation = self._held.pop(run, None)
        if conversation is None:
            return Conversation()
        self.size_bytes -= conversation.size_bytes
        return conversation

    def keep(self, run: Run, conversation: Conversation) -> None:
        """Hold a conversation, unless it alone is too large."""
        self.take(run)
        if conversation.size_bytes > self._limit_bytes:
            return
        self._held[run] = conversation
        self.size_bytes += conversation.size_bytes
        while self.size_bytes > self._limit_bytes:
            _, oldest = self._held.popitem(last=False)
            self.size_bytes -= oldest.size_bytes


def _message(item: str) -> ChatMessage:
    record = json.loads(item)
    if not isinstance(record, dict) or "message" not in record:
        raise ValueError("an entry is an object with a `message`")
    return ChatMessage.read(record["message"])
