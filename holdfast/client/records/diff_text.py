"""The words for two runs side by side, the same in a terminal and on a page; all are clean."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast.client.records.run_diff import compared_parts
from holdfast.client.result import token_counts
from holdfast.runtime.narration.phrases import NAME_CHARS
from holdfast.runtime.narration.value_diff import Difference, differences
from holdfast.runtime.text_safety import (
    arguments_line,
    as_json,
    clean,
    label_in_line,
    one_line,
    shorten,
)
from holdfast.schemas.base import MAX_JSON_DEPTH, is_deeper
from holdfast.schemas.internal.run_comparison import CallStatus, ComparedCalls, RunComparison

VALUE_CHARS: Final = 2_000
_BEFORE_CHARS: Final = 100


@dataclass(frozen=True)
class DiffRow:
    """A call of one or both runs, or only what differs; `words` has the status and the name."""

    differences: list[Difference]
    status: CallStatus | None = None
    words: tuple[str, ...] = ()


def fact_rows(found: RunComparison) -> Iterator[tuple[str, ...]]:
    """Yield a name and the value in each run: agent, status, turns, calls, tokens and cost."""
    both = (found.first, found.second)
    facts = {
        "agent": (run.agent or "none" for run in both),
        "status": (f"{run.status}: {run.error}" if run.error else run.status for run in both),
        "turns": (f"{run.turns:,}" for run in both),
        "calls": (f"{run.calls:,}" for run in both),
        "usage": (", ".join(token_counts(run.usage)) for run in both),
    }
    yield from ((name, *(one_line(fact, NAME_CHARS) for fact in facts[name])) for name in facts)


def turn_rows(found: RunComparison) -> Iterator[tuple[int, list[DiffRow]]]:
    """Yield the number and the rows of each turn; a call is in its turn of the first run."""
    texts = {each.turn: each for each in found.turns}
    calls = defaultdict[int, list[ComparedCalls]](list)
    for each in found.calls:
        calls[each.either.turn].append(each)
    for number in sorted({*texts, *calls}):
        text = texts.get(number)
        changes = [] if text is None else _changes(text=(text.first, text.second))
        own = [_call_row(each, found) for each in calls[number]]
        yield number, [*([DiffRow(changes)] if changes else []), *own]


def end_changes(found: RunComparison) -> list[Difference]:
    """Return what differs in the decisions on plans and budgets, the state, and the output."""
    return _changes(
        decisions=(found.first.decisions, found.second.decisions),
        state=(found.state.first, found.state.second),
        output=(found.output.first, found.output.second),
    )


def summary(found: RunComparison) -> str:
    """Return the numbers of calls by status, what is not known, and whether the runs are equal."""
    counts = Counter(each.status for each in found.calls)
    calls = ", ".join(f"{number:,} {status}" for status, number in counts.items())
    both = (found.first, found.second)
    lacks = [f"{one_line(run.run, NAME_CHARS)}: {lack}." for run in both for lack in run.lacks]
    end = "not known to be equal" if lacks else "equal" if found.equal else "different"
    return " ".join([f"Calls: {calls or 'none'}.", *lacks, f"The runs are {end}."])


def _call_row(calls: ComparedCalls, found: RunComparison) -> DiffRow:
    one, other, status = calls.first, calls.second, str(calls.status)
    ids, changes = [calls.either.call_id], list[Difference]()
    if one is None or other is None:
        run = found.second if one is None else found.first
        status = f"only in {one_line(run.run, NAME_CHARS)}"
    else:
        ids, parts = [*dict.fromkeys((one.call_id, other.call_id))], compared_parts(other)
        own = compared_parts(one)
        changes = _changes(**{name: (own[name], parts[name]) for name in calls.differs})
        if status != "changed" and calls.differs:
            status = f"{status}, other {' and '.join(calls.differs)}"
    name = f"{' ↔ '.join(map(clean, ids))} {label_in_line(calls.either.label, NAME_CHARS)}"
    words = (status, name, arguments_line(calls.either.arguments))
    return DiffRow(changes, calls.status, words)


def _changes(**values: tuple[Any, Any]) -> list[Difference]:
    """Return what differs in each pair; texts that are too long begin where they differ."""
    found = list[Difference]()
    for name, both in values.items():
        # What is nested too deeply is compared as a text.
        texts = (as_json(each) if is_deeper(each, MAX_JSON_DEPTH) else each for each in both)
        for one in differences(*({} if each is None else {name: each} for each in texts)):
            before, after = one.before, one.after
            if max(len(before), len(after)) > VALUE_CHARS:
                pairs = enumerate(zip(before, after, strict=False))
                equal = next((n for n, (ours, theirs) in pairs if ours != theirs), 0)
                start = max(equal - _BEFORE_CHARS, 0)
                before, after = (f"{'…' * bool(start)}{text[start:]}" for text in (before, after))
            before, after = shorten(before, VALUE_CHARS), shorten(after, VALUE_CHARS)
            found.append(replace(one, before=before, after=after))
    return found
