"""What came of the steps of a plan: each carried out or not, and with what result."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from holdfast.client.run_handle import Entry
from holdfast.runtime.narration.log_narration import NarrationLine
from holdfast.runtime.text_safety import clean, message_after_code, one_line
from holdfast.schemas.decision import PendingApproval, shown_calls
from holdfast.schemas.names import ErrorCode
from holdfast.web.call.plan_steps import Steps

_CODE_CHARS: Final = 100
# It is told what was returned, not that something was.
_RESULTS: Final = ("result", "ends")

_NOT_BEGUN: Final[Mapping[str, str]] = {
    ErrorCode.DENIED: "denied: not carried out",
    ErrorCode.APPROVAL_TIMEOUT: "not carried out: nobody decided in time",
}

Tone = Literal["good", "bad", "asks", "dim"]


@dataclass(frozen=True)
class Carried:
    """What came of one step: in words, and what it returned, or why it failed."""

    number: int
    id: str
    label: str
    said: str
    tone: Tone
    body: str = ""
    asks: bool = False
    outside: bool = False


def carried(
    asked: PendingApproval,
    left: Mapping[str, Any],
    told: Sequence[tuple[Entry, Sequence[NarrationLine]]],
    *,
    denied: bool,
) -> Iterator[Carried]:
    """The steps of a plan that was decided on; `left` is the plan as it was at last, and `told`
    what the log says since."""
    stay = {call["id"] for call in shown_calls(left)}
    for step in Steps(asked.arguments, {}).all:
        own = [pair for pair in told if _call_of(pair[0]) == step.id]
        shown = (step.number, step.id, step.label)
        if denied:
            yield Carried(*shown, "not carried out", "dim")
        elif step.id not in stay:
            yield Carried(*shown, "left out: not carried out", "dim")
        else:
            yield _stands(shown, own)


def _stands(
    shown: tuple[int, str, str], own: Sequence[tuple[Entry, Sequence[NarrationLine]]]
) -> Carried:
    entries = [entry for entry, _ in own]
    ended = next((entry for entry in entries if entry["type"] == "tool_end"), None)
    if ended is None:
        types = [entry["type"] for entry in entries]
        if types and types[-1] == "confirmation_required":
            return Carried(*shown, "waits for a person", "asks", asks=True)
        begun = "tool_start" in types
        return Carried(*shown, "is being carried out" if begun else "not begun yet", "dim")
    if error := ended.get("error"):
        code = one_line(str(error.get("code")), _CODE_CHARS)
        body = message_after_code(code, str(error.get("message", "")))
        if code in _NOT_BEGUN:
            return Carried(*shown, _NOT_BEGUN[code], "dim", clean(body))
        return Carried(*shown, f"failed: {code}", "bad", clean(body))
    results = [line for _, lines in own for line in lines if line.word in _RESULTS and line.body]
    if not results:
        return Carried(*shown, "carried out", "good")
    return Carried(*shown, "carried out", "good", results[-1].body, outside=results[-1].outside)


def _call_of(entry: Entry) -> str:
    """The call that an entry is about."""
    message = entry["message"] if entry["type"] == "message" else {}
    return str(entry.get("callId") or message.get("callId") or "")
