"""The messages to a run that it has not read yet.

Messages are queued in order of arrival. A `steer` message is read before the next request to the
model; a `followUp` message when the run would end. None is dropped: the run ends only with an empty
mailbox, or writes the rest into its log.

A message that arrives again under the same id is the same message. Temporal deduplicates within one
history; the latest ids are passed on to the next history.
"""

from holdfast.schemas.base import Lenient
from holdfast.schemas.message import Delivered, QueuedMessage
from holdfast.workflows.engine.conversation.scopes import content_text

# A sender without an answer retries soon, and every id is a part of the snapshot.
MAX_KNOWN = 64
MAX_KNOWN_CHARACTERS = 200
# In `status`, and in the result.
MAX_LISTED_MESSAGES = 200
MAX_LISTED_CHARACTERS = 200


class Mailbox(Lenient, frozen=False):
    """The messages that a run has not read yet, and, as JSON, their snapshot.

    `line` holds each with its number, from 1, in order of arrival; `received` is the newest number,
    `heard` the number up to which all are read. `closed`: the run accepts no further message.
    `known` maps the id of the update that sent a message to the message's number, `withdrawn` has
    the latest numbers that were taken back. `unread` lists what the log holds already, and no
    request to the model that was answered.
    """

    line: list[tuple[int, Delivered]] = []
    received: int = 0
    heard: int = 0
    closed: bool = False
    known: dict[str, int] = {}
    withdrawn: list[int] = []
    unread: list[QueuedMessage] = []

    def __len__(self) -> int:
        return len(self.line)

    def put(self, message: Delivered, id: str | None = None) -> int:
        """Queue a message unless its id is known; return its number."""
        if id in self.known:
            return self.known[id]
        self.received += 1
        self.line.append((self.received, message))
        if id is not None and len(id) <= MAX_KNOWN_CHARACTERS:
            self.known[id] = self.received
            for oldest in list(self.known)[:-MAX_KNOWN]:
                del self.known[oldest]
        return self.received

    def close(self) -> None:
        """Accept no further message."""
        self.closed = True

    def queued(self) -> list[QueuedMessage]:
        """List the first messages that are not read yet."""
        return [_listed(*item) for item in self.line[:MAX_LISTED_MESSAGES]]

    def is_queued(self, number: int) -> bool:
        """Return whether a message is not read yet."""
        return any(each == number for each, _ in self.line)

    def withdraw(self, number: int) -> None:
        """Remove a message that is queued."""
        self.line = [item for item in self.line if item[0] != number]
        self.withdrawn = [*self.withdrawn, number][-MAX_KNOWN:]

    @property
    def has_steering_message(self) -> bool:
        """Return whether a message must be read before the next request."""
        return any(message.delivery == "steer" for _, message in self.line)

    def take(self, *, ending: bool) -> list[Delivered]:
        """Return the messages to read now: the `steer` ones, or all if the run would end."""
        due = [item for item in self.line if ending or item[1].delivery == "steer"]
        self.line = [] if ending else [item for item in self.line if item[1].delivery != "steer"]
        self.heard = self.line[0][0] - 1 if self.line else self.received
        room = MAX_LISTED_MESSAGES - len(self.unread)
        self.unread = [*self.unread, *(_listed(*item) for item in due[:room])]
        return [message for _, message in due]

    def mark_read(self) -> None:
        """Record that the model has answered a request with all that was taken."""
        self.unread = []


def _listed(number: int, message: Delivered) -> QueuedMessage:
    text = content_text(message.content)
    if len(text) > MAX_LISTED_CHARACTERS:
        text = text[:MAX_LISTED_CHARACTERS] + " …"
    return QueuedMessage(number=number, role=message.role, delivery=message.delivery, text=text)
