"""The words for decisions, questions and timeouts, the same on every surface.

A surface (terminal, inbox, Temporal UI, HTTP, notification, log) takes its words from these tables
and has no words of its own for the same thing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from holdfast.runtime.text_safety import clean, format_date, name_in_line, one_line, read_time
from holdfast.schemas.decision import AppliedRule, Decided, Kind, PendingApproval, Verdict
from holdfast.schemas.internal.absences import Absence
from holdfast.schemas.log_entry import SkillChooser
from holdfast.schemas.phrases import distinct_names
from holdfast.schemas.run import Fork
from holdfast.validation.text_safety import is_same_person

NAME_CHARS: Final = 80
_BUDGET_CHARS: Final = 60

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

Surface = Literal["terminal", "markdown", "page", "row", "message"]

TERMS: Final[Mapping[Surface, Mapping[str, str]]] = {
    "terminal": {
        "rule": "rule: {}",
        "approvers": "decided by {}",
        "signed": "only signed decisions are accepted",
        "quorum": "{} people must agree",
    },
    "markdown": {
        "rule": "Rule: {}.",
        "approvers": "Only these groups decide: {}.",
        "signed": "Only signed decisions are accepted: with a `token` of the approver.",
        "quorum": "{} people must agree.",
    },
    "page": {
        "rule": "Rule: {}.",
        "approvers": "Anyone in {} can decide.",
        "anyone": "Anyone with access can decide.",
        "principal": "The principal of the run{} cannot decide.",
        "quorum": "{} people must approve; a single denial denies it.",
        "signing": "Decisions must be signed: {}.",
    },
    "row": {"rule": "rule: {}", "quorum": "{} people must approve"},
    "message": {
        "approvers": "members of {}",
        "anyone": "any user of the inbox",
        "quorum": "{} approvals needed",
        "signed": "only signed decisions are accepted",
    },
}
"""By which rule and who decides, as each surface states it, in its order."""

BUDGETS: Final = {
    "maxIterations": "Rounds of calls",
    "maxTurns": "Requests to the model",
    "maxCalls": "Calls",
    "maxDuration": "Time at work",
    "maxTokens": "Tokens",
    "maxCost": "Cost",
    "maxSameTool": "Calls of one tool in a row",
    "maxDepth": "Levels of delegates",
}
"""The names of budgets for people."""

MEMBERS_ONLY: Final = "Only members of {} can decide."
"""Why a person in none of the groups cannot decide."""

CONSEQUENCES: Final = ("It has no side effects.", "Once approved, it can’t be undone.")
"""What a person should know first of a call, without and with side effects."""

EFFECTS: Final = (
    "approve: it runs · deny: it does not run, and the model reads your reason · edit: it runs"
    " with your arguments · respond: your answer is its result"
)
"""What each decision on a call does."""

OTHERWISE: Final = (
    " Instead of `approve`, send `deny` (with a `reason`), `edit` (with all `arguments`) or"
    " `respond` (with a `result`)."
)
"""The other decisions on a call, below its instructions in Temporal's UI."""

REPETITION: Final = (
    "Its author declares that it has no side effects.",
    "It is idempotent: after a failure it is retried.",
    "It is started once: if its result is lost, people are asked whether it happened.",
)
"""Whether a call could be executed twice: without side effects, idempotent, and otherwise."""

BUTTONS: Final = {"approve": "Approve", "deny": "Deny", "edit": "Approve with changes"}
"""What decides on a call in Slack, where it has no words of its own."""

REVIEW: Final = "Review and decide"
"""The link to a question."""

SEE_ALL: Final = "see holdfast approvals --json"
"""Where a terminal shows what it has cut."""


@dataclass(frozen=True)
class Choice:
    """A choice of a question: its key, its label with the key marked, its verdict.

    `synonyms` are further ways to type it. Without a verdict the question is skipped. One that
    `strikes` edits a plan by naming the calls that are left out.
    """

    key: str
    label: str
    verdict: Verdict | None
    synonyms: tuple[str, ...] = ()
    strikes: bool = False

    def means(self, answer: str) -> bool:
        return answer in (self.key, self.label.replace("[", "").replace("]", ""), *self.synonyms)


# The run's own text for a plan, from here on, has what the heading does not have.
REFUSED_CALLS: Final = "Refused already"
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
_SKIP: Final = Choice("s", "[s]kip", None)
_APPROVE: Final = Choice("a", "[a]pprove", "approve", ("y", "yes"))
_DENY: Final = Choice("d", "[d]eny", "deny", ("n", "no"))
_EDIT: Final = Choice("e", "[e]dit", "edit")
_RESPOND: Final = Choice("r", "[r]espond", "respond")
_STRIKE: Final = Choice("k", "stri[k]e calls out", "edit", ("strike",), strikes=True)
_DENY_COMMAND: Final = "deny --reason 'YOUR REASON'"


