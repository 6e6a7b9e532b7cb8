"""What people say to a run under way, until the run hears it.

A message waits in its place in line. One to `steer` is heard before the next request to the model;
a `followUp` when the run would end. None is dropped: the run ends only with an empty mailbox, or
takes what is left into its log.
"""

from typing import Self

from schemas.carried import CarriedMailbox
from schemas.message import Delivered


class Mailbox:
    """The messages that a run has not heard yet; each has a number, from 1.

    `heard` is the number up to which all of them are heard.
    """

    def __init__(self) -> None:
        self._line: list[tuple[int, Delivered]] = []
        self._received = 0
        self.heard = 0
        self.closed = False

    @classmethod
    def resumed(cls, carried: CarriedMailbox) -> Self:
        """The mailbox that was carried here."""
        mailbox = cls()
        mailbox._line, mailbox._received = list(carried.line), carried.received
        mailbox.heard, mailbox.closed = carried.heard, carried.closed
        return mailbox

    def carried(self) -> CarriedMailbox:
        """The mailbox, to be carried on."""
        return CarriedMailbox(
            line=self._line, received=self._received, heard=self.heard, closed=self.closed
        )

    def __len__(self) -> int:
        return len(self._line)

    def put(self, message: Delivered) -> int:
        """Put a message in line; its number."""
        self._received += 1
        self._line.append((self._received, message))
        return self._received

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
