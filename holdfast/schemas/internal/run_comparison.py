"""Two recorded runs side by side: what `holdfast diff --json` prints, and the HTTP API returns.

The first run is the one that is named first. Times, ids and who decided are not compared.
"""

from typing import Literal

from holdfast.schemas.base import Explicit, KnownJson
from holdfast.schemas.internal.solution import Usage

CallStatus = Literal["equal", "moved", "changed", "missing"]
CallPart = Literal["arguments", "execution", "decisions", "result"]


class ComparedCall(Explicit):
    """A call as its log has it."""

    call_id: str
    """The call."""
    turn: int
    """Its turn."""
    tool: str
    """The tool."""
    label: str
    """The tool's name for people."""
    instance: str | None = None
    """Whose data it reads and writes, in a run with instances."""
    arguments: KnownJson = None
    """Its arguments: references replaced by their values, and as people changed them."""
    executed: bool = False
    """Whether it was started."""
    decisions: list[str] = []
    """Each question about it alone, in order: `approved`, `denied`, `expired`, `pending`, …"""
    result: KnownJson = None
    """Its result; of one that failed, `{error, message}`."""


class ComparedCalls(Explicit):
    """A call of the first run, and its match in the second one; null where there is none."""

    status: CallStatus
    """`equal`; `moved`, where it is equal and in another order; `changed`, where its arguments
    differ or one of both was not executed; `missing` in one of the runs."""
    differs: list[CallPart] = []
    """What differs."""
    first: ComparedCall | None
    """The call of the first run."""
    second: ComparedCall | None
    """The call of the second run."""

    @property
    def either(self) -> ComparedCall:
        """Return the call of the first run, or else that of the second."""
        found = self.first or self.second
        assert found is not None
        return found


class ComparedValues(Explicit):
    """A value of each run; null also where a run has none."""

    equal: bool
    """Whether they are equal."""
    first: KnownJson
    """That of the first run."""
    second: KnownJson
    """That of the second run."""


class ComparedTurn(ComparedValues):
    """The texts of a turn in each run: the messages before it, and its answer."""

    turn: int
    """Its number, from 1."""


class ComparedRun(Explicit):
    """One of both runs."""

    run: str
    """The run's id."""
    agent: str | None = None
    """Its agent; a single call has none."""
    status: str
    """In one word: `running`, `completed`, `failed`, …"""
    error: str | None = None
    """The code of its failure, if it failed."""
    turns: int = 0
    """The turns of its log."""
    calls: int = 0
    """The calls of its log, those refused included."""
    decisions: list[str] = []
    """Each question about a plan or a budget, in order: `plan: approved`, `maxTurns: extended`."""
    usage: Usage = Usage()
    """What it used, delegates included."""
    lacks: list[str] = []
    """What is not known of it: the comparison is not `equal` then."""


class RunComparison(Explicit):
    """Two runs side by side."""

    equal: bool
    """Whether calls, state, output and status are equal, and all of them are known."""
    first: ComparedRun
    """The first run."""
    second: ComparedRun
    """The second run."""
    turns: list[ComparedTurn] = []
    """The texts of each turn."""
    calls: list[ComparedCalls] = []
    """The calls, matched by tool and arguments, and the others by tool and order."""
    state: ComparedValues
    """The state; of a run with instances, `{shared, instances}`."""
    output: ComparedValues
    """The output."""
