"""Compare two recorded runs.

    two logs ─► calls matched by tool and arguments ─► the others by tool and order ─► differences

Of several equal calls, the n-th matches the n-th. A delegate is a call of its parent here: its own
log is not read.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast.client.records.recorded_calls import RecordedLog
from holdfast.client.run import Run
from holdfast.client.run_lists import RunListing
from holdfast.runtime.narration.log_narration import content_text
from holdfast.runtime.narration.phrases import EXPIRED, decision_phrase
from holdfast.schemas import log_entry, names
from holdfast.schemas.base import Stored, canonical_json, json_size
from holdfast.schemas.internal.run_comparison import (
    CallPart,
    CallStatus,
    ComparedCall,
    ComparedCalls,
    ComparedRun,
    ComparedTurn,
    ComparedValues,
    RunComparison,
)

MAX_ENTRIES: Final = 10_000
MAX_LOG_BYTES: Final = 32_000_000
MAX_INSTANCES: Final = 50


@dataclass(frozen=True)
class RecordedRun:
    """A run to compare: its log, and what is not in its log."""

    about: ComparedRun
    entries: Sequence[dict[str, Any]] = ()
    state: Any = None
    output: Any = None


async def read_recorded_run(run: Run, *, unread: str = "") -> RecordedRun:
    """Read a run; `unread` is the reason not to read an output in the store.

    Raises:
        HoldfastError: the run does not exist, or no worker answers for its log.
    """
    description, report = await run.describe(), await run.status()
    last, listed = min(report.log.entries, MAX_ENTRIES), report.instances[:MAX_INSTANCES]
    entries, room_bytes = list[dict[str, Any]](), MAX_LOG_BYTES
    async for entry in run.entries(names.CONTEXT, last=last):
        if (room_bytes := room_bytes - json_size(entry)) < 0:
            break
        entries.append(entry)
    state = await run.state() or {}
    if listed:
        state = {"shared": state, "instances": {name: await run.state(name) for name in listed}}
    about = ComparedRun(
        run=run.id,
        agent=RunListing.of(description).agent,
        status=report.status,
        usage=report.usage,
    )
    output, lacks = None, ["it has not ended"]
    if description.close_time is not None:
        ending = await run.ending(unread=unread)
        output, lacks = ending.result and ending.result.output, []
        about = about.model_copy(update={"status": ending.status, "error": ending.code})
    if Stored.of(output) is not None:
        lacks.append("its output is in its worker's store, and not read here")
    if more := len(report.instances) - len(listed):
        lacks.append(f"the states of {more} instances are not read")
    if more := report.log.entries - len(entries):
        lacks.append(f"the last {more:,} entries of its log are not read")
    return RecordedRun(about.model_copy(update={"lacks": lacks}), entries, state, output)


def compare(first: RecordedRun, second: RecordedRun) -> RunComparison:
    """Return two runs side by side."""
    logs = [_ComparedLog(first.entries), _ComparedLog(second.entries)]
    one, other = logs[0].add_counts(first.about), logs[1].add_counts(second.about)
    calls = _compared_calls(*map(_ComparedLog.compared_calls, logs))
    state, output = _values(first.state, second.state), _values(first.output, second.output)
    texts = [{turn: "\n".join(each) for turn, each in log.turns.items()} for log in logs]
    return RunComparison(
        equal=(one.status, one.error) == (other.status, other.error)
        and not (one.lacks or other.lacks)
        and all(each.status == "equal" for each in calls)
        and (state.equal and output.equal),
        first=one,
        second=other,
        turns=[
            ComparedTurn(turn=turn, **vars(_values(*(each.get(turn) for each in texts))))
            for turn in sorted({*texts[0], *texts[1]})
        ],
        calls=calls,
        state=state,
        output=output,
    )


class _ComparedLog:
    """The texts of the turns, the calls and the other questions of a log."""

    def __init__(self, entries: Iterable[dict[str, Any]]) -> None:
        self.turns = defaultdict[int, list[str]](list)
        self._log, texts = RecordedLog(inherits=True), list[str]()
        for each in entries:
            match self._log.add(each).entry:
                case log_entry.TurnStartEntry(turn=turn):
                    self.turns[turn] += texts
                    texts = []
                case log_entry.MessageEntry(message=message) if message.role != "tool":
                    text = content_text(message.content if message.said is None else message.said)
                    is_answer = message.role == "assistant" and not message.imported
                    author = "model" if message.role == "assistant" else message.role
                    own = self.turns[self._log.turn] if is_answer and self._log.turn else texts
                    own += [f"{author}: {text}"] if text else []
        # By the subject and the id of a question; those on a call are of the call.
        self._decisions = defaultdict[tuple[str, str], list[str]](list)
        for question in self._log.questions:
            subject = "" if question.id in self._log.calls else question.asked.tool
            kind, phrase = question.asked.kind, "pending"
            for entry in question.decisions:
                decided = entry.decided
                # An edit may end its question with another one.
                if entry.outcome or (decided is not None and decided.decision == "edit"):
                    phrase = EXPIRED if decided is None else decision_phrase(decided.decision, kind)
            self._decisions[subject, question.id].append(phrase)

    def add_counts(self, about: ComparedRun) -> ComparedRun:
        lacks = [*about.lacks]
        if unread := self._log.unread + self._log.cut:
            lacks.append(f"entries of its log that were dropped or cut: {unread:,}")
        decisions = [
            f"{name}: {', '.join(each)}" for (name, _), each in self._decisions.items() if name
        ]
        counts = {"turns": len(self.turns), "calls": len(self._log.calls)}
        return about.model_copy(update={**counts, "decisions": decisions, "lacks": lacks})

    def compared_calls(self) -> list[ComparedCall]:
        return [
            ComparedCall(
                call_id=call.id,
                turn=call.turn,
                tool=call.tool,
                label=call.label or call.tool,
                instance=call.instance,
                arguments=call.arguments,
                executed=call.has_started,
                decisions=self._decisions["", call.id],
                result=self._result_of(call.id),
            )
            for call in self._log.calls.values()
        ]

    def _result_of(self, id: str) -> Any:
        end = self._log.ends.get(id)
        if end is not None and end.error is not None:
            return {"error": end.error.code.value, "message": end.error.message}
        return self._log.result_of(id)


def _compared_calls(first: list[ComparedCall], second: list[ComparedCall]) -> list[ComparedCalls]:
    """Return the calls of both runs, by turn."""
    keys: list[Callable[[ComparedCall], Any]] = [
        lambda call: canonical_json([call.tool, call.instance, call.arguments]),
        lambda call: call.tool,
    ]
    places = dict[int, int]()
    for key in keys:
        free, taken = defaultdict[Any, deque[int]](deque), set(places.values())
        for place, call in enumerate(second):
            if place not in taken:
                free[key(call)].append(place)
        for n, call in enumerate(first):
            if n not in places and (equal := free[key(call)]):
                places[n] = equal.popleft()
    rising, taken = _longest_rising(places[n] for n in sorted(places)), set(places.values())
    found = [
        _compared_call(call, second[places[n]] if n in places else None, places.get(n) in rising)
        for n, call in enumerate(first)
    ]
    found += [_compared_call(None, call) for n, call in enumerate(second) if n not in taken]
    return sorted(found, key=lambda each: each.either.turn)


def _compared_call(
    one: ComparedCall | None, other: ComparedCall | None, is_in_order: bool = True
) -> ComparedCalls:
    status: CallStatus = "missing"
    differs = list[CallPart]()
    if one is not None and other is not None:
        parts = compared_parts(other)
        both = ((name, part, parts[name]) for name, part in compared_parts(one).items())
        differs = [name for name, ours, theirs in both if not _is_same(ours, theirs)]
        is_changed = not {"arguments", "execution"}.isdisjoint(differs)
        status = "changed" if is_changed else "equal" if is_in_order else "moved"
    return ComparedCalls(status=status, differs=differs, first=one, second=other)


def compared_parts(call: ComparedCall) -> dict[CallPart, Any]:
    """Return the parts of a call that may differ in its match."""
    return {
        "arguments": call.arguments,
        "execution": "executed" if call.executed else "not executed",
        "decisions": ", ".join(call.decisions) or "none",
        "result": call.result,
    }


def _values(one: Any, other: Any) -> ComparedValues:
    return ComparedValues(equal=_is_same(one, other), first=one, second=other)


def _is_same(one: Any, other: Any) -> bool:
    return canonical_json(one) == canonical_json(other)


def _longest_rising(places: Iterable[int]) -> set[int | None]:
    """Return a longest part of distinct numbers in which each is larger than the one before."""
    ends, before, found = list[int](), dict[int, int | None](), set[int | None]()
    for place in places:
        at = bisect_left(ends, place)
        before[place] = ends[at - 1] if at else None
        ends[at : at + 1] = [place]
    last = ends[-1] if ends else None
    while last is not None:
        found.add(last)
        last = before[last]
    return found
