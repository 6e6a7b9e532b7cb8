"""The texts of the page of a call: the effect of each decision, the approvers, the outcome.

The terms for decisions and timeouts are those of `runtime.narration.phrases`. No text here is
written by a model or a tool's author.
"""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.client.question_text import call_name, times_phrase
from holdfast.runtime.narration.arguments import arguments_in_line, fits_in_line, total_text
from holdfast.runtime.narration.phrases import decided_phrase
from holdfast.runtime.text_safety import format_argument, one_line
from holdfast.schemas.decision import Decided, Kind, PendingApproval, shown_calls
from holdfast.schemas.phrases import distinct_names
from holdfast.schemas.tool import ApprovalPolicy, ShownTool
from holdfast.validation.text_safety import is_same_person
from holdfast.web.auth.permissions import is_approver
from holdfast.web.auth.sessions import Person
from holdfast.web.call.history import CallStage, QuestionRound
from holdfast.web.page_text import budget_in_sentence, extended_limit, limit_reached

_GROUPS_CHARS: Final = 300
_NAME_CHARS: Final = 100
_BUTTON_CHARS: Final = 72
# Budgets whose use a provider may not report.
_REPORTED: Final = ("maxTokens", "maxCost")
_CONSEQUENCES: Final[Mapping[Kind, str]] = {
    "input": "Only a person can answer it.",
    "budget": "Without an extension the run ends; in a conversation, only the answer.",
    "principal_expired": "It starts when the run receives a new token of the same principal.",
}
_STAGES: Final[Mapping[CallStage, str]] = {
    "ready": "Not started yet.",
    "begun": "Running.",
    "done": "Executed.",
    "failed": "Failed: the error is below.",
    "settled": "",
}


def check_eligibility(
    approval: PendingApproval,
    policy: ApprovalPolicy | None,
    person: Person,
    principal: str | None,
    *,
    signs: bool,
) -> tuple[str, list[str]]:
    """Return why a person may not decide on a run of `principal`, if so, and the terms.

    The run checks it again. `policy` is the approval policy of the call, if known; `signs`: the
    inbox signs decisions for the person.
    """
    not_own = policy is not None and policy.not_by == "principal"
    is_own = is_same_person(person.name, principal)
    groups = one_line(distinct_names(approval.approvers, " or "), _GROUPS_CHARS)
    reason = ""
    if not is_approver(person, approval.approvers):
        own = one_line(distinct_names(person.groups), _GROUPS_CHARS)
        yours = f"Your groups: {own}." if own else "You are in no group."
        reason = f"Only members of {groups} can decide. {yours}"
    elif is_own and not_own:
        reason = "This run acts on your behalf, and its principal cannot decide."
    terms = [f"Anyone in {groups} can decide." if groups else "Anyone with access can decide."]
    if not_own:
        whom = f", {one_line(principal, _NAME_CHARS)}," if principal else ""
        terms.append(f"The principal of the run{whom} cannot decide.")
    if approval.quorum > 1:
        terms.append(f"{approval.quorum} people must approve; a single denial denies it.")
    if approval.signed:
        how = "the inbox signs yours" if signs else "add your token"
        terms.append(f"Decisions must be signed: {how}.")
    return reason, terms


def heading(approval: PendingApproval, agent: str | None) -> str:
    """Return the subject of a question: the call, the plan, or the limit."""
    if approval.kind == "plan":
        number = len(list(shown_calls(approval.arguments)))
        return f"A plan of {number} step{'' if number == 1 else 's'}"
    if approval.kind == "budget":
        return limit_reached(approval, agent)
    return f"{'Did it happen? ' * (approval.kind == 'reconcile')}{call_name(approval)}"


def consequence(approval: PendingApproval, tool: ShownTool | None) -> str:
    """Return the most important consequence of a decision, as a sentence; may be empty."""
    if approval.kind != "call" or tool is None:
        return _CONSEQUENCES.get(approval.kind, "")
    return "Once approved, it can’t be undone." if tool.side_effects else "It has no side effects."


def repetition(tool: ShownTool) -> str:
    """Return whether a call could be executed twice, as a sentence."""
    if not tool.side_effects:
        return "Its author declares that it has no side effects."
    if tool.idempotent:
        return "It is idempotent: after a failure it is retried."
    return "It is started once: if its result is lost, people are asked whether it happened."


