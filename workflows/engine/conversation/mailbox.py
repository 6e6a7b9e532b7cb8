"""The messages to a run that it has not read yet.

A message waits in its place in line. One to `steer` is heard before the next request to the model;
a `followUp` when the run would end. None is dropped: the run ends only with an empty mailbox, or
takes what is left into its log.

What comes again under its id is the same message. Temporal sees to that within one history; the
last ids go along to the next.
"""

from holdfast.schemas.base import Lenient
from holdfast.schemas.message import Delivered

# Who has not been answered sends again soon, and the ids are carried.
MAX_KNOWN = 64
MAX_KNOWN_CHARACTERS = 200


class Mailbox(Lenient, frozen=False):
    """The messages that a run has not read yet, and, as JSON, their snapshot.

    `line` holds each with its number, from 1, in order of arrival; `received` is the newest number,
    `heard` the number up to which all are read. `closed`: the run waits for no further message.
    `known` are the numbers of messages by the id of the update that sent them.
    """

    line: list[tuple[int, Delivered]] = []
    received: int = 0
    heard: int = 0
    closed: bool = False
    known: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.line)

    def put(self, message: Delivered, id: str | None = None) -> int:
        """Put a message in line, unless it stands or stood there under its id; its number."""
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
        """Wait for no further message."""
        self.closed = True

    def knows(self, id: str) -> bool:
        """Return whether a message stands or stood in line under this id."""
        return id in self.known

    @property
    def has_steering_message(self) -> bool:
        """Return whether a message is to be read before the next request."""
        return any(message.delivery == "steer" for _, message in self.line)

    def take(self, *, ending: bool) -> list[Delivered]:
        """Return the messages to be heard now: those to steer, and all where the run would end."""
        due = [message for _, message in self.line if ending or message.delivery == "steer"]
        self.line = [] if ending else [item for item in self.line if item[1].delivery != "steer"]
        self.heard = self.line[0][0] - 1 if self.line else self.received
        return due
