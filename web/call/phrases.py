"""What a page says of a waiting call, in words: the question, what follows, who decided.

Nothing here is anybody else's word but ours; what a model or a tool's author wrote stands apart.
"""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.client.question_text import call_name
from holdfast.runtime.text_safety import clean, format_argument, one_line
from holdfast.schemas.decision import Decided, Kind, PendingApproval, shown_calls
from holdfast.schemas.tool import ApprovalPolicy, ShownTool
from holdfast.web import budget_text
from holdfast.web.call.history import Past, Stage

_NAME_CHARS: Final = 60
_BUTTON_CHARS: Final = 80
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
# With no run around it that could go on.
_LAPSES_OF_SINGLE: Final = {
    "deny": "it is denied, and not carried out",
    "fail": "it fails",
}
_LAPSES_OF: Final[dict[Kind, str]] = {
    "reconcile": "it is given up: the run goes on, and nobody knows whether it happened",
    "budget": "the run ends",
}
SAID: Final = {
    "approve": "approved it",
    "deny": "denied it",
    "edit": "approved it with changes",
    "respond": "answered in its place",
    "happened": "said that it happened",
    "did_not_happen": "said that it did not happen",
    "give_up": "gave it up",
}
# Budgets of which a provider may not say what was used.
_REPORTED: Final = ("maxTokens", "maxCost")
# How the run keeps what was said of a call whose outcome is unknown.
_SAID_OF_UNKNOWN: Final = {
    "respond": "said that it happened",
    "approve": "said that it did not happen, so it is carried out again",
    "deny": "gave it up",
}

_STANDS: Final[dict[Stage, str]] = {
    "ready": "It has not begun yet.",
    "begun": "It has begun, and has not ended yet.",
    "done": "It was carried out.",
    "failed": "It ended with an error, which stands below.",
    "settled": "",
}


def asks(waiting: PendingApproval) -> str:
    """The question."""
    return _ASKS[waiting.kind]


def heading(waiting: PendingApproval, agent: str) -> str:
    """What the question of an agent's run is about."""
    if waiting.kind == "plan":
        return f"A plan of {counted(len(list(shown_calls(waiting.arguments))), 'step')}"
    if waiting.kind == "budget":
        return budget_text.reached(waiting, agent)
    return call_name(waiting)


def if_approved(waiting: PendingApproval, tool: ShownTool | None) -> str:
    """What happens if somebody approves, in a sentence."""
    first = {
        "call": "If it is approved, it is carried out, with exactly what stands here",
        "plan": "If it is approved, the steps that are ticked are carried out, each with exactly"
        " its arguments, in the order that is shown",
        "reconcile": "It was begun, and nobody knows whether it was done. Nothing more is done"
        " until somebody says what happened",
        "budget": "It has used up what it may, and stands still. If that is extended, it goes on",
    }[waiting.kind]
    by = (
        f", by the agent {one_line(tool.delegate, _NAME_CHARS)} in a run of its own"
        if (tool is not None and tool.delegate and waiting.kind == "call")
        else ""
    )
    return f"{first}{by}."


