"""The words for decisions, questions and timeouts, the same on every surface.

A surface (terminal, inbox, Temporal UI, HTTP, notification, log) takes its words from these tables
and has no words of its own for the same thing.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.runtime.text_safety import clean, name_in_line, one_line
from holdfast.schemas.decision import Decided, Kind
from holdfast.schemas.log_entry import SkillChooser
from holdfast.validation.text_safety import is_same_person

NAME_CHARS: Final = 80

REQUESTS: Final[Mapping[Kind, str]] = {
    "call": "Approval needed",
    "input": "Answer needed",
    "plan": "Approval of a plan needed",
    "reconcile": "Outcome unknown",
    "budget": "Budget limit reached",
    "principal_expired": "New token needed",
}
"""The heading of a question; the name of the call follows it."""

EXPIRED: Final = "expired"
"""The outcome of a question whose time limit passed without a decision."""

QUEUED_FOR_MODEL: Final = "for its turn at the model (maxRequestsPerMinute)"
"""The reason why a request waits that the endpoint's rate limit delays."""

SKILL_CHOSEN: Final[Mapping[SkillChooser, str]] = {
    "request": "named by the caller",
    "rule": "chosen by a rule",
    "model": "chosen by the model",
}
"""Who chose the skill of a run."""

# The run's own text for a plan, from here on, has what the heading does not have.
_REFUSED_CALLS: Final = "Refused already"
_APPROVALS = {
    "approve": "approved",
    "edit": "approved with changes",
    "deny": "denied",
    "respond": "answered by a person",
}
# The run records a decision on an unknown outcome by the verdict of an approval.
_OUTCOMES = {
    "happened": "it happened",
    "did_not_happen": "it did not happen, run it again",
    "give_up": "give up",
    "respond": "it happened",
    "approve": "it did not happen, run it again",
    "deny": "give up",
}
_DECISIONS: Final[Mapping[Kind, Mapping[str, str]]] = {
    "call": _APPROVALS,
    "input": _APPROVALS,
    "plan": _APPROVALS,
    "reconcile": _OUTCOMES,
    "budget": {"approve": "extended", "edit": "limit changed", "deny": "not extended"},
    "principal_expired": {"approve": "token renewed", "deny": "denied"},
}

_TIMEOUTS: Final[Mapping[str, str]] = {
    "deny": "it is denied",
    "fail": "the run fails",
    "approve": "it runs without an approval",
    "give_up": "its outcome stays unknown",
    "end": "it is not extended",
}


def request_phrase(kind: Kind, attempts: Sequence[str]) -> str:
    """Return the heading of a question, with the number of the attempt if there are `attempts`."""
    words = REQUESTS[kind]
    return f"Attempt {len(attempts)}, {words[:1].lower()}{words[1:]}" if attempts else words


def question_facts(kind: Kind, text: str) -> str:
    """Return the part of a run's own question that the heading does not have; may be empty."""
    if kind == "call":
        return ""
    return "".join(text.partition(_REFUSED_CALLS)[1:]) if kind == "plan" else text


def filled_in_phrase(places: Sequence[str]) -> str:
    """Return the words for arguments that are not in the call as written; empty without any."""
    if not places:
        return ""
    named = ", ".join(one_line(place, NAME_CHARS) for place in places)
    return f"Filled in by a default or a hook: {named}"


def decision_phrase(decision: str, kind: Kind = "call") -> str:
    """Return the words for a decision on a question of this kind: `approved with changes`.

    The verdicts `happened`, `did_not_happen` and `give_up` have their words with any kind. A
    verdict of a newer version is returned as it is.
    """
    return _DECISIONS[kind].get(decision) or _OUTCOMES.get(decision) or clean(decision)


def decided_phrase(
    decided: Decided, kind: Kind = "call", *, you: str = "", unnamed: str = ""
) -> str:
    """Return the words for a decision, who made it, and whether a signature proves that.

    `approved by ada (signed)`; of an unknown outcome `it happened (ada, unverified)`. The author is
    `you` for the reader of that name, and `unnamed` without a name.
    """
    words = decision_phrase(decided.decision, kind)
    name = name_in_line(decided.by or "", NAME_CHARS)
    author = "you" if is_same_person(decided.by, you) else name or unnamed
    if kind == "reconcile":
        source = ", ".join(filter(None, (author, decided.proof)))
        return f"{words} ({source})" if source else words
    if author:
        words = f"{words.removesuffix(' by a person')} by {author}"
    return f"{words} ({decided.proof})" if decided.proof else words


def author_phrase(decided: Decided) -> str:
    """Return who decided: `ada (signed)`, `ada (unverified)`; empty without a name."""
    name = name_in_line(decided.by or "", NAME_CHARS)
    return f"{name} ({decided.proof})" if name else ""


def timeout_phrase(
    kind: Kind, on_timeout: str | None = None, *, is_single_call: bool = False
) -> str:
    """Return the outcome of an expired approval: `it is denied`, `the run fails`.

    Only calls and plans obey the `on_timeout` of their policy; a single call has no run to fail.
    """
    if is_single_call and kind in ("call", "input") and on_timeout == "fail":
        return "the call fails"
    return lapse_phrase({"reconcile": "give_up", "budget": "end"}.get(kind) or on_timeout or "deny")


def lapse_phrase(lapse: str) -> str:
    """Return the words for the `lapse` of a notification."""
    return _TIMEOUTS.get(lapse) or clean(lapse)