@dataclass(frozen=True)
class QuestionWords:
    """The words of a kind of question; the defaults are those of a call.

    `request` heads it, `choices` are those of a terminal, in order, and `commands` the verdicts of
    `holdfast decide` that are offered elsewhere. `logged` is its word in a log, `badge` its mark in
    a list, by default the request; `open_it` is why it is not decided there. `consequence` is
    what a person should know first, `answer` what a terminal requests as a result, `deny` the
    button of a page.
    """

    request: str = "Approval needed"
    choices: tuple[Choice, ...] = (_APPROVE, _DENY, _EDIT, _RESPOND, _SKIP)
    commands: tuple[str, ...] = ("approve", _DENY_COMMAND)
    decisions: Mapping[str, str] = field(default_factory=lambda: _APPROVALS)
    logged: str = "approval requested"
    badge: str | None = None
    open_it: str = ""
    consequence: str = ""
    answer: str = "Your answer in place of the result"
    deny: str = "Deny"


QUESTIONS: Final[Mapping[Kind, QuestionWords]] = {
    "call": QuestionWords(badge=""),
    "input": QuestionWords(
        "Answer needed",
        (Choice("r", "[r]espond", "respond", ("a", "answer")), _DENY, _SKIP),
        ("respond --result {answer}", _DENY_COMMAND),
        logged="answer requested",
        open_it="Open it to answer it.",
        consequence="Only a person can answer it.",
        answer="Your answer",
    ),
    "plan": QuestionWords(
        "Approval of a plan needed",
        (_APPROVE, _DENY, _STRIKE, _EDIT, _SKIP),
        ("approve", "approve --strike CALL", _DENY_COMMAND),
        badge="plan",
        open_it="Open it to see the steps.",
        deny="Deny the plan",
    ),
    "reconcile": QuestionWords(
        "Outcome unknown",
        (
            Choice("h", "it [h]appened", "happened", ("y", "yes", "happened")),
            Choice("r", "it did not happen, [r]un it again", "did_not_happen", ("n", "no", "c")),
            Choice("g", "[g]ive up", "give_up"),
            _SKIP,
        ),
        ("happened --result 'null'", "did_not_happen", "give_up"),
        _OUTCOMES,
        open_it="Open it to decide what happened.",
        answer="What it returned",
    ),
    "budget": QuestionWords(
        "Budget limit reached",
        (
            Choice("e", "[e]xtend", "approve", ("a", "approve", "y", "yes")),
            Choice("l", "set the [l]imit", "edit"),
            Choice("n", "do [n]ot extend", "deny", ("d", "deny", "no", "f")),
            _SKIP,
        ),
        ("approve", "deny"),
        {"approve": "extended", "edit": "limit changed", "deny": "not extended"},
        open_it="Open it to see the budget.",
        deny="Do not extend",
        consequence="Without an extension the run ends; in a conversation, only the answer.",
    ),
    "principal_expired": QuestionWords(
        "New token needed",
        (_DENY, _SKIP),
        (_DENY_COMMAND,),
        {"approve": "token renewed", "deny": "denied"},
        logged="token expired",
        badge="token of the principal expired",
        open_it="Open it to see how to renew the token.",
        consequence="It starts when the run receives a new token of the same principal.",
    ),
}

# An item of a loop that does not run: it was refused, or a person left it out.
NOT_RUN: Final = "not run"
_TIMEOUTS: Final[Mapping[str, str]] = {
    "deny": "it is denied",
    "fail": "the run fails",
    "approve": "it runs without an approval",
    "give_up": "its outcome stays unknown",
    "end": "it is not extended",
}


def rule_phrase(rule: AppliedRule) -> str:
    """Return which calls a rule is for; without words, its place in its list: `number 2`."""
    return clean(rule.description or (f"number {rule.number}" if rule.number else "no rule fits"))


def budget_phrase(name: str, *, starts: bool = False) -> str:
    """Return a budget within a sentence, or where one `starts`: `cost`."""
    label = BUDGETS.get(name) or one_line(name, _BUDGET_CHARS)
    return label if starts else f"{label[:1].lower()}{label[1:]}"


def items_phrase(items: Sequence[Any] | None) -> str:
    """Return how many items of a loop are to run: `, 3 items`; empty without a loop."""
    if items is None:
        return ""
    number = sum(one is not None for one in items)
    return f", {number} item{'' if number == 1 else 's'}"


