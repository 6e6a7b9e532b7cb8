"""What must be true of a case, whatever befell it: what it left behind is judged here.

The oracle is the same scenario undisturbed. All that may differ is what a person was asked besides:
whether a call happened whose end was not seen.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.schemas.names import loop_of
from holdfast.schemas.tool import MAX_ITEMS
from tests.faults.harness.case_result import CaseResult, Part, is_reconcile
from tests.faults.harness.points import RUN

LOST, DOUBLED, STUCK = "lost", "doubled", "stuck"
DIFFERENT, DISORDER, UNASKED, BROKEN = "different", "out of order", "unasked", "broken"
KINDS = (LOST, DOUBLED, STUCK, DIFFERENT, DISORDER, UNASKED, BROKEN)
# Of every effect of the tools of the harness, a person has to be asked before.
_LETS_THROUGH = ("approve", "edit")


@dataclass(frozen=True)
class Problem:
    """What is wrong with a case: one of `KINDS`, and in words."""

    kind: str
    words: str


def judge(left: CaseResult, calm: CaseResult) -> list[Problem]:
    """Everything that is wrong with a case, next to the same one undisturbed."""
    return [*_judged(left, calm)]


def _judged(left: CaseResult, calm: CaseResult) -> Iterator[Problem]:
    if left.stuck:
        yield Problem(STUCK, left.stuck)
    for words in left.broken:
        yield Problem(BROKEN, words)
    yield from _effects(left, calm)
    if left.stuck or left.broken:
        return
    if _plain(left, left.result) != _plain(calm, calm.result):
        yield Problem(DIFFERENT, f"the result is {left.result}, undisturbed {calm.result}")
    for name, part in left.parts.items():
        said = f"{RUN}{name}"
        undisturbed = calm.parts[name]
        for problem in (*_order(part), *_decisions(part), *_same(left, part, calm, undisturbed)):
            yield Problem(problem.kind, f"{said}: {problem.words}")
        yield from _asked(left, name, part)
        for failure in part.task_failures:
            yield Problem(BROKEN, f"{said}: a workflow task failed: {failure}")


def _plain(left: CaseResult, value: Any) -> Any:
    """A value without the id of its run."""
    return json.loads(json.dumps(value, sort_keys=True).replace(left.id, RUN))


# Effects.


def _effects(left: CaseResult, calm: CaseResult) -> Iterator[Problem]:
    found, wanted = (Counter(_effect(each, line) for line in each.effects) for each in (left, calm))
    for effect in wanted.keys() | found.keys():
        if found[effect] > max(1, wanted[effect]) or (found[effect] and not wanted[effect]):
            yield Problem(DOUBLED, f"{found[effect]} times {effect}, undisturbed {wanted[effect]}")
        elif found[effect] < wanted[effect] and not (left.stuck or left.broken):
            yield Problem(LOST, f"{effect} never was")


def _effect(left: CaseResult, line: dict[str, Any]) -> str:
    said = {key: line[key] for key in ("key", "tool", "arguments")}
    return json.dumps(_plain(left, said), sort_keys=True)


def _asked(left: CaseResult, name: str, part: Part) -> Iterator[Problem]:
    """Every effect stands after a decision that let it through, for what it was made with."""
    for line in left.effects:
        workflow, _, call_id = line["key"].rpartition("/")
        if workflow == left.id + name and not any(_lets(each, line) for each in _ruled(part)):
            yield Problem(UNASKED, f"{RUN}{name}/{call_id} acted, and had no approval")


def _ruled(part: Part) -> Iterator[dict[str, Any]]:
    return (one for one in part.context if one["type"] == "decision" and "decided" in one)


def _lets(decision: dict[str, Any], effect: dict[str, Any]) -> bool:
    decided, call_id = decision["decided"], effect["key"].rpartition("/")[2]
    if datetime.fromisoformat(decided["at"]).timestamp() > effect["at"]:
        return False
    if decision.get("outcome") != "decided" or decided["decision"] not in _LETS_THROUGH:
        return False
    # A plan, or a loop: what its digest is of, no effect alone shows.
    if decision["callId"] in (f"{call_id.partition('c')[0]}-plan", loop_of(call_id)):
        return True
    return bool(decision["callId"] == call_id and decided["digest"] == digest(effect))


def digest(effect: dict[str, Any]) -> str:
    """The digest of the call that an effect was made by (§7)."""
    said = {"arguments": _whole(effect["arguments"]), "tool": effect["tool"]}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _whole(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as they were written: a model's `5` reaches a tool as `5.0`."""
    return {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in arguments.items()
    }


# The log.


