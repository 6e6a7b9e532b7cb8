"""Whether a run is as a case expects it: pure functions of what the run did."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from holdfast.client.records.recorded_calls import RecordedLog
from holdfast.client.result import RunEnding
from holdfast.runtime.text_safety import as_json, one_line
from holdfast.schemas.settings.evals import Expectation, ExpectedCall, ExpectedCalls
from holdfast.validation.validator import errors

_SHOWN_CHARS = 120
_MAX_REASONS = 20


@dataclass(frozen=True)
class Call:
    """A call that ran, or was refused or denied: its tool and its arguments as they would run."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return one_line(f"{self.tool} {as_json(self.arguments)}", _SHOWN_CHARS)


@dataclass(frozen=True)
class Outcome:
    """What a run did. `approvals` are the tools that it asked for; `cost` is None if unknown."""

    status: str
    output: Any = None
    calls: Sequence[Call] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    approvals: Sequence[str] = ()
    turns: int = 0
    cost: float | None = None
    problem: str = ""

    @classmethod
    def of(cls, ending: RunEnding, log: RecordedLog, problem: str = "") -> Self:
        """Return what a run did, of a loop the calls of its items.

        `problem` is why it was ended from outside.
        """
        made = {
            id: Call(call.tool, arguments if isinstance(arguments, dict) else {})
            for call in log.calls.values()
            for id, arguments in call.parts().items()
        }
        result = ending.result
        spent = result or ending.spent
        return cls(
            ending.status,
            None if result is None else result.output,
            [made[id] for id in log.started if id in made],
            {} if result is None or not isinstance(result.state, dict) else result.state,
            [name for question in log.questions for name in question.asked.tool_names()],
            0 if spent is None else spent.turns,
            None if spent is None else spent.usage.cost,
            problem or ending.message,
        )


def failures(expect: Expectation, run: Outcome) -> list[str]:
    """Return why a run is not as expected, a line each; the judge is asked elsewhere."""
    return [*_failures(expect, run)][:_MAX_REASONS]


def _failures(expect: Expectation, run: Outcome) -> Iterator[str]:
    if run.status != expect.status:
        why = f": {run.problem}" if run.problem else ""
        yield f"it ended as {run.status}, not as {expect.status}{one_line(why, _SHOWN_CHARS)}"
    output = expect.output
    if output.equals is not None and not _equal(output.equals, run.output):
        yield f"its output is {_shown(run.output)}, not {_shown(output.equals)}"
    text = run.output if isinstance(run.output, str) else as_json(run.output)
    yield from (
        f"its output does not contain {_shown(part)}"
        for part in output.contains
        if part.casefold() not in text.casefold()
    )
    yield from (f"its output: {error}" for error in errors(run.output, output.schema_))
    yield from _of_calls(expect.calls, run.calls)
    for key, value in expect.state.items():
        if key not in run.state or not _equal(value, run.state[key]):
            yield f"its state has `{key}` {_shown(run.state.get(key))}, not {_shown(value)}"
    if expect.approvals is not None:
        have, want = Counter(run.approvals), Counter(expect.approvals)
        for words, rest in (("asks for", have - want), ("does not ask for", want - have)):
            yield from (
                f"it {words} `{name}`{'' if n == 1 else f' {n} times'}" for name, n in rest.items()
            )
    if expect.max_cost is not None and (run.cost is None or run.cost > expect.max_cost):
        cost = "is not known" if run.cost is None else f"is {run.cost:g}"
        yield f"its cost {cost}; at most {expect.max_cost:g}"
    if expect.max_turns is not None and run.turns > expect.max_turns:
        yield f"it made {run.turns} requests to the model; at most {expect.max_turns}"


def _of_calls(expect: ExpectedCalls, calls: Sequence[Call]) -> Iterator[str]:
    if expect.exactly is not None:
        missing, left = _unmatched(expect.exactly, calls)
        yield from (f"it did not call {_named(each)}" for each in missing)
        yield from (f"it called {each}, which is not expected" for each in left)
    for each in _unmatched(expect.at_least, calls)[0]:
        yield f"it did not call {_named(each)}"
    for each in expect.never:
        yield from (f"it called {call}" for call in calls if _is(each, call))
    at = 0
    for each in expect.in_order:
        found = next((n for n in range(at, len(calls)) if _is(each, calls[n])), None)
        if found is None:
            yield f"it did not call {_named(each)} in that order"
            return
        at = found + 1


def _unmatched(
    expected: Iterable[str | ExpectedCall], calls: Sequence[Call]
) -> tuple[list[str | ExpectedCall], list[Call]]:
    """Return the expected calls that are not there, and the calls that are not expected.

    As many as possible are matched, each with one: a call takes that of another, which finds one
    more. The most demanding ones choose first: a call with arguments fits its bare name too.
    """
    wanted = sorted(expected, key=lambda one: isinstance(one, str) or -len(one.arguments))
    fitting = [[at for at, call in enumerate(calls) if _is(each, call)] for each in wanted]
    matched = dict[int, int]()

    def match(n: int, tried: set[int]) -> bool:
        for at in fitting[n]:
            if at not in tried:
                tried.add(at)
                if at not in matched or match(matched[at], tried):
                    matched[at] = n
                    return True
        return False

    missing = [each for n, each in enumerate(wanted) if not match(n, set())]
    return missing, [call for at, call in enumerate(calls) if at not in matched]


def _is(expected: str | ExpectedCall, call: Call) -> bool:
    if isinstance(expected, str):
        return call.tool == expected
    return call.tool == expected.tool and all(
        name in call.arguments and _equal(value, call.arguments[name])
        for name, value in expected.arguments.items()
    )


def _equal(one: Any, other: Any) -> bool:
    # As JSON Schema compares: 9 is 9.0, and 1 is not true.
    return not errors(other, {"const": one})


def _named(expected: str | ExpectedCall) -> str:
    call = Call(expected) if isinstance(expected, str) else Call(expected.tool, expected.arguments)
    return call.tool if not call.arguments else str(call)


def _shown(value: Any) -> str:
    return one_line(as_json(value), _SHOWN_CHARS)
