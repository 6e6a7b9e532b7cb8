"""What a page says of a waiting call, in words: the question, what follows, until when.

Nothing here is anybody else's word but ours; what a model or a tool's author wrote stands apart.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from remote.question import what
from remote.text import as_json, cell, clean, moment, one_line, since
from schemas.decision import Decided, Kind, Waiting
from schemas.plan import calls_shown
from schemas.tool import ApprovalPolicy, ShownTool

_NAME_CHARS: Final = 60
_BUTTON_CHARS: Final = 70
_ARGUMENT_CHARS: Final = 24
_MAX_ARGUMENTS: Final = 3
_ASKS: Final[dict[Kind, str]] = {
    "call": "Shall this be done?",
    "plan": "Shall this plan be carried out?",
    "reconcile": "Did this happen?",
    "budget": "May this run use more?",
}
_LAPSES: Final = {
    "deny": "it is denied, and the run goes on without it",
    "fail": "the whole run fails",
    "approve": "it is carried out, without anybody's leave",
}
_LAPSES_OF: Final[dict[Kind, str]] = {
    "reconcile": "it is given up: the run goes on, and nobody knows whether it happened",
    "budget": "the run ends",
}
SAID: Final = {
    "approve": "approved it",
    "deny": "denied it",
    "edit": "approved it with other arguments",
    "respond": "answered in its place",
    "happened": "said that it happened",
    "did_not_happen": "said that it did not happen",
    "give_up": "gave it up",
}
# How the run keeps what was said of a call whose outcome is unknown.
_SAID_OF_UNKNOWN: Final = {
    "respond": "said that it happened",
    "approve": "said that it did not happen, so it is carried out again",
    "deny": "gave it up",
}


@dataclass(frozen=True)
class When:
    """A moment: as programs read it, as people do, and how far off it is."""

    iso: str
    text: str
    off: str


def when(at: str) -> When:
    """A time of a run's log."""
    time = moment(at)
    if time is None:
        return When("", "at an unknown time", "")
    text = time.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    later = time > datetime.now(UTC)
    return When(at, text, f"in {since(at)}" if later else f"{since(at)} ago")


def asks(waiting: Waiting) -> str:
    """The question."""
    return _ASKS[waiting.kind]


def heading(waiting: Waiting) -> str:
    """What the question is about."""
    if waiting.kind == "plan":
        return counted(len(list(calls_shown(waiting.arguments))), "call")
    return what(waiting)


def if_approved(waiting: Waiting, tool: ShownTool | None) -> str:
    """What happens if somebody approves, in a sentence."""
    first = {
        "call": "If it is approved, it is carried out at once, with exactly these arguments",
        "plan": "If it is approved, the calls that are ticked are carried out, each with exactly"
        " its arguments, in the order that is shown",
        "reconcile": "It was started, and its end was never heard of. Nothing more is done until"
        " somebody says what happened",
        "budget": "It has used up what it may, and stands still. If that is extended, it goes on",
    }[waiting.kind]
    by = (
        f", by the agent {one_line(tool.delegate, _NAME_CHARS)} in a run of its own"
        if (tool is not None and tool.delegate and waiting.kind == "call")
        else ""
    )
    return f"{first}{by}."


def consequences(waiting: Waiting, tool: ShownTool | None) -> list[str]:
    """What else follows: whether it changes the world, and whether it could be done twice."""
    if tool is None or waiting.kind not in ("call", "reconcile"):
        return []
    changes = (
        "It changes something outside of this run. There is no button that takes it back."
        if tool.side_effects
        else "By its author's word it changes nothing outside of this run."
    )
    if not tool.side_effects:
        return [changes]
    twice = (
        "Carried out twice, it has the effect of once: if something breaks, it is tried again."
        if tool.idempotent
        else "Carried out twice, it happens twice: so it is started once, and if its end is lost,"
        " people are asked."
    )
    return [changes, twice]


def lapse(waiting: Waiting, policy: ApprovalPolicy | None) -> str:
    """What becomes of it when nobody decides in time."""
    if waiting.kind in _LAPSES_OF:
        return _LAPSES_OF[waiting.kind]
    return _LAPSES[(policy and policy.on_timeout) or "deny"]


def approve_button(waiting: Waiting) -> str:
    """What the button that approves does: `Approve: Refund an order, 7, 20`."""
    if waiting.kind == "budget":
        return f"Extend: {extended(waiting)}"
    told = f"Approve: {what(waiting)}"
    for value in list(waiting.arguments.values())[:_MAX_ARGUMENTS]:
        if isinstance(value, str | int | float) and value != "":
            short = one_line(cell(value), _ARGUMENT_CHARS)
            if len(told) + len(short) + 2 <= _BUTTON_CHARS:
                told += f", {short}"
    return told


def extended(waiting: Waiting) -> str:
    """What a budget comes to that is extended: `maxCalls from 5 to 10`."""
    told = []
    for name, limit in waiting.arguments.items():
        more = limit * 2 if isinstance(limit, int | float) else None
        after = f"from {as_json(limit)} to {as_json(more)}" if more else f"by {cell(limit)} more"
        told.append(f"{one_line(name, _NAME_CHARS)} {after}")
    return ", ".join(told)


def gave(decided: Decided, kind: Kind, you: str) -> str:
    """Who decided what: `You approved it`, `grace denied it: not before Friday`."""
    said = _SAID_OF_UNKNOWN if kind == "reconcile" else SAID
    words = said.get(decided.decision) or SAID.get(decided.decision, clean(decided.decision))
    if kind == "budget":
        words = {"approve": "extended it", "edit": "set the limit", "deny": "ended the run"}.get(
            decided.decision, words
        )
    by = "You" if decided.by == you else one_line(decided.by or "Somebody", _NAME_CHARS)
    signed = " (signed)" if decided.signed else ""
    return f"{by} {words}{signed}"


def counted(number: int, thing: str) -> str:
    """`1 call`, `3 calls`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
