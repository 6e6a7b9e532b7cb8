"""The report of a delegate to its parent run: the calls in it with pending approvals."""

from typing import Annotated

from pydantic import Field

from holdfast.schemas.base import Explicit
from holdfast.schemas.decision import Kind

MAX_PENDING_TOLD = 50
MAX_ARGUMENTS_CHARACTERS = 200
_Id = Annotated[str, Field(min_length=1, max_length=1000)]
# It is in a command that people are shown, and any client that may signal a run can send it.
_CallId = Annotated[str, Field(pattern=r"^t[0-9]{1,9}(c[0-9]{1,9}|-[A-Za-z]{1,20})$")]
_Line = Annotated[str, Field(max_length=MAX_ARGUMENTS_CHARACTERS)]


class DelegatePending(Explicit):
    """A pending call of a delegate, or of one of its own delegates."""

    workflow_id: _Id
    """The run that it is decided in."""
    call_id: _CallId
    kind: Kind
    tool: _Line
    label: _Line
    arguments: _Line = ""
    """The beginning of its arguments, in a line."""


class DelegateNews(Explicit):
    """The pending approvals of a delegate from now on, as far as they are reported."""

    call_id: _Id
    """The call of the parent that the delegate runs."""
    pending: Annotated[list[DelegatePending], Field(max_length=MAX_PENDING_TOLD)] = []


class DelegateView(Explicit):
    """A delegate that is running, as the query `status` of its parent shows it."""

    call_id: str
    tool: str
    agent: str
    """The agent whose run it is, or `anonymous`."""
    workflow_id: str
    status: str
    """`awaiting_approval` where something waits in it, else `running`."""
    pending: list[DelegatePending] = []