def consequences(waiting: PendingApproval, tool: ShownTool | None) -> list[str]:
    """What else follows: whether it changes the world, and whether it could be done twice."""
    if tool is None or waiting.kind not in ("call", "reconcile"):
        return []
    changes = (
        "It changes something outside of this run. There is no button that takes it back."
        if tool.side_effects
        else "Its author has marked it as changing nothing outside of this run."
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


def lapse(waiting: PendingApproval, policy: ApprovalPolicy | None, *, single: bool = False) -> str:
    """What becomes of it when nobody decides in time; `single`: there is no run around it."""
    if single and waiting.kind == "reconcile":
        return "it is given up, and nobody knows whether it happened"
    if waiting.kind in _LAPSES_OF:
        return _LAPSES_OF[waiting.kind]
    end = ends(waiting, policy) or "deny"
    return (_LAPSES_OF_SINGLE if single else {}).get(end) or _LAPSES[end]


def ends(waiting: PendingApproval, policy: ApprovalPolicy | None) -> str:
    """What the run's rules make of it when nobody decides: `approve` or `fail`; empty where it is
    denied, or no rule says it. A run of an older build tells it by its tools alone."""
    if waiting.kind in _LAPSES_OF:
        return ""
    end = waiting.on_timeout or (policy and policy.on_timeout)
    return end if end in ("approve", "fail") else ""


def approve_button(waiting: PendingApproval, used: Any = None, granted: Any = None) -> str:
    """What the button that approves does: `Approve: Refund an order, 7, 20`. It names every value,
    or none: what it left out would look as if it did not count."""
    if waiting.kind == "budget":
        return f"Extend: {extended(waiting, used, granted)}"
    values = list(waiting.arguments.values())
    named = ", ".join([f"Approve: {call_name(waiting)}", *map(format_argument, values)])
    plain = all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in values)
    fits = len(named) <= _BUTTON_CHARS and one_line(named, _BUTTON_CHARS) == named
    return named if plain and fits else f"Approve as shown: {call_name(waiting)}"


def extended(waiting: PendingApproval, used: Any, granted: Any) -> str:
    """What a budget comes to that is extended: `calls from 5 to 10`."""
    told = []
    for name, limit in waiting.arguments.items():
        more = budget_text.raised(name, limit, used, granted)
        least = "at least " if used is None and name in _REPORTED else ""
        after = f"from {format_argument(limit)} to {least}{format_argument(more)}"
        told.append(
            f"{budget_text.within(name)} {after if more else 'by as much again as at first'}"
        )
    return ", ".join(told)


def settled(asked: PendingApproval, decided: Decided, last: Mapping[str, Any], now: Any) -> str:
    """What became of a limit: what it was, what was granted, and what it is `now`."""
    if asked.kind != "budget" or decided.decision not in ("approve", "edit"):
        return ""
    [(name, limit), *_] = asked.arguments.items()
    was = f"The limit of {budget_text.within(name)} was {format_argument(limit)}"
    if decided.decision == "edit":
        return f"{was}, and was set to {format_argument(last.get(name))}."
    grants = f"{was}. A yes grants as much again as at first, and what was used beyond it"
    return f"{grants}: it is {format_argument(now)} now." if now is not None else f"{grants}."


def gave(decided: Decided, kind: Kind, you: str) -> str:
    """Who decided what: `You approved it`, `grace denied it: not before Friday`."""
    said = _SAID_OF_UNKNOWN if kind == "reconcile" else SAID
    words = said.get(decided.decision) or SAID.get(decided.decision, clean(decided.decision))
    if kind == "budget":
        words = {"approve": "extended it", "edit": "set the limit", "deny": "ended the run"}.get(
            decided.decision, words
        )
    by = one_line(decided.by or "", _NAME_CHARS) or "Somebody"
    if decided.by == you:
        by, words = "You", words.replace("with changes", "with your changes")
    signed = " (signed)" if decided.signed else ""
    return f"{by} {words}{signed}"


def came(past: Past) -> str:
    """What came of what was decided, in a sentence; of a plan, it is told call by call."""
    if past.asked is None or past.asked.kind not in ("call", "reconcile"):
        return ""
    verdict = past.verdict.decision if past.verdict else ""
    again = " again" if past.asked.kind == "reconcile" else ""
    if again and verdict in ("deny", "give_up"):
        return "It is not carried out again, and nobody knows whether it happened."
    if verdict == "deny":
        return "It was not carried out."
    if verdict in ("respond", "happened"):
        return f"It {'is' if again else 'was'} not carried out{again}: the answer is its result."
    if past.verdict is None and past.stage == "failed":
        return "" if again else "It was not carried out."
    return _STANDS[past.stage]


def ordinal(number: int) -> str:
    """`second`, `third`, `4th`."""
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def counted(number: int, thing: str) -> str:
    """`1 call`, `3 calls`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
