"""The state of a recorded run after one of its turns, from its log alone: what a fork begins with.

    the entries up to a `turn_end` ─► pages of the log, and the state that they determine

Every write is an entry. A data message that replaced nothing is its own write, and the text of the
input is not marked in the log: the caller has it from the start of the run. A result that its
message does not show whole is hidden in the state, and one that is marked untrusted there is so in
the state.

Nothing that a person allowed is a part of it: no remembered approval, no early decision, no rest of
a plan. Nothing that was used of a budget is, either.
"""

import json
import zlib
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Self

from holdfast.schemas import log_entry
from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.base import Lenient, link, sha256
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.continue_as_new import (
    DescriptionSnapshot,
    RedactionSnapshot,
    ValueSnapshot,
)
from holdfast.schemas.message import ChatMessage, DataPart
from holdfast.schemas.names import CallError, ErrorCode, loop_of, turn_of
from holdfast.schemas.reference import Path, parse_reference
from holdfast.schemas.run import RunRequest
from holdfast.workflows.engine.call import outcomes
from holdfast.workflows.engine.conversation.initial_context import InvalidRequest
from holdfast.workflows.engine.conversation.scopes import content_text
from holdfast.workflows.engine.conversation.summaries import BYTES_PER_TOKEN, SummariesProgress
from holdfast.workflows.engine.log.log import (
    SEALED_BYTES,
    CompressedPage,
    LogSnapshot,
    Record,
    compress_records,
    decompress,
)
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.skills import skill_of
from holdfast.workflows.engine.state.data import MISSING, Data, is_same_json
from holdfast.workflows.engine.state.redaction import (
    UNTRUSTED_MARK,
    Redaction,
    Redactions,
    untrusted_value,
)
from holdfast.workflows.engine.state.references import as_text

# Of all pages together: they are a part of the fork's history.
MAX_PREFIX_BYTES = 10_000_000
# The result of one activity has at most two megabytes, in base64: a larger prefix is sent in parts.
MAX_WHOLE_BYTES, PART_BYTES = 1_900_000, 1_400_000

_LOST = "the run was cut off before its result"
_MAY_HAVE_HAPPENED = f"{_LOST}; whether it took effect is unknown"
_UNSTARTED = (
    *(ErrorCode.BLOCKED, ErrorCode.TOKEN_SCOPE_INSUFFICIENT),
    *(ErrorCode.DENIED, ErrorCode.APPROVAL_TIMEOUT),
)
_WAS_RUN = outcomes.WAS_RUN.removesuffix("; ")
_STOPPED = "The run was stopped: "


class CannotFork(ValueError):
    """The log does not have what a fork at this turn needs."""


class RecordedPrefix(Lenient):
    """A recorded run up to the end of turn number `turns`, as JSON with its pages in base64.

    `is_answered`: its last turn was an answer, so that a model has nothing to do. `is_listed`: the
    namespace has the search attribute of forks.
    """

    turns: int = 0
    log: LogSnapshot = LogSnapshot()
    pages: list[str] = []
    data: list[ValueSnapshot] = []
    veils: list[RedactionSnapshot] = []
    described: list[DescriptionSnapshot] = []
    started: dict[str, int] = {}
    succeeded: list[str] = []
    skill: str | None = None
    said: str | None = None
    summaries: SummariesProgress = SummariesProgress()
    is_answered: bool = False
    is_listed: bool = False

    @property
    def entries(self) -> int:
        return self.log.pages[-1].last if self.log.pages else 0

    def page_data(self) -> list[bytes]:
        return [b64decode(page) for page in self.pages]


