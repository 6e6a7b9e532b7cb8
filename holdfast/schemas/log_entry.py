"""The entries of a run's log.

Every entry has its number `n`, from 1, and the time when it was decided. The query `events` returns
the entries in `EVENTS`; the others are messages, state writes and decisions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import ValidationError

from holdfast.schemas.base import KnownJson, Lenient, canonical_json, readable_json
from holdfast.schemas.decision import Decided, PendingApproval
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.message import (
    ChatMessage,
    Content,
    ContextMessage,
    DataPart,
    EarlierCall,
    TextPart,
)
from holdfast.schemas.names import CallError
from holdfast.schemas.tool import OutputMethod

SkillChooser = Literal["request", "rule", "model"]


class Entry(Lenient):
    """What all entries have. `event` names the event that an entry is, where it is one."""

    event: ClassVar[bool] = True
    type: str

    def to_json(self) -> dict[str, Any]:
        """Return the entry as it is digested and shown: with its type, without defaults."""
        return {"type": self.type, **super().to_json()}


class MessageEntry(Entry):
    """A message of the conversation that the model is shown."""

    event = False
    type: Literal["message"] = "message"
    message: ChatMessage


class WriteEntry(Entry):
    """A write to a value that references read: by a call, or (without `call_id`) from outside."""

    event = False
    type: Literal["write"] = "write"
    path: str
    method: OutputMethod = "set"
    value: KnownJson = None
    instance: str | None = None
    call_id: str | None = None


class DecisionEntry(Entry):
    """A decision that was counted, one that was ignored and why, or the end of a wait."""

    event = False
    type: Literal["decision"] = "decision"
    call_id: str
    decided: Decided | None = None
    arguments: KnownJson = None
    ignored: str | None = None
    outcome: str | None = None


class NoticeEntry(Entry):
    """Something that a reader of the run should know, and no model reads."""

    type: Literal["notice"] = "notice"
    text: str
    """What it is."""


class SkillEntry(Entry):
    """The run has this skill from now on."""

    type: Literal["skill"] = "skill"
    skill: str
    """The skill."""
    by: SkillChooser
    """Who chose it: the run's request or a message; a rule, which is its `when`, or that there is
    no other; or the model."""
    confidence: float | None = None
    """How sure the model is, from 0 to 1."""
    reason: str | None = None
    """Why the model chose it."""


class ForkedEntry(Entry):
    """The entries before this one are those of another run; this run begins here."""

    type: Literal["forked"] = "forked"
    forked_from: str
    """The other run, by its workflow id."""
    turn: int = 0
    """Its turn after which this run begins; 0: before its first."""


class RemarkEntry(Entry):
    """A message for people, which no model reads."""

    type: Literal["remark"] = "remark"
    role: Literal["system", "user", "assistant"] = "user"
    """The author."""
    content: Content
    """The content."""


class SummaryEntry(Entry):
    """From now on the model reads `text` in place of all entries up to number `upto`."""

    event = False
    type: Literal["summary"] = "summary"
    upto: int
    text: str


class TurnStartEntry(Entry):
    """A request to the model begins."""

    type: Literal["turn_start"] = "turn_start"
    turn: int
    """Its number, from 1."""


class _OfCall(Lenient):
    """What the events of a call have."""

    turn: int
    """The turn of the call."""
    call_id: str
    """The call."""


class ToolCallEntry(_OfCall, Entry):
    """The model made a call; `arguments` as they would be run, where they are valid."""

    type: Literal["tool_call"] = "tool_call"
    tool: str
    """The tool."""
    label: str | None = None
    """The tool's name for people."""
    arguments: KnownJson = None
    """What it is called with."""
    reasoning: str | None = None
    """Why the model makes the call."""
    waits_for: list[str] = []
    """The calls of its turn that it waits for, by their ids."""
    instance: str | None = None
    """Whose data it reads and writes, in a run with instances."""


class ConfirmationRequiredEntry(_OfCall, Entry):
    """A call waits for a person. `reminder` counts how often it was asked again."""

    type: Literal["confirmation_required"] = "confirmation_required"
    reminder: int = 0
    """How often it was asked again."""
    forwarded: list[str] = []
    """The groups that are asked from now on, too."""
    approval: PendingApproval
    """What is asked."""


class ToolStartEntry(_OfCall, Entry):
    """A call is started."""

    type: Literal["tool_start"] = "tool_start"
    tool: str
    """The tool."""
    arguments: KnownJson = None
    """What it is called with, where that was not known before."""
    delegate: str | None = None
    """The agent that it is delegated to: a run of its own, with the id `<run>.<call>`."""


class ToolEndEntry(_OfCall, Entry):
    """A call has its result. `value` is here only where the model is not shown all of it."""

    type: Literal["tool_end"] = "tool_end"
    tool: str
    """The tool."""
    error: CallError | None = None
    """Why it failed, if it did."""
    value: KnownJson = None
    """The whole result, where the model is not shown all of it."""
    details: KnownJson = None
    """What the tool returned for logs and screens."""


class BudgetThresholdEntry(Entry):
    """A budget has reached the share of it that the agent's `onThreshold` has."""

    type: Literal["budget_threshold"] = "budget_threshold"
    budget: str
    """The budget, such as `maxTokens`."""
    used: int | float
    """What is used of it."""
    limit: int | float
    """The budget's limit."""


