"""The questions of a run to people: asked, decided, renewed and logged."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from holdfast.runtime.text_safety import clean
from holdfast.schemas.decision import Decided, Decision, Kind, Receipt
from holdfast.schemas.json_schema import example_json
from holdfast.schemas.log_entry import ConfirmationRequiredEntry, DecisionEntry
from holdfast.schemas.run import CallApprover, Principal
from holdfast.schemas.tool import EACH
from holdfast.validation.arguments import filled_in, unwrapped
from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.approvals.policy import (
    AppliedPolicy,
    applied_policies,
    combined_policy,
    required_policies,
)
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.approvals.rulings import Moved
from holdfast.workflows.engine.approvals.verdicts import DecisionRejected
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.execution.preparation import fit_edit
from holdfast.workflows.engine.run_state import RunState

MAX_FILLED_IN_SHOWN = 100

# The text of a question on a call, by kind.
_TEXTS: dict[Kind, str] = {
    "call": "Approval needed: run `{name}` with these arguments.",
    "input": "A person answers `{name}`: `respond` takes the answer as `result`, such as {message};"
    " `deny` gives none.",
    "reconcile": "{message}. Did it happen? `happened` takes the value that it returned as"
    " `result`, `did_not_happen` runs it again, `give_up` leaves it unknown.",
    "principal_expired": "The token of the run's principal has expired, so `{name}` is not started."
    " The update `renew` with a new token starts it, `deny` does not.",
}


class Questions:
    """The questions of one run, and which of them are on calls."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._of_calls: dict[str, Question] = {}
        # The edits after which people are asked by another rule.
        self._moved_by: dict[str, Decided] = {}

    def of(self, call: ToolCall) -> Question:
        """Return the question on a call whose approval is pending."""
        return self._of_calls[call.id]

    def close(self, call: ToolCall) -> None:
        self._of_calls.pop(call.id, None)

    def withdraw(self, call: ToolCall) -> None:
        """Close the question on a call, if there is one, without a ruling."""
        self.close(call)
        self._state.pending.withdraw(call.id)

    def policies(self, call: ToolCall, arguments: dict[str, Any] | None) -> list[AppliedPolicy]:
        """Return the policies of a call with these arguments; unknown ones are None."""
        if call.items:
            return _of_items(self.policies, call, arguments)
        state = self._state
        return applied_policies(call.tool, state.rules, arguments, state.limits.budget())

    def required_policies(
        self,
        call: ToolCall,
        arguments: dict[str, Any] | None,
        limits: ValidationLimits | None = None,
    ) -> list[AppliedPolicy]:
        """Return those of the policies by which the call needs an approval."""
        if call.items:
            return _of_items(partial(self.required_policies, limits=limits), call, arguments)
        state, limits = self._state, limits or self._state.limits
        remembered = state.pending.remembered
        return required_policies(call.tool, state.rules, arguments, limits, remembered)

    def remembered_approver(self, call: ToolCall) -> CallApprover | None:
        """Return who approved all calls like this one for the rest of the run, if people did."""
        if not (approvers := self._state.pending.approvers):
            return None
        keys = [one.key(call.name) for one in self.policies(call, call.arguments)]
        return approvers.get(keys[0]) if len(keys) == 1 else None

    def ask_about(self, turn: int, call: ToolCall, kind: Kind, message: str = "") -> None:
        """Add a question on a call; `message` is the reason why its outcome is unknown."""
        state, tool = self._state, call.tool
        applied, round_ = self.policies(call, call.arguments), len(call.decided.unknown_attempts)
        if kind == "call":
            applied = self.required_policies(call, call.arguments) or applied
        policy, has_rules = combined_policy(applied), bool(tool.approval_rules)
        if kind in ("principal_expired", "input"):
            is_fatal = kind == "input" and policy.on_timeout == "fail"
            update = {"on_timeout": "fail" if is_fatal else "deny", "quorum": 1}
            policy, round_ = policy.model_copy(update=update), max(1, round_)
        required = call.decided.mcp.required if kind == "input" else None
        text = ""
        if required is not None and tool.mcp is not None:
            text, round_ = required.question(tool.mcp.server, call.name), call.decided.mcp.forms
        elif kind == "input":
            message = example_json(tool.output)
        question = Question(
            call_id=call.id,
            turn=turn,
            kind=kind,
            tool=tool.name,
            label=call.label,
            arguments=call.arguments,
            reasoning=call.meta.reasoning,
            text=text or _TEXTS[kind].format(name=call.name, message=clean(message).rstrip(".")),
            policy=policy,
            requested_at=state.clock(),
            check_arguments=partial(fit_edit, call),
            principal=state.principal,
            instance=call.meta.instance,
            output=tool.output,
            form=None if required is None else required.schema_of_answer,
            filled_in=places_filled_in(call, call.arguments),
            parameters=tool.parameters,
            round=round_,
            attempts=[*call.decided.unknown_attempts] if kind == "reconcile" else [],
            applied=applied if has_rules else [],
            policies_of=partial(self.required_policies, call) if has_rules else None,
            moved_by=self._moved_by.pop(call.id, None) if kind == "call" else None,
        )
        self._of_calls[call.id] = question
        self.ask(question)

    def ask(self, question: Question) -> None:
        """Add a question, and count the decisions that arrived before it."""
        early = self._state.pending.add(question)
        self._log(question)
        for decision in early:
            self.count_or_log(decision)

    def forward(
        self, question: Question, now: datetime, limits: ValidationLimits | None = None
    ) -> None:
        """Apply the forwards that are due, and count the early decisions that these entitle.

        The checks have these limits, by default those of the run.
        """
        while question.ruling is None and (groups := question.take_forward(now)) is not None:
            self._log(question, groups)
            for decision in self._state.pending.take_early(question, have_tokens=False):
                self.count_or_log(decision, min(now, question.last_moment), limits)

    def end_or_remind(self, question: Question, now: datetime) -> None:
        """Let a question expire, or remind people of it, if that is due."""
        if question.expires_at <= now:
            self._state.pending.expire(question)
        elif question.take_reminder(now):
            self._log(question)

    def count(
        self, decision: Decision, at: datetime | None = None, limits: ValidationLimits | None = None
    ) -> Receipt:
        """Count a decision of this time, by default now; raise `DecisionRejected` with a reason.

        What is due before is applied before. Its checks have these limits, by default the run's.
        """
        state, call_id, at = self._state, decision.call_id, at or self._state.clock()
        if (open_question := state.pending.find_open(call_id)) is not None:
            self.forward(open_question, at, limits)
        question, decided = state.pending.count(decision, at, limits or state.limits)
        has_ruling = question.ruling is not None and not isinstance(question.ruling, Moved)
        if isinstance(question.ruling, Moved):
            self._moved_by[call_id] = decided
        missing = question.count_missing()
        state.log.append(
            DecisionEntry(
                call_id=call_id,
                decided=decided,
                arguments=decision.arguments,
                outcome="decided" if has_ruling else None,
            )
        )
        for other, same in state.pending.release_remembered(question, at):
            state.log.append(DecisionEntry(call_id=other, decided=same, outcome="decided"))
        verdict = decision.decision
        return Receipt(call_id=call_id, decision=verdict, decided=has_ruling, missing=missing)

    def count_or_log(
        self, decision: Decision, at: datetime | None = None, limits: ValidationLimits | None = None
    ) -> None:
        """Count a decision of a sender who gets no answer; log the reason if it is rejected."""
        try:
            self.count(decision, at, limits)
        except DecisionRejected as error:
            self.log_ignored(decision, str(error))

    def renew(self, principal: Principal, at: datetime | None = None) -> Principal:
        """Continue with a new token of the principal, of this time, or raise `TokenRejected`."""
        state = self._state
        renewed = state.renew(principal)
        for question, decided in state.pending.renew(renewed.id, at or state.clock()):
            entry = DecisionEntry(call_id=question.call_id, decided=decided, outcome="decided")
            state.log.append(entry)
        return renewed

    def log_ignored(self, decision: Decision, why: str) -> None:
        self._state.log.append(DecisionEntry(call_id=decision.call_id, ignored=why))

    def log_expiry(self, question: Question) -> None:
        self._state.log.append(DecisionEntry(call_id=question.call_id, outcome="expired"))

    def _log(self, question: Question, forwarded: Sequence[str] = ()) -> None:
        """Log the request, or a reminder of it, which is `forwarded` to these groups."""
        self._state.log.append(
            ConfirmationRequiredEntry(
                turn=question.turn,
                call_id=question.call_id,
                reminder=question.reminders,
                forwarded=[*forwarded],
                approval=question.to_pending_approval(),
            )
        )


def places_filled_in(call: ToolCall, arguments: dict[str, Any]) -> list[str]:
    """List the arguments that the model left out, at most `MAX_FILLED_IN_SHOWN`."""
    written = call.proposed.proposal.arguments
    if not call.proposed.is_literal:
        written = unwrapped(written, call.tool.parameters, call.name)
    shown = [item.arguments for item in call.open_items] if call.items else [arguments]
    places = (place for one in shown for place in filled_in(written, one))
    return list(islice(dict.fromkeys(places), MAX_FILLED_IN_SHOWN))


def _of_items(
    policies_of: Callable[[ToolCall, dict[str, Any]], list[AppliedPolicy]],
    call: ToolCall,
    arguments: dict[str, Any] | None,
) -> list[AppliedPolicy]:
    """Return the policies of the items of a loop with these arguments, each once."""
    pairs = zip(call.items, (arguments or call.arguments)[EACH], strict=True)
    found = (one for item, own in pairs if own is not None for one in policies_of(item, own))
    return [*{one.key(call.name): one for one in found}.values()]