class PrefixPart(Lenient):
    """One of the `parts` of a large prefix, whose data together have `digest`.

    `turn` is what to name in the request for another part: an open run continues meanwhile.
    """

    parts: int
    turn: int | None
    digest: str
    data: str

    @classmethod
    def cut(cls, prefix: RecordedPrefix, part: int, turn: int | None) -> Self | None:
        """Return a part of a prefix; None of one that can be sent as a whole."""
        text = json.dumps(prefix.to_json(), separators=(",", ":"))
        if len(text) <= MAX_WHOLE_BYTES:
            return None
        whole = zlib.compress(text.encode())
        data = b64encode(whole[part * PART_BYTES : (part + 1) * PART_BYTES]).decode()
        parts = -(-len(whole) // PART_BYTES)
        return cls(parts=parts, turn=turn, digest=sha256(whole), data=data)

    @staticmethod
    def join(parts: Sequence["PrefixPart"]) -> RecordedPrefix:
        """Return the prefix of all parts; raise `CannotFork` if they are of different ones."""
        whole = b"".join(b64decode(each.data) for each in parts)
        if any(each.digest != sha256(whole) for each in parts):
            raise CannotFork("its log differs in each attempt to read it")
        return RecordedPrefix.read(json.loads(decompress(whole)))


def recorded_prefix(
    records: Sequence[Record], input: str | None, turn: int | None, *, is_over: bool
) -> RecordedPrefix:
    """Return a run's state after a turn, or after its last one; 0 is before the first.

    `input` is the run's own, if it is a text. Of a run that is over, the last turn may be one that
    was cut off: its open calls then have no result.

    Raises:
        CannotFork: there is no such turn, or the log is not whole.
    """
    taken, turns = _cut(records, turn, is_over=is_over)
    lost = next((one["n"] for one in taken if one["type"] == "left_out"), None)
    if lost is not None:
        raise CannotFork(f"it continued as new without a store, and left entry {lost} out")
    pages, digests = _sealed(taken)
    packed = [b64encode(page.data).decode() for page in pages]
    size_bytes = sum(len(page.data) for page in pages)
    if size_bytes > MAX_PREFIX_BYTES:
        most = f"at most {MAX_PREFIX_BYTES}: fork at an earlier turn"
        raise CannotFork(f"its log has {size_bytes} compressed bytes there; {most}")
    fold = _Fold(input, taken)
    summaries = SummariesProgress()
    if fold.summary is not None:
        upto, tokens = fold.summary.upto, len(fold.summary.text.encode()) // BYTES_PER_TOKEN
        known = {"since": upto, "origin": digests[upto - 1], "counted": upto, "tokens": tokens}
        summaries = SummariesProgress.model_validate(known)
    return RecordedPrefix(
        turns=turns,
        log=LogSnapshot(pages=pages, digest=digests[-1] if digests else ""),
        pages=packed,
        data=fold.data.snapshot(),
        veils=fold.redactions.snapshot(),
        described=list(fold.described.values()),
        started=fold.started(),
        succeeded=list(fold.succeeded),
        skill=fold.skill,
        said=fold.said,
        summaries=summaries,
        is_answered=turns > 0 and fold.is_answered,
    )


def _cut(
    records: Sequence[Record], turn: int | None, *, is_over: bool
) -> tuple[Sequence[Record], int]:
    """Return the entries up to the end of a turn, and its number."""
    # A request that was given up logs the end of the turn before it again.
    ends: dict[int, int] = {}
    for position, record in enumerate(records, start=1):
        if record["type"] == "turn_end":
            ends.setdefault(record["turn"], position)
    last = max(ends, default=0)
    turn = last if turn is None and not is_over else turn
    if turn is not None and turn in ends:
        return records[: ends[turn]], turn
    if turn:
        raise CannotFork(f"no turn {turn} has ended in it; the last is {last}")
    ended = (n for n, one in enumerate(records, 1) if one["type"] == "turn_end" and turn is None)
    after = max(ended, default=0)
    whole = records[: _first(records, after, *log_entry.LAST_ENTRIES)]
    stop = _first(whole, after, "turn_start")
    said = [one["message"] for one in whole[stop:] if one["type"] == "message"]
    made = [each for message in said for each in message.get("calls", ())]
    if turn is not None or not made:
        return whole[:stop], last if turn is None else turn
    cut_off = turn_of(made[0]["id"])
    return [*whole, *_closing(whole, made, cut_off)], cut_off


def _first(records: Sequence[Record], after: int, *types: str) -> int:
    found = (n for n in range(after, len(records)) if records[n]["type"] in types)
    return next(found, len(records))


def _closing(
    records: Sequence[Record], made: Sequence[dict[str, Any]], turn: int
) -> Iterator[Record]:
    """Yield the end of a turn that was cut off: of each open call, that nothing is known."""
    messages = [one["message"] for one in records if one["type"] == "message"]
    closed = {each["callId"] for each in messages if each["role"] == "tool"}
    started = {one["callId"] for one in records if one["type"] == "tool_start"}
    entries = list[log_entry.Entry]()
    for one in (each for each in made if each["id"] not in closed):
        id, tool, is_unknown = one["id"], one["tool"], one["id"] in started
        code = ErrorCode.OUTCOME_UNKNOWN if is_unknown else ErrorCode.CANCELLED
        error = CallError(code=code, message=_MAY_HAVE_HAPPENED if is_unknown else _LOST)
        about = {"role": "tool", "call_id": id, "provider_id": one["providerId"], "tool": tool}
        text = as_text({"error": error.to_json()})
        message = ChatMessage.read({**about, "content": text, "is_error": True})
        entries.append(log_entry.ToolEndEntry(turn=turn, call_id=id, tool=tool, error=error))
        entries.append(log_entry.MessageEntry(message=message))
    entries.append(log_entry.TurnEndEntry(turn=turn))
    for n, entry in enumerate(entries, start=len(records) + 1):
        yield {"n": n, "at": records[-1]["at"], **entry.to_json()}


def _sealed(records: Sequence[Record]) -> tuple[list[CompressedPage], list[str]]:
    """Return the pages of a log, each of whole turns, and the digest after each entry."""
    pages, digests = list[CompressedPage](), list[str]()
    begin, size_bytes, origin = 0, 0, ""
    for position, record in enumerate(records, start=1):
        data = log_entry.digested(record)
        digests.append(link(digests[-1] if digests else "", sha256(data)))
        size_bytes += len(data)
        is_whole = record["type"] == "turn_end" and size_bytes >= SEALED_BYTES
        if is_whole or position == len(records):
            first_event = pages[-1].last_event + 1 if pages else 1
            pages.append(compress_records(records[begin:position], first_event, origin))
            begin, size_bytes, origin = position, 0, digests[-1]
    return pages, digests


def check_fork(
    request: RunRequest, agent: ResolvedAgent, state: RunState, prefix: RecordedPrefix
) -> None:
    """Check that an agent can continue a recorded prefix, or raise `InvalidRequest`."""
    skill = skill_of(agent, state.skill if request.skill is None else request.skill)
    if agent.model is None or (skill is not None and skill.activity is not None):
        raise InvalidRequest(f"`fork`: agent `{agent.name}` has no model; name another")
    if any(message.calls for message in request.context):
        raise InvalidRequest("`context`: a fork has calls of its own log alone; leave these out")
    if prefix.is_answered and request.input is None and not request.context:
        why = f"the other run was answered in turn {prefix.turns}"
        raise InvalidRequest(f"`fork`: {why}; write a new message as `input`")
    tools = [*agent.tools, *(tool for one in agent.skills for tool in one.tools)]
    required = dict.fromkeys(scope for tool in tools for scope in tool.requires)
    held = state.principal.scopes if state.principal is not None else []
    if missing := [scope for scope in required if scope not in held]:
        who = f"`principal`: a fork needs every scope that agent `{agent.name}` requires"
        raise InvalidRequest(f"{who}; it lacks {', '.join(missing)}")


class _Fold:
    """What the entries of a log determine."""

    def __init__(self, input: str | None, records: Sequence[Record]) -> None:
        self.data, self.redactions = Data(), Redactions()
        self.data.set("state", {})
        if input is not None:
            self.data.set("input", input)
        self.described: dict[Path, DescriptionSnapshot] = {}
        self.succeeded: dict[str, None] = {}
        self.skill: str | None = None
        self.said: str | None = None
        self.summary: log_entry.SummaryEntry | None = None
        self.is_answered = False
        self._started: dict[str, str] = {}
        # Of these calls, an attempt was lost, or their server required input.
        self._have_run: set[str] = set()
        self._tool = ""
        entries = [log_entry.read_record(record).entry for record in records]
        messages = [one.message for one in entries if isinstance(one, log_entry.MessageEntry)]
        self._results = {each.call_id: each for each in messages if each.role == "tool"}
        for entry in entries:
            match entry:
                case log_entry.WriteEntry():
                    self._write(entry)
                case log_entry.MessageEntry(message=message):
                    self._read(message)
                case log_entry.SkillEntry(skill=skill):
                    self.skill = skill
                case log_entry.SummaryEntry():
                    self.summary = entry
                case log_entry.ConfirmationRequiredEntry(call_id=id, approval=approval):
                    self._ask(id, approval)
                case log_entry.ToolStartEntry(call_id=id, tool=tool):
                    self._started[id] = tool
                case log_entry.ToolEndEntry():
                    self._end_call(entry)

    def started(self) -> dict[str, int]:
        """Return how many calls of each tool were started: of a loop its items, and not itself."""
        loops = {loop_of(id) for id in self._started}
        return dict(Counter(tool for id, tool in self._started.items() if id not in loops))

    def _ask(self, id: str, approval: PendingApproval) -> None:
        """Count a call that people alone answer; count one no more that was withheld."""
        if id in self._started and approval.kind in ("input", "reconcile"):
            self._have_run.add(id)
        elif approval.kind == "input":
            self._started[id] = approval.tool
        elif id not in self._have_run:
            self._started.pop(id, None)

    def _end_call(self, end: log_entry.ToolEndEntry) -> None:
        result = self._results.get(end.call_id)
        if end.error is not None:
            # It was refused while it waited for its slot, or for its answer: it did not run.
            has_run = end.call_id in self._have_run or end.error.message.startswith(_WAS_RUN)
            is_unstarted = end.error.code in _UNSTARTED or end.error.message == outcomes.HELD_BACK
            if is_unstarted and not has_run:
                self._started.pop(end.call_id, None)
        elif result is not None and not content_text(result.content).startswith(_STOPPED):
            self.succeeded[end.tool] = None

    def _write(self, entry: log_entry.WriteEntry) -> None:
        if (reference := parse_reference(entry.path)) is None:
            raise CannotFork(f"its log has a write to no place: {entry.path[:100]}")
        path = reference.paths[0].within(entry.instance)
        value = self.data.value_after_write(path, entry.method, entry.value)
        self.data.set(path.kind, value, path.instance)
        self.redactions.write(path, entry.method, self._redaction_of(entry))

    def _redaction_of(self, entry: log_entry.WriteEntry) -> Redaction | None:
        """Return the redaction of a result as its message shows it."""
        message = None if entry.call_id is None else self._results.get(entry.call_id)
        if message is None:
            return None
        tool, text = str(message.tool), content_text(message.content)
        is_untrusted = UNTRUSTED_MARK.search(text) is not None
        shown = as_text(untrusted_value(tool, entry.value) if is_untrusted else entry.value)
        # A note about changed arguments is a line before it.
        is_whole = message.is_error or text == shown or text.endswith(f"\n{shown}")
        if is_whole and not is_untrusted:
            return None
        return Redaction(tool, hidden=not is_whole, trusted=not is_untrusted)

    def _read(self, message: ChatMessage) -> None:
        if message.role == "assistant":
            content = content_text(message.content) if message.said is None else message.said
            self.said = content or self.said
        if message.role == "tool" and message.tool is not None:
            self._tool = message.tool
        self.is_answered = message.role == "assistant" and not message.calls
        parts = message.content if isinstance(message.content, list) else ()
        # A result is shown, and writes nothing.
        for part in parts if not message.imported and message.role != "tool" else ():
            if isinstance(part, DataPart):
                self._read_part(part)

    def _read_part(self, part: DataPart) -> None:
        """Take a data part that is its own write; of another one, how its value is shown."""
        place = Path(part.kind, (), part.instance)
        own = self.data.own_value(place.kind, place.instance)
        if own is MISSING:
            self.data.set(place.kind, part.data, place.instance)
        elif not is_same_json(self.redactions.redact(own, place), part.data):
            is_marked = isinstance(part.data, dict) and part.data.get("trusted") is False
            redaction = Redaction(self._tool, hidden=not is_marked, trusted=not is_marked)
            self.redactions.write(place, "merge", redaction)
        self.described[place] = DescriptionSnapshot(
            kind=place.kind,
            instance=place.instance,
            schema_=part.schema_,
            description=part.description,
        )
