"""What a run takes along when it continues as new: all that is not a function of its log.

The first value that the new run is started with is a `Continued`, which people read. Those behind
it are a `WorkflowSnapshot` and the pages of the log, compressed. It is written by one version of
the worker and may be read by a later one, so a field is added with a default and never taken away.
"""

from datetime import timedelta
from typing import Any

from pydantic import JsonValue

from holdfast.schemas.agent import AgentSnapshot, Budget, ToolChoice
from holdfast.schemas.base import Lenient
from holdfast.schemas.decision import Decision
from holdfast.schemas.errors import CallError
from holdfast.schemas.message import Delivered
from holdfast.schemas.run import Ended, RunRequest
from holdfast.schemas.tool import Schema

Steps = list[str | int]


class Continued(Lenient):
    """What a run that continues as new is started with first: for people, and where the rest is.

    Of the values that follow, so many are the `body`, which is a `WorkflowSnapshot`; then of each
    page of the log so many as `pages` says.
    """

    note: str = ""
    agent: str
    task: str = ""
    turns: int
    entries: int
    body: int
    pages: list[int] = []

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return self.model_dump(mode="json", by_alias=True)


class CompressedPageIndex(Lenient):
    """Where a page of the log stands: the number of its first entry and event, how many of each,
    when the last was written, and the digest of all that stands before it; and what it takes as
    JSON."""

    first: int
    entries: int
    first_event: int
    events: int
    origin: str
    at: str
    size_bytes: int = 0


class LogSnapshot(Lenient):
    """The log, without what stands in its pages: all of it does."""

    pages: list[CompressedPageIndex] = []
    digest: str = ""


class ValueSnapshot(Lenient):
    """The value of a kind: for all, or an instance's own. It is `{"is": value}`; or, of an object
    that lets through what is for all, `{"own": …}`, with each key's value in the same form."""

    kind: str
    instance: str | None = None
    value: JsonValue = None


class RedactionSnapshot(Lenient):
    """How what stands at a place is shown."""

    kind: str
    instance: str | None = None
    steps: Steps = []
    tool: str
    hidden: bool = False
    trusted: bool = True


class DescriptionSnapshot(Lenient):
    """What data messages said of a kind and instance."""

    kind: str
    instance: str | None = None
    schema_: Schema | bool | None = None
    description: str | None = None


class MeterSnapshot(Lenient):
    """What was used, and may be."""

    budget: Budget
    granted: Budget
    iterations: int = 0
    turns: int = 0
    besides: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    tokens_unknown: bool = False
    cost_unknown: bool = False
    same_tool: tuple[str, int] = ("", 0)
    out_of_time: bool = False
    too_deep: bool = False
    worked: timedelta = timedelta()


class PendingApprovalsSnapshot(Lenient):
    """What people have decided: before they were asked, and on what; `remembered` are the tools
    that they approved for the rest of the run; `tokens` is what each was used for."""

    early: list[Decision] = []
    closed: dict[str, str] = {}
    remembered: list[str] = []
    tokens: dict[str, str] = {}


class MailboxSnapshot(Lenient):
    """What people have said that was not heard yet, by its number in line; `known` are the numbers
    of what was sent by an update of this id."""

    line: list[tuple[int, Delivered]] = []
    received: int = 0
    heard: int = 0
    closed: bool = False
    known: dict[str, int] = {}


class StepSnapshot(Lenient):
    """A call of the approved plan: what it came to, or by which key it is known as what is left."""

    id: str
    tool: str
    given: dict[str, JsonValue] = {}
    covered: bool = False
    held: bool = False
    key: str | None = None
    error: CallError | None = None


class SummariesSnapshot(Lenient):
    """The newest summary, up to entry `since`, where the log's digest is `origin`, and the `task`
    that it repeats; and how much of the model's `window` the conversation takes: so many tokens up
    to entry `counted`."""

    since: int = 0
    origin: str = ""
    task: str | None = None
    window: int | None = None
    tokens: int = 0
    counted: int = 0


class RunStateSnapshot(Lenient):
    """What deciding on a call looks at; `reset`: somebody has had the run go on from a point that
    it had passed."""

    log: LogSnapshot
    meter: MeterSnapshot
    desk: PendingApprovalsSnapshot
    data: list[ValueSnapshot] = []
    veils: list[RedactionSnapshot] = []
    described: list[DescriptionSnapshot] = []
    started: dict[str, int] = {}
    succeeded: list[str] = []
    skill: str | None = None
    reset: bool = False


class RunSnapshot(Lenient):
    """A run between two turns."""

    kept: RunStateSnapshot
    mailbox: MailboxSnapshot
    summaries: SummariesSnapshot = SummariesSnapshot()
    plan: list[StepSnapshot] = []
    seen_ids: list[str] = []
    choice: ToolChoice = "auto"
    output: JsonValue = None
    said: str | None = None
    answered_up_to: int = 0
    settled_after: int = 0
    finalizing: int | None = None
    unknown_told: bool = False
    ending: Ended | None = None


class SpansSnapshot(Lenient):
    """How far the log has been told as spans, when the run began, and what it was asked, where
    that is told."""

    upto: int = 0
    began: str = ""
    asked: list[JsonValue] = []


class WorkflowSnapshot(Lenient):
    """All of it. The request is without what the log holds of it; `notes` counts what was noted as
    ignored; `spans` is there where the run is traced."""

    request: RunRequest
    snapshot: AgentSnapshot
    run: RunSnapshot
    notes: int = 0
    spans: SpansSnapshot | None = None

    def to_json(self) -> dict[str, Any]:
        """Every field: what is at its default now is to be so after an update, too."""
        return self.model_dump(mode="json", by_alias=True)