def _order(part: Part) -> Iterator[Problem]:
    """§4.5, §11: numbers without a gap, one end and nothing after it, each call in its order."""
    numbers = [entry["n"] for entry in part.context]
    if numbers != list(range(1, len(numbers) + 1)):
        yield Problem(DISORDER, f"the log is numbered {numbers}")
    types = [event["type"] for event in part.events]
    if types[-1:] not in (["done"], ["error"]) or types.count("done") + types.count("error") != 1:
        yield Problem(DISORDER, f"it does not end with one end: {types}")
    turns = [event["turn"] for event in part.events if event["type"] == "turn_start"]
    if turns != list(range(1, len(turns) + 1)):
        yield Problem(DISORDER, f"the turns begin as {turns}")
    for call_id in dict.fromkeys(_ids(part, "tool_call", "tool_end")):
        yield from _of_call(part, call_id)
    for what in ("tool_call", "tool_end"):
        if (ids := _ids(part, what)) != sorted(ids, key=_position):
            yield Problem(DISORDER, f"{what} comes as {ids}, not in source order")
    results = [
        entry["message"]["callId"]
        for entry in part.context
        if entry["type"] == "message" and entry["message"]["role"] == "tool"
    ]
    if results != [one for one in _ids(part, "tool_end") if not loop_of(one)]:
        yield Problem(DISORDER, f"the model reads results of {results}")


def _of_call(part: Part, call_id: str) -> Iterator[Problem]:
    told = [event for event in part.events if event.get("callId") == call_id]
    types = [event["type"] for event in told]
    is_item = bool(loop_of(call_id))  # the call is its loop's
    if types[0] != ("tool_start" if is_item else "tool_call") or types[-1] != "tool_end":
        yield Problem(DISORDER, f"{call_id} is sent as {types}")
    if types.count("tool_call") != (not is_item) or types.count("tool_end") != 1:
        yield Problem(DOUBLED, f"{call_id} is sent as {types}")
    asked_again = sum(1 for one in told if is_reconcile(one))
    if types.count("tool_start") > 1 + asked_again:
        yield Problem(DOUBLED, f"{call_id} began more often than anybody was asked: {types}")
    turn = [
        event["n"]
        for event in part.events
        if event["type"] in ("turn_start", "turn_end") and event["turn"] == told[0]["turn"]
    ]
    # A single call has no turn.
    if turn and not turn[0] < told[0]["n"] <= told[-1]["n"] < turn[-1]:
        yield Problem(DISORDER, f"{call_id} is sent outside of its turn")


def _ids(part: Part, *types: str) -> list[str]:
    return [event["callId"] for event in part.events if event["type"] in types]


def _position(call_id: str) -> tuple[int, ...]:
    """The turn, the call, and the item; a loop ends after its items."""
    turn, call, *item = (int(number) for number in call_id[1:].replace(".", "c").split("c"))
    return turn, call, *(item or [MAX_ITEMS])


def _decisions(part: Part) -> Iterator[Problem]:
    """Each question is decided once, by as many people as it takes."""
    asked = {
        event["approval"]["digest"]: event["approval"]
        for event in part.events
        if event["type"] == "confirmation_required"
    }
    counted = [one for one in _ruled(part) if "ignored" not in one]
    for key, question in asked.items():
        of_it = [one for one in counted if one["decided"]["digest"] == key]
        ruled = sum(1 for one in of_it if one.get("outcome") == "decided")
        people = {one["decided"].get("by") for one in of_it}
        if ruled != 1 or len(of_it) != len(people) or len(people) != question.get("quorum", 1):
            words = f"{question['callId']} ({question['kind']}): {len(of_it)} decisions by {people}"
            kind = DOUBLED if ruled > 1 or len(of_it) > question.get("quorum", 1) else LOST
            yield Problem(kind, f"{words} count, {ruled} of them decide")
    for one in counted:
        if one["decided"]["digest"] not in asked:
            yield Problem(UNASKED, f"a decision on {one['callId']} counts without a question")


def _same(left: CaseResult, part: Part, calm: CaseResult, undisturbed: Part) -> Iterator[Problem]:
    """What is sent and written is what it is undisturbed; only its order may differ."""
    if part.state != undisturbed.state:
        yield Problem(DIFFERENT, f"the state is {part.state}, undisturbed {undisturbed.state}")
    for what, of in (("events", _events), ("messages", _messages), ("writes", _writes)):
        found, wanted = Counter(of(left, part)), Counter(of(calm, undisturbed))
        if found - wanted:
            yield Problem(DOUBLED, f"more {what} than undisturbed: {list(found - wanted)}")
        if wanted - found:
            yield Problem(LOST, f"fewer {what} than undisturbed: {list(wanted - found)}")


def _events(_: CaseResult, part: Part) -> Iterator[str]:
    """The events, but for notices and reminders, which may be of a fault; and but for questions
    whether something happened, and what started again after them."""
    again: Counter[str] = Counter()
    for event in part.events:
        call_id = event.get("callId", "")
        if event["type"] == "notice" or event.get("reminder"):
            continue
        if is_reconcile(event):
            again[call_id] += 1
            continue
        if event["type"] == "tool_start":
            again[f"began {call_id}"] += 1
            if again[f"began {call_id}"] > 1:
                continue
        error = (event.get("error") or {}).get("code", "")
        yield f"{event['type']} {event.get('turn', '')} {call_id} {error}".strip()


def _messages(left: CaseResult, part: Part) -> Iterator[str]:
    said = (entry["message"] for entry in part.context if entry["type"] == "message")
    return (json.dumps(_plain(left, message), sort_keys=True) for message in said)


def _writes(left: CaseResult, part: Part) -> Iterator[str]:
    for entry in part.context:
        if entry["type"] == "write":
            written = {key: value for key, value in entry.items() if key not in ("n", "at")}
            yield json.dumps(_plain(left, written), sort_keys=True)