class KnowledgeUsedEntry(_OfCall, Entry):
    """A call has fetched knowledge: the result of its `tool_end`, which follows."""

    type: Literal["knowledge_used"] = "knowledge_used"
    name: str
    """The name of the knowledge."""
    source: str
    """What it is from: a `file`, a `url`, a `text` or an `activity`."""


class TurnEndEntry(Entry):
    """A turn is over."""

    type: Literal["turn_end"] = "turn_end"
    turn: int
    """Its number, from 1."""
    usage: Usage = Usage()
    """What it used."""
    model: str | None = None
    """Which model answered it, if the agent has more than one."""
    genai_prices: str | None = None
    """The version of genai-prices, if its list has the price of the model that answered."""


class DoneEntry(Entry):
    """The run ended with a result."""

    type: Literal["done"] = "done"
    status: str
    """How it ended."""
    output: KnownJson = None
    """The outcome."""
    reason: str | None = None
    """Why it has no output, if its budget was used up."""


class ErrorEntry(Entry):
    """The run failed or was cancelled."""

    type: Literal["error"] = "error"
    code: str
    """What kind of end it is."""
    message: str
    """What happened, and what to do."""


_TYPES = {kind.model_fields["type"].default: kind for kind in Entry.__subclasses__()}
EVENTS = frozenset(name for name, kind in _TYPES.items() if kind.event)
"""The types of those entries that are events."""
LAST_ENTRIES = frozenset(("done", "error"))
"""The types of those entries that end a log: only messages that no model reads follow."""
SHOWN_TO_MODELS = frozenset(("message", "summary"))
"""The types of those entries that a model reads."""

_NO_RESULT = "the run ended before its result; whether it took effect is unknown"


@dataclass(frozen=True)
class LogRecord:
    """An entry with its number and time, as queries return it.

    `entry` is a plain `Entry` where this version cannot read it: its type is of a newer version, or
    a part of it was left out for its size.
    """

    n: int
    at: str
    entry: Entry


def read_record(record: Mapping[str, Any]) -> LogRecord:
    """Read the JSON of an entry as the log holds it and queries return it."""
    type_ = str(record.get("type", ""))
    try:
        entry = _TYPES.get(type_, Entry).read(record)
    except ValidationError:
        entry = Entry(type=type_)
    return LogRecord(record.get("n", 0), str(record.get("at", "")), entry)


# The fields of a part of an entry that its digest is not over.
_UNDIGESTED = {"decided": ("at",), "approval": ("requestedAt", "expiresAt", "decisions")}


def digested(record: dict[str, Any]) -> bytes:
    """Return the bytes of an entry that its digest is over: canonical JSON without its times.

    A pending call is digested without its decisions too: they have entries of their own.
    """
    timeless = {**record}
    timeless.pop("at", None)
    for part, undigested in _UNDIGESTED.items():
        if part in timeless:
            values = timeless[part].items()
            timeless[part] = {key: value for key, value in values if key not in undigested}
    return canonical_json(timeless)


def transcript(records: Sequence[LogRecord], *, has_input: bool) -> list[ContextMessage]:
    """Return what the model would read next of a log, as messages from before another run.

    These are the newest summary, if there is one, and the messages after it, each call before its
    result; a call without one gets an error. With `has_input`, the request has an input of its own:
    that of the log is then a text. Nothing else of a log counts in another run.

    Raises:
        ValidationError: a message of the log is none of a run.
    """
    summaries = [one.entry for one in records if isinstance(one.entry, SummaryEntry)]
    since = summaries[-1].upto if summaries else 0
    messages = [ContextMessage(content=one.text) for one in summaries[-1:]]
    said = [
        one.entry.message
        for one in records
        if isinstance(one.entry, MessageEntry) and one.n > since
    ]
    results = {message.call_id: message for message in said if message.role == "tool"}
    for message in said:
        if message.role == "tool" or not (message.content or message.calls):
            continue
        calls = [
            EarlierCall(id=call.id, tool=call.tool, arguments=call.arguments)
            for call in message.calls
        ]
        messages.append(
            ContextMessage(
                role="assistant" if calls else message.role,
                content=_content(message, has_input=has_input),
                calls=calls,
            )
        )
        for call in calls:
            result = results.get(call.id)
            messages.append(
                ContextMessage(
                    role="tool",
                    call_id=call.id,
                    content=_NO_RESULT if result is None else result.content,
                    is_error=result is None or result.is_error,
                )
            )
    return messages


def with_messages(context: list[Any], *, has_input: bool) -> list[Any]:
    """Return the messages of a context's log entries, then its others, or raise `ValueError`."""
    records, others = list[LogRecord](), list[Any]()
    for item in context:
        if not (isinstance(item, dict) and isinstance(item.get("n"), int)):
            others.append(item)
            continue
        records.append(read_record(item))
        entry = records[-1].entry
        if entry.type in SHOWN_TO_MODELS and type(entry) is Entry:
            raise ValueError(f"`context`: entry {item['n']} cannot be read; leave it out")
    try:
        return [*transcript(records, has_input=has_input), *others]
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        raise ValueError(f"`context`: an entry holds no message of a run: {why}") from None


def _content(message: ChatMessage, *, has_input: bool) -> Content:
    content = message.content if message.said is None else message.said
    if isinstance(content, str) or not has_input:
        return content
    return [
        TextPart(text=f"input: {readable_json(part.data)}")
        if isinstance(part, DataPart) and part.kind == "input"
        else part
        for part in content
    ]
