"""What a run has done so far, in a line for each call: read off its log, as it grows."""

from dataclasses import dataclass
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas.plan import calls_shown, in_brief

from holdfast.workflows.engine.call.outcome import Final
from holdfast.workflows.engine.call.tool_call import error_of
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.ui_details.markdown import arguments_line

_ARGUMENTS_CHARACTERS = 90

# What a decision on a call came to, by the kind of what was asked and the decision.
_DECIDED = {
    ("call", "approve"): "approved",
    ("call", "deny"): "denied",
    ("call", "edit"): "edited and approved",
    ("call", "respond"): "answered by hand",
    ("reconcile", "approve"): "sent out again",
    ("reconcile", "deny"): "given up",
    ("reconcile", "respond"): "confirmed",
    ("plan", "approve"): "approved",
    ("plan", "deny"): "denied",
    ("plan", "edit"): "edited and approved",
    ("budget", "approve"): "extended",
    ("budget", "edit"): "set anew",
    ("budget", "deny"): "not extended",
}


@dataclass
class Told:
    """A call, or a question on a budget, and what became of it.

    `decided` is a person's decision, `stands` what the run made of the call, both in plain words;
    `arguments` are the beginning of them, in a line. `calls` are those of a plan that may still be
    carried out.
    """

    id: str
    turn: int
    label: str
    arguments: str = ""
    kind: str = "call"
    decided: str = ""
    stands: str = ""
    started: bool = False
    calls: tuple[str, ...] = ()

    @property
    def became(self) -> str:
        """What became of it, as far as it is known."""
        told = [part for part in (self.decided, self.stands) if part]
        return (": " if self.decided.startswith("denied") else ", ").join(told)


class Story:
    """The calls of one run, in the order in which they were made; the older ones are forgotten.

    It begins after so many entries of the log.
    """

    def __init__(self, after: int = 0, most_calls: int = 30) -> None:
        self._most_calls = most_calls
        self._told: dict[str, Told] = {}
        self._read = after
        self.forgotten = 0

    def follow(self, log: Log) -> None:
        """Take in what was written into the log since the last time."""
        for entry in log.since(self._read):
            self._take(entry)
        self._read = len(log)

    def foresee(self, call_id: str, outcome: Final | None) -> None:
        """Take in that a call has ended whose end is told with its turn: it does not go on."""
        told = self._told.get(call_id)
        if told is None or not told.stands or outcome is None:
            return
        if not told.started:
            told.stands = "not carried out"
        else:
            told.stands = "done" if error_of(outcome) is None else "failed"

    def calls(self) -> list[Told]:
        """What is told, the oldest first."""
        return list(self._told.values())

    def decided(self, call_id: str) -> str:
        """The decision on a call, where a person made one."""
        told = self._told.get(call_id)
        return "" if told is None else told.decided

    def _take(self, entry: dict[str, Any]) -> None:
        # What was left out of the log has neither.
        call_id, turn = entry.get("callId"), entry.get("turn", 0)
        if call_id is None:
            return
        if entry["type"] == "tool_call":
            label = entry.get("label") or entry.get("tool", "")
            stands = self._waits(entry.get("waitsFor") or [])
            self._tell(Told(call_id, turn, label, _arguments(entry), stands=stands))
        elif entry["type"] == "confirmation_required":
            self._asked(call_id, turn, entry.get("approval") or {})
        elif (told := self._told.get(call_id)) is not None:
            _go_on(told, entry)
            self._tell_calls(told, entry)

    def _asked(self, call_id: str, turn: int, asked: dict[str, Any]) -> None:
        told = self._told.get(call_id)
        if told is None:
            told = Told(call_id, turn, asked.get("label", ""), _arguments(asked))
            self._tell(told)
        told.kind, told.decided = asked.get("kind", "call"), ""
        told.calls = _calls_in(asked) if told.kind == "plan" else ()
        self._put_first(told)
        told.stands = "it is not known whether it happened" if told.kind == "reconcile" else "waits"

    def _put_first(self, plan: Told) -> None:
        """A plan stands before its calls: it is decided on before any of them is begun."""
        for call_id in plan.calls:
            if (told := self._told.pop(call_id, None)) is not None:
                self._told[call_id] = told

    def _waits(self, calls: list[str]) -> str:
        """What a call waits for, by the names that people know; not all may be told of yet."""
        labels = [told.label for id in calls if (told := self._told.get(id)) is not None]
        if len(labels) < len(calls):
            return "waits for other calls of its turn"
        return f"waits for {', '.join(dict.fromkeys(labels))}" if calls else ""

    def _tell_calls(self, plan: Told, entry: dict[str, Any]) -> None:
        """Tell of each call of a plan how the plan was decided on; but not of those struck out."""
        if entry.get("outcome") != "decided":
            return
        decided = plan.decided.removeprefix("edited and ")
        for told in filter(None, map(self._told.get, plan.calls)):
            told.decided = decided

    def _tell(self, told: Told) -> None:
        self._told[told.id] = told
        if len(self._told) > self._most_calls:
            del self._told[next(iter(self._told))]
            self.forgotten += 1


def _go_on(told: Told, entry: dict[str, Any]) -> None:
    match entry["type"], entry.get("outcome"):
        case "decision", "decided":
            _decide(told, entry)
        case "decision", "expired":
            told.decided, told.stands = "nobody decided in time", ""
        case "tool_start", _:
            told.started, told.stands = True, "begun"
            told.arguments = _arguments(entry) or told.arguments
        case "tool_end", _:
            told.stands = _end(told, entry.get("error") or {})


def _decide(told: Told, entry: dict[str, Any]) -> None:
    decided = entry.get("decided") or {}
    verdict = decided.get("decision", "")
    said = _DECIDED.get((told.kind, verdict), verdict)
    told.decided = f"{said} by {decided['by']}" if decided.get("by") else said
    told.decided += " (signed)" if decided.get("signed") else ""
    told.stands = ""
    if verdict == "edit" and told.kind == "plan":
        told.calls = _calls_in(entry)
    elif verdict == "edit":
        told.arguments = _arguments(entry)


def _end(told: Told, error: dict[str, Any]) -> str:
    message = str(error.get("message", ""))
    if not error:
        return "done" if told.started else ""
    if error.get("code") == "denied" and told.decided:
        return message
    if error.get("code") == "approval_timeout":
        return ""
    return f"{'failed' if told.started else 'not carried out'}: {message}"


def _arguments(entry: dict[str, Any]) -> str:
    found = entry.get("arguments")
    if not isinstance(found, dict):
        return ""
    return arguments_line(in_brief(entry.get("kind", "call"), found), _ARGUMENTS_CHARACTERS)


def _calls_in(entry: dict[str, Any]) -> tuple[str, ...]:
    """The calls of a plan; none of any other question."""
    found = entry.get("arguments")
    return tuple(call["id"] for call in calls_shown(found)) if isinstance(found, dict) else ()
