"""Parts of the snapshot with which a run continues as new.

The first value that the new run is started with is a `Continued`, for people. The values behind it
are a `WorkflowSnapshot` (workflows/engine/continue_as_new.py) and the pages of the log, compressed.
One version of the worker writes a snapshot, and a later one may read it: a field is added with a
default and never removed.
"""

from holdfast.schemas.base import Explicit, KnownJson, Lenient
from holdfast.schemas.names import CallError
from holdfast.schemas.run import CallApprover
from holdfast.schemas.tool import Schema

Steps = list[str | int]


class Continued(Explicit):
    """What a run that continues as new is started with first: for people, and where the rest is.

    Of the values that follow, so many are the `body`, which is a `WorkflowSnapshot`; then of each
    page of the log so many as `pages` lists.
    """

    note: str = ""
    agent: str
    task: str = ""
    turns: int
    entries: int
    body: int
    pages: list[int] = []


class ValueSnapshot(Lenient):
    """The value of a kind: for all, or an instance's own.

    It is `{"is": value}`; or, of an object that lets through what is for all, `{"own": …}`, with
    each key's value in the same form.
    """

    kind: str
    instance: str | None = None
    value: KnownJson = None


class RedactionSnapshot(Lenient):
    """How the value at a place is shown."""

    kind: str
    instance: str | None = None
    steps: Steps = []
    tool: str
    hidden: bool = False
    trusted: bool = True


class DescriptionSnapshot(Lenient):
    """What data messages contained on a kind and instance."""

    kind: str
    instance: str | None = None
    schema_: Schema | bool | None = None
    description: str | None = None


class StepSnapshot(Lenient):
    """A call of the approved plan: its outcome, or the key of what remains."""

    id: str
    tool: str
    given: dict[str, KnownJson] = {}
    covered: bool = False
    held: bool = False
    key: str | None = None
    error: CallError | None = None
    approver: CallApprover | None = None