def approve_button(
    approval: PendingApproval,
    tool: ShownTool | None = None,
    budget: Mapping[str, Any] | None = None,
    granted: Any = None,
) -> str:
    """Return the label of the button that approves: `Approve refund of €249.00`.

    Without an `effect` of the tool it names every value or none: a label with a part of them would
    look complete. For a limit, it names the limits after an approval: `Extend: calls from 5 to 10`.
    `budget` is that of the status of the run, `granted` the first limit.
    """
    if approval.kind == "budget":
        texts = []
        for name, limit in approval.arguments.items():
            use = (budget or {}).get(name) or {}
            used, total = use.get("used"), use.get("total", {}).get("limit")
            more = extended_limit(name, limit, used, granted) if total is None else None
            least = "at least " if used is None and name in _REPORTED else ""
            after = f"from {format_argument(limit)} to {least}{format_argument(more)}"
            if more is None:
                after = "by its first limit" + ("" if total is None else ", within the total")
            texts.append(f"{budget_in_sentence(name)} {after}")
        return f"Extend: {', '.join(texts)}"
    arguments, schema = approval.arguments, True if tool is None else tool.parameters
    line = arguments_in_line(arguments, schema, _BUTTON_CHARS)
    named = f"Approve: {' · '.join(filter(None, [call_name(approval), line]))}"
    label = f"Approve {approval.effect}" if approval.effect else named
    is_whole = approval.effect or all(map(fits_in_line, arguments.values()))
    return label if is_whole and len(label) <= _BUTTON_CHARS else "Approve as shown"


def again_button(approval: PendingApproval, tool: ShownTool | None) -> str:
    """Return the label of the button that runs a call again, with the number of the attempt.

    `Send a payment a third time: €1,200.00 · IBAN DE02120300000000202051`
    """
    schema = True if tool is None else tool.parameters
    line = approval.effect or arguments_in_line(approval.arguments, schema, _BUTTON_CHARS + 1)
    is_whole = approval.effect or all(map(fits_in_line, approval.arguments.values()))
    if not is_whole or len(line) > _BUTTON_CHARS:
        line = total_text([approval.amount]) or "as shown"
    return f"{call_name(approval)} {times_phrase(approval)}{': ' * bool(line)}{line}"


def limit_outcome(
    approval: PendingApproval, decided: Decided | None, last: Mapping[str, Any], now: Any
) -> str:
    """Return the outcome of a limit; `last` are the decided arguments, `now` the current limit."""
    if approval.kind != "budget" or decided is None or decided.decision not in ("approve", "edit"):
        return ""
    [(name, limit), *_] = approval.arguments.items()
    was = f"The limit of {budget_in_sentence(name)} was {format_argument(limit)}"
    if decided.decision == "edit":
        return f"{was}, and was set to {format_argument(last.get(name))}."
    if now is None:
        return f"{was}. It was extended by its first limit, and by what was used beyond it."
    return f"{was}, and is now {format_argument(now)}."


def decision_text(decided: Decided | None, kind: Kind, you: str) -> str:
    """Return a decision and its author: `Approved by you`, `It happened (grace, signed)`."""
    if decided is None:
        return "Withdrawn"
    words = decided_phrase(decided, kind, you=you, unnamed="a person")
    return f"{words[:1].upper()}{words[1:]}"


def outcome_text(question: QuestionRound, stage: CallStage) -> str:
    """Return the outcome after the decision, as a sentence; empty for a plan: see its steps."""
    kind = question.approval.kind
    if kind not in ("call", "input", "reconcile"):
        return ""
    verdict = question.verdict.decision if question.verdict else ""
    is_reconcile = kind == "reconcile"
    if is_reconcile and verdict in ("deny", "give_up"):
        return "It is not executed again, and its outcome stays unknown."
    if question.approval.form and verdict == "respond":
        return "The call is continued with the answer."
    if kind == "input":
        return "The answer is its result." if verdict == "respond" else "It has no answer."
    if verdict == "deny":
        return "Not executed."
    if verdict in ("respond", "happened"):
        return f"Not executed{' again' if is_reconcile else ''}: the answer is its result."
    if not verdict and stage == "failed":
        return "" if is_reconcile else "Not executed."
    return _STAGES[stage]
