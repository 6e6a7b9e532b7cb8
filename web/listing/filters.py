"""What somebody wants to see of all that waits: read from a page's address, and written into one.

`order`, `agent`, `tool`, `principal`, `group`, `run` and `after` are the names in the address.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from holdfast.client.command_errors import wrong_command
from holdfast.client.run_lists import RunFilter, RunListing
from holdfast.client.visibility import EXPIRING, NEWEST, ListOrder, Place
from holdfast.schemas import names

MINE: Final = "mine"
_GROUP: Final = "group:"
_ORDERS: Final[dict[str, ListOrder]] = {"newest": NEWEST, "expiring": EXPIRING}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# What is looked for around a place is a moment too, so a place is not at the end of all time.
_LAST: Final = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class View:
    """One view of the list: which runs, in which order, from where on.

    `group` is `mine`, or `group:` and the name of one; `after` is the last run of the page before.
    """

    order_name: str = "newest"
    agent: str = ""
    tool: str = ""
    principal: str = ""
    group: str = ""
    run: str = ""
    after: Place | None = None

    @classmethod
    def read(cls, said: Mapping[str, str]) -> "View":
        """What an address asks for.

        Raises:
            CommandError: it asks for something else.
        """
        order = said.get("order") or "newest"
        if order not in _ORDERS:
            raise wrong_command(f"there is no order {order!r}", f"say one of {', '.join(_ORDERS)}")
        group = said.get("group", "")
        if group not in ("", MINE) and not group.startswith(_GROUP):
            raise wrong_command(f"`group={group}` is no group", f"say `{MINE}` or `{_GROUP}NAME`")
        return cls(
            order,
            agent=said.get("agent", "").strip(),
            tool=said.get("tool", "").strip(),
            principal=said.get("principal", "").strip(),
            group=group,
            run=said.get("run", "").strip(),
            after=read_place(said["after"]) if said.get("after") else None,
        )

    @property
    def order(self) -> ListOrder:
        """The order."""
        return _ORDERS[self.order_name]

    @property
    def filtered(self) -> bool:
        """Whether not all that waits is wanted."""
        return bool(self.agent or self.tool or self.principal or self.group or self.run)

    def wanted(self, own_groups: tuple[str, ...]) -> RunFilter:
        """The runs that are wanted, for somebody of these groups."""
        return RunFilter(self.agent, self.tool, self.principal, self.groups(own_groups), self.run)

    def groups(self, own: tuple[str, ...]) -> tuple[str, ...]:
        """The groups one of which is to decide; none: whoever decides."""
        if self.group == MINE:
            return (names.FOR_ANYBODY, *own)
        return (self.group.removeprefix(_GROUP),) if self.group else ()

    def behind(self, run: RunListing) -> "View":
        """The page behind a run."""
        time = self.order.time(run)
        return replace(self, after=None if time is None else (time, run.id))

    def having(self, **changes: Any) -> "View":
        """The first page of the same view with changes."""
        return replace(self, **{"after": None, **changes})

    @property
    def query(self) -> str:
        """It, as the query of an address."""
        said = {
            "order": "" if self.order_name == "newest" else self.order_name,
            "agent": self.agent,
            "tool": self.tool,
            "principal": self.principal,
            "group": self.group,
            "run": self.run,
            "after": "" if self.after is None else write_place(self.after),
        }
        return urlencode({name: text for name, text in said.items() if text})


def group_option(name: str) -> str:
    """How an address names a group."""
    return f"{_GROUP}{name}"


def write_place(place: Place) -> str:
    """A place of a list, as an address has it."""
    return f"{(place[0] - _EPOCH) // timedelta(microseconds=1)}/{place[1]}"


def read_place(text: str) -> Place:
    """The place that an address names.

    Raises:
        CommandError: it is none.
    """
    microseconds, divided, run = text.partition("/")
    try:
        time = _EPOCH + timedelta(microseconds=int(microseconds))
        if not divided or not _EPOCH <= time <= _LAST:
            raise ValueError(text)
        return time, run
    except (ValueError, OverflowError):
        raise wrong_command(
            "`after` names no place in this list", "begin at its first page"
        ) from None
