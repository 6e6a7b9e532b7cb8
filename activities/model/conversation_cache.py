"""A worker's cache of conversations, as the bytes that providers receive.

A conversation only grows, as the run's log does, until a summary replaces its older part: then
another starts. The digest chain of the cached part proves that it is still a part of that log.
Everything here can be dropped and read again from the run.
"""

import json
from array import array
from bisect import bisect_right
from collections import OrderedDict
from typing import NamedTuple

from holdfast.providers.base import EncodedMessage, Encoder
from holdfast.schemas.base import link, sha256
from holdfast.schemas.message import ChatMessage

DEFAULT_CACHE_BYTES = 256 * 1024 * 1024
# The size of a fragment besides its own bytes, and of a conversation besides its fragments.
_FRAGMENT_BYTES = 64
_CONVERSATION_BYTES = 1024


class RunKey(NamedTuple):
    """One run of a workflow."""

    workflow_id: str
    run_id: str


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
        # Of the messages since the model's last answer.
        self.notices: tuple[str, ...] = ()
        self._summary: tuple[bytes, ...] = ()
        self._fragments: list[bytes] = []
        self._deferred: list[bytes] = []
        # Of each message, the number of its entry, and how many fragments there are up to it.
        self._numbers = array("L")
        self._counts = array("L")

    def append(self, item: str, encode: Encoder) -> None:
        """Append the next entry, as the run sends it: its JSON text, or `#` and its digest.

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
            if "message" in record:
                message = ChatMessage.read(record["message"])
                encoded = encode(message)
                if message.role != "tool":
                    self._fragments += self._deferred
                    self._deferred.clear()
                earlier = () if message.role == "assistant" else self.notices
                self.notices = (*earlier, *encoded.notices)
                self._fragments += encoded.fragments
                self._deferred += encoded.deferred
                self._numbers.append(self.entries + 1)
                self._counts.append(len(self._fragments) + len(self._deferred))
            elif record["upto"] == self.since:
                encoded = encode(ChatMessage(role="user", content=record["text"]))
                self._summary = (*encoded.fragments, *encoded.deferred)
            else:
                encoded = EncodedMessage()
            new = (*encoded.fragments, *encoded.deferred)
            self.size_bytes += sum(len(fragment) + _FRAGMENT_BYTES for fragment in new)
        self.entries += 1
        self.digest = link(self.digest, digest)

    def fragments(self, upto: int | None = None) -> tuple[bytes, ...]:
        """Return the messages as they are sent: all, or those up to an entry without open calls.

        An earlier result is the beginning of a later one.
        """
        fragments = (*self._summary, *self._fragments, *self._deferred)
        if upto is None:
            return fragments
        messages = bisect_right(self._numbers, upto)
        count = self._counts[messages - 1] if messages else 0
        return fragments[: len(self._summary) + count]


class ConversationCache:
    """The cached conversations of a worker, at most `limit_bytes` of them.

    A taken conversation is no longer in the cache until it is kept again: another reader of the
    same run starts from the beginning. The least recently used are dropped first.
    """

    def __init__(self, limit_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
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
        """Cache a conversation, unless it alone is too large."""
        self.take(run)
        if conversation.size_bytes > self._limit_bytes:
            return
        self._conversations[run.workflow_id] = conversation
        self.size_bytes += conversation.size_bytes
        while self.size_bytes > self._limit_bytes:
            _, oldest = self._conversations.popitem(last=False)
            self.size_bytes -= oldest.size_bytes
