"""What people say to a run under way, until the run hears it.

A message waits in its place in line. One to `steer` is heard before the next request to the model;
a `followUp` when the run would end. None is dropped: the run ends only with an empty mailbox, or
takes what is left into its log.

What comes again under its id is the same message. Temporal sees to that within one history; the
last ids go along to the next.
"""

from typing import Self

from holdfast.schemas.internal.continue_as_new import MailboxSnapshot
from holdfast.schemas.message import Delivered

# Who has not been answered sends again soon, and the ids are carried.
MAX_KNOWN = 64
MAX_KNOWN_CHARACTERS = 200


class Mailbox:
    """The messages that a run has not heard yet; each has a number, from 1.

    `heard` is the number up to which all of them are heard.
    """

    def __init__(self) -> None:
        self._line: list[tuple[int, Delivered]] = []
        self._received = 0
        self._known: dict[str, int] = {}
        self.heard = 0
        self.closed = False

    @classmethod
    def resumed(cls, carried: MailboxSnapshot) -> Self:
        """The mailbox that was carried here."""
        mailbox = cls()
        mailbox._line, mailbox._received = list(carried.line), carried.received
        mailbox.heard, mailbox.closed = carried.heard, carried.closed
        mailbox._known = dict(carried.known)
        return mailbox

    def carried(self) -> MailboxSnapshot:
        """The mailbox, to be carried on."""
        return MailboxSnapshot(
            line=self._line,
            received=self._received,
            heard=self.heard,
            closed=self.closed,
            known=self._known,
        )

    def __len__(self) -> int:
        return len(self._line)

    def put(self, message: Delivered, id: str | None = None) -> int:
        """Put a message in line, unless it stands or stood there under its id; its number."""
        if id in self._known:
            return self._known[id]
        self._received += 1
        self._line.append((self._received, message))
        if id is not None and len(id) <= MAX_KNOWN_CHARACTERS:
            self._known[id] = self._received
            for oldest in list(self._known)[:-MAX_KNOWN]:
                del self._known[oldest]
        return self._received

    def knows(self, id: str) -> bool:
        """Whether a message stands or stood in line under this id."""
        return id in self._known

    @property
    def steers(self) -> bool:
        """Whether somebody has said something that is to be heard before the next request."""
        return any(message.delivery == "steer" for _, message in self._line)

    def take(self, *, ending: bool) -> list[Delivered]:
        """The messages to be heard now: those to steer, and all where the run would end."""
        due = [message for _, message in self._line if ending or message.delivery == "steer"]
        self._line = [] if ending else [item for item in self._line if item[1].delivery != "steer"]
        self.heard = self._line[0][0] - 1 if self._line else self._received
        return due
