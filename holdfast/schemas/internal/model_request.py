"""The data that a run and the activity that requests a model exchange.

History holds `ConversationPointer` alone. The run answers the query `ConversationPageRequest` with
a `ConversationPage`: the part of its log that the activity lacks, under a megabyte at a time. If
both are in one process, the run passes the first page when it schedules the activity.
"""

from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from holdfast.schemas.agent import Calling, ModelSettings, ToolChoice
from holdfast.schemas.base import Duration, Json, Lenient, OneOf, Strict
from holdfast.schemas.internal.shared_budgets import NO_SCOPES, BudgetScopes
from holdfast.schemas.message import ChatMessage, Message
from holdfast.schemas.tool import Schema

# The function by which a run hands `ConversationPage` over unasked, to the process that it is in:
# it takes the run's ids, a `ConversationPointer`, what answers `ConversationPageRequest`, and
# whether the request is in its endpoint's own task queue, from where any process may take it.
HAND_OVER: Final = "holdfast-hand-over"


class ConversationPointer(Lenient):
    """The input of `generate`: a place in the run's log, and the digest of all up to there.

    The model reads what stands after entry `since`, which is where the newest summary begins to
    hold; `origin` is the digest of all before. With a `call`, it is a place in the small log of the
    request by which that call is answered. With `summary`, the model is asked for a summary of what
    stands up to entry `upto`, and reads no more than that.
    """

    turn: int
    entries: int
    digest: str
    call: str | None = None
    since: int = 0
    origin: str = ""
    summary: bool = False
    upto: int = 0

    def about(self) -> dict[str, Any]:
        """Return which request it is, for a client that follows the answer."""
        call = {} if self.call is None else {"call": self.call}
        return {"turn": self.turn, **call, **({"summary": True} if self.summary else {})}

    def page_after(self, entry: int, offset: int = 0) -> "ConversationPageRequest":
        """Return the request for the log from this entry on, up to here."""
        place = {"after": entry, "upto": self.entries, "offset": offset}
        return ConversationPageRequest(**place, call=self.call, summary=self.summary)


class ConversationPageRequest(Lenient):
    """Which part of the log is wanted: the entries after `after`, up to `upto`.

    `offset` continues in the middle of the entry `after + 1`, in characters. `call` and `summary`
    are the pointer's.
    """

    after: Annotated[int, Field(ge=0)] = 0
    upto: Annotated[int, Field(ge=0)]
    offset: Annotated[int, Field(ge=0)] = 0
    call: str | None = None
    summary: bool = False


class ToolOffer(Lenient):
    """A tool as a model is shown it."""

    name: str
    description: str
    parameters: Schema


class MessageChanges(Strict):
    """The changes of a hook to the messages of a request, by the numbers of their entries."""

    hide: list[int] = []
    replace: dict[int, str] = {}
    append: list[Message] = []


class RequestChange(Strict):
    """The value that the hook `_beforeModel` returns; `model` has the settings that differ."""

    messages: MessageChanges = MessageChanges()
    tools: list[str] | None = None
    model: dict[str, Json] | None = None
    stop: str | None = None


class FailureRuling(OneOf):
    """The value that the hook `_onModelError` returns; `after` is the pause before a retry."""

    one_of = ("output", "retry", "model", "fail", "stop")

    output: Json = None
    retry: Literal[True] | None = None
    after: Duration = timedelta(seconds=1)
    model: dict[str, Json] | None = None
    fail: str | None = None
    stop: str | None = None


class AnswerRuling(OneOf):
    """The value that the hook `_afterAnswer` returns; `again` is a message to the model."""

    one_of = ("output", "again", "stop")

    output: Json = None
    again: Annotated[str, Field(min_length=1)] | None = None
    stop: str | None = None


class ConversationEdits(Lenient):
    """A `RequestChange` of messages as `generate` applies it: with the whole messages."""

    hidden: list[int] = []
    replaced: dict[int, ChatMessage] = {}
    added: list[ChatMessage] = []


class Ask(Lenient):
    """The part of a request that is not in the log: the settings of this request.

    `output` is the schema of an answer in JSON, which the instructions hold where it is
    `output_told`: where they do not, the caller includes it in the messages. With
    `null_is_absent`, a property that is missing in the answer is as good as one that is null. In
    `composed` calling the calls are in the answer's text, and are no calls of the provider's.
    """

    model: ModelSettings
    calling: Calling = "native"
    instructions: str
    tools: list[ToolOffer] = []
    tool_choice: ToolChoice = "auto"
    output: Schema | bool | None = None
    output_told: bool = True
    null_is_absent: bool = False
    tail: str | None = None
    edits: ConversationEdits = ConversationEdits()
    budget_scopes: BudgetScopes = NO_SCOPES


class ConversationPage(Lenient):
    """A part of a log.

    An item is a whole entry with a message as JSON text, or `#` and the digest of an entry that the
    model does not see. With `cut`, the last item continues in the next page.
    """

    items: list[str]
    cut: bool = False
    ask: Ask | None = None