def subject_phrase(kind: Kind, name: str) -> str:
    """Return a pending call in a list: its name, and its kind if it needs more than yes or no.

    `Did it happen? Refund an order`
    """
    if kind in ("call", "plan"):  # the label of a plan is `plan of 3 calls`
        return name
    return f"Did it happen? {name}" if kind == "reconcile" else f"{QUESTIONS[kind].request}: {name}"


def decision_phrase(decision: str, kind: Kind = "call") -> str:
    """Return the words for a decision on a question of this kind: `approved with changes`.

    The verdicts `happened`, `did_not_happen` and `give_up` have their words with any kind. A
    verdict of a newer version is returned as it is.
    """
    return QUESTIONS[kind].decisions.get(decision) or _OUTCOMES.get(decision) or clean(decision)


def decided_phrase(
    decided: Decided, kind: Kind = "call", *, you: str = "", unnamed: str = ""
) -> str:
    """Return the words for a decision, who made it, and whether a signature proves that.

    `approved by ada (signed)`; of an unknown outcome `it happened (ada, unverified)`. The author is
    `you` for the reader of that name, and `unnamed` without a name.
    """
    words, author = decision_phrase(decided.decision, kind), _author(decided, you) or unnamed
    if kind == "reconcile":
        source = ", ".join(filter(None, (author, decided.proof)))
        return f"{words} ({source})" if source else words
    if author:
        words = f"{words.removesuffix(' by a person')} by {author}"
    return f"{words} ({decided.proof})" if decided.proof else words


def decision_text(decided: Decided | None, kind: Kind, you: str) -> str:
    """Return a decision and its author: `Approved by you`, `It happened (grace, signed)`."""
    if decided is None:
        return "Withdrawn"
    words = decided_phrase(decided, kind, you=you, unnamed="a person")
    return f"{words[:1].upper()}{words[1:]}"


def author_phrase(decided: Decided) -> str:
    """Return who decided: `ada (signed)`, `ada (unverified)`; empty without a name."""
    name = _author(decided)
    return f"{name} ({decided.proof})" if name else ""


def _author(decided: Decided, you: str = "") -> str:
    """Return who decided, and as whose substitute: `bob for ada`."""
    people = (decided.by or "", *decided.on_behalf_of)
    shown = ["you" if is_same_person(one, you) else name_in_line(one, NAME_CHARS) for one in people]
    represented = distinct_names(filter(None, shown[1:]))
    return f"{shown[0]} for {represented}" if shown[0] and represented else shown[0]


def claim_phrase(one: PendingApproval, now: datetime, you: str = "") -> str:
    """Return who has a claim on a pending call: `ada is looking at this until 14:32 UTC`.

    Empty without one, and once it has ended. No signature proves it, also where decisions have one.
    """
    until = read_time(one.claim.until) if one.claim else None
    if one.claim is None or until is None or until <= now:
        return ""
    name = f"{name_in_line(one.claim.by, NAME_CHARS)}{' (unverified)' * one.signed} is"
    who = "you are" if is_same_person(one.claim.by, you) else name
    return f"{who} looking at this until {until:%H:%M} UTC"


def away_phrase(one: Absence) -> str:
    """Return who is away, and until when: `ada, who is away until 2026-03-09 00:00 UTC`."""
    until = format_date(one.away and one.away.until)
    return f"{name_in_line(one.person, NAME_CHARS)}, who is away until {until}"


def substitute_phrase(one: Absence) -> str:
    """Return the substitute of a person: `bob for ada, who is away until …`."""
    to = one.away.to if one.away else ""
    return f"{name_in_line(to, NAME_CHARS)} for {away_phrase(one)}"


def timeout_phrase(
    kind: Kind, on_timeout: str | None = None, *, is_single_call: bool = False
) -> str:
    """Return the outcome of an expired approval: `it is denied`, `the run fails`.

    Only calls and plans obey the `on_timeout` of their policy; a single call has no run to fail.
    """
    if is_single_call and kind in ("call", "input") and on_timeout == "fail":
        return "the call fails"
    return lapse_phrase({"reconcile": "give_up", "budget": "end"}.get(kind) or on_timeout or "deny")


def ordinal(number: int) -> str:
    """Return `second`, `third`, `4th`; what is first has no number."""
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def fork_phrase(fork: Fork) -> str:
    """Return the run and the turn that a fork begins with: `order-7 at turn 2`."""
    at = "" if fork.turn is None else f" at turn {fork.turn}"
    return f"{one_line(fork.run, NAME_CHARS)}{at}"


def lapse_phrase(lapse: str) -> str:
    """Return the words for the `lapse` of a notification."""
    return _TIMEOUTS.get(lapse) or clean(lapse)
