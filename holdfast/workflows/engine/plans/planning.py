"""Planning: the calls of one answer are a plan, and people decide on all of them at once.

    checked ─► approval requested ─► approved ─► running ─► (remainder) ─► continued, or discarded
       │            │                   │           │
       │            │                   │           └─ a message arrived: the rest is held back
       │            │                   └─ struck calls are denied, and others edited
       │            └─ denied, expired, or withdrawn because a message arrived
       └─ no approval needed: every call was refused, or all remain of an approved plan

A plan is checked as a whole: tools, known arguments, references, scopes and `_limits`. Then it is
one question under the strictest policy of its calls; without approvals it is denied. The approval
covers each call whose own policy the approvers satisfy, but no arguments that they have not seen:
those that a hook changed since, and later values of references that no bound of theirs allows.

A message is read before more calls start. An answer that has only remaining calls needs no new
approval; any other calls are a new plan; an answer without calls discards the remainder.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from typing import Any

from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Plan
from holdfast.schemas.names import ErrorCode, plan_id
from holdfast.schemas.phrases import first_names
from holdfast.schemas.reference import Path
from holdfast.schemas.tool import APPROVAL_DEFAULTS
from holdfast.validation.arguments import InvalidArguments
from holdfast.workflows.engine.approvals.policy import (
    AppliedPolicy,
    as_forwarded,
    satisfies,
    strictest_policy,
)
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.approvals.rulings import Approved, Denied, Expired
from holdfast.workflows.engine.call import outcomes
from holdfast.workflows.engine.call.activities import HookRequests
from holdfast.workflows.engine.call.states import ToolCall, Turn
from holdfast.workflows.engine.execution.dependency_graph import connect, visible_data
from holdfast.workflows.engine.execution.lifecycle import CallLifecycle
from holdfast.workflows.engine.execution.preparation import fit_arguments
from holdfast.workflows.engine.execution.questions import Questions, places_filled_in
from holdfast.workflows.engine.plans.approved_plan import ApprovedPlan, Keys
from holdfast.workflows.engine.plans.plan import (
    check_known_arguments,
    edit_plan,
    find_unrunnable,
    format_output_path,
    is_unseen,
    plan_json,
    unstarted,
)
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.data import MISSING, MissingValue, VisibleData, is_same_json
from holdfast.workflows.engine.state.references import Unresolved, resolve

STRUCK = "a person struck this call out of the plan"
MAX_REFUSED_NAMED = 20

_TEXT = (
    "Approval needed for all of these calls. `approve` runs them, `edit` takes `calls`, with other"
    " arguments and without the calls to strike out, `deny` runs none."
)
_UNASKED = "this run does not wait for approvals, and a plan needs one"


class Planning:
    """The plans of one run, one after the other."""

    def __init__(self, state: RunState, calls: CallLifecycle, questions: Questions) -> None:
        self._state = state
        self._calls = calls
        self._questions = questions
        self.approved = ApprovedPlan()

    def check(self, turn: Turn) -> HookRequests[None]:
        """Refuse the calls that can never run, and log all of them."""
        yield from self._calls.check(turn.number, turn.calls, is_sequential=turn.is_sequential)
        for call in unstarted(turn.calls):
            refused = self._calls.missing_scope(call)
            try:
                if refused is None and call.is_pending:
                    check_known_arguments(call, self._state, self._state.limits)
            except InvalidArguments as error:
                refused = outcomes.refuse(ErrorCode.INVALID_ARGUMENTS, str(error))
            if refused is not None:
                self._refuse([call], refused.error.code, refused.error.message)
        for call, why in find_unrunnable(turn, turn.calls, self._state, _is_refused).items():
            self._refuse([call], why.error.code, why.error.message)

    def ask(self, turn: Turn) -> Question | None:
        """Request approval of a checked plan; return None if none is needed."""
        calls = unstarted(turn.calls)
        if not calls or turn.stop_message is not None or self._take_up(calls):
            return None
        self.approved.discard()
        if not self._state.asks_people:
            self._refuse(calls, ErrorCode.DENIED, _UNASKED)
            return None
        question = self._question_on(turn, calls)
        self._questions.ask(question)
        return question

    def apply_ruling(self, turn: Turn, question: Question) -> None:
        """Apply the ruling on the plan; without one, withdraw the question."""
        calls = unstarted(turn.calls)
        match question.ruling:
            case Approved(arguments, edited_by):
                self._edit(turn, Plan.model_validate(arguments), edited_by)
                self._approve(calls, question)
            case Denied(reason):
                message = reason or "A person denied the plan."
                self._refuse(calls, ErrorCode.DENIED, message)
            case Expired():
                self._expire(turn, calls, question)
            case _:
                self._state.pending.withdraw(question.call_id)

    def hold_back(self, calls: Sequence[ToolCall]) -> None:
        """End calls because a message arrived; approved ones stay in the plan's remainder."""
        calls = [call for call in calls if not call.has_ended]
        approved = [call for call in calls if call in self.approved.calls]
        self.approved.hold(identity_keys(approved, self._state, self.approved.held))
        self._refuse(calls, ErrorCode.CANCELLED, outcomes.HELD_BACK)

    def _take_up(self, calls: Sequence[ToolCall]) -> bool:
        """Continue with calls that all remain of the approved plan; return whether this applies."""
        left, taken = self.approved.left, dict[ToolCall, ToolCall]()
        for call, key in identity_keys(calls, self._state).items():
            old = next((old for old in left if self.approved.held[old] == key), None)
            if old is None:
                return False
            left.remove(old)
            taken[old] = call
        for old, call in taken.items():
            was = old.prepared
            is_approved = was.is_approved and was.bound is None
            call.revise(call.prepared.covered(is_approved=is_approved, approver=was.approver))
        self.approved.take_up(taken)
        return True

    def _question_on(self, turn: Turn, calls: Sequence[ToolCall]) -> Question:
        count = "1 call" if len(calls) == 1 else f"{len(calls)} calls"
        text, refusals = _TEXT, [call.id for call in turn.calls if _is_refused(call)]
        if refusals:
            named = first_names(refusals, MAX_REFUSED_NAMED)
            text = f"{text} Refused already, and no part of it: {named}."
        # A call that would need no approval has the policy of the agent.
        agents = [AppliedPolicy(self._state.rules.approval.over(APPROVAL_DEFAULTS))]
        applied = [
            one
            for call in calls
            for one in self._questions.required_policies(call, _checkable_arguments(call)) or agents
        ]
        question = Question(
            call_id=plan_id(turn.number),
            turn=turn.number,
            kind="plan",
            tool="plan",
            label=f"plan of {count}",
            arguments=plan_json(calls, sequential=turn.is_sequential),
            filled_in=[
                f"{call.id} {place}"
                for call in calls
                for place in places_filled_in(call, call.known_arguments)
            ],
            reasoning=None,
            text=text,
            policy=strictest_policy([one.policy for one in applied]),
            applied=[*{one.rule.key: one for one in applied if one.rule is not None}.values()],
            requested_at=self._state.clock(),
            check_arguments=lambda edited, limits: edit_plan(
                turn, self._state, question.arguments, edited, limits
            ),
            principal=self._state.principal,
        )
        return question

    def _edit(self, turn: Turn, plan: Plan, edited_by: str | None) -> None:
        arguments_by_call = {call.id: call.arguments for call in plan.calls}
        bounds = {call.id: call.bound for call in plan.calls}
        for call in unstarted(turn.calls):
            call.revise(replace(call.prepared, bound=bounds.get(call.id)))
            arguments = arguments_by_call.get(call.id)
            if arguments is None:
                self._refuse([call], ErrorCode.DENIED, STRUCK)
            elif not is_same_json(arguments, call.known_arguments):
                self._calls.edit(call, arguments, edited_by)
        connect(turn.calls, is_sequential=turn.is_sequential)

    def _approve(self, calls: Sequence[ToolCall], question: Question) -> None:
        self.approved.replace(calls)
        by, state = question.agreeing_decisions(), self._state
        # A person's changes are shown at the plan.
        decision = question.decision_text.replace("approved with changes", "approved")
        for call in unstarted(calls):
            applied = self._questions.policies(call, _checkable_arguments(call))
            policies = as_forwarded(applied, question.policy, question.forwards)
            is_covered = all(satisfies(policy, by, state.principal) for policy in policies)
            if is_covered and is_unseen(call):
                is_signed = any(policy.signed for policy in policies)
                is_covered = call.prepared.bound is not None and not is_signed
            by_people = call.prepared.covered(is_approved=is_covered, approver=question.approver)
            call.revise(replace(by_people, decision=decision))

    def _expire(self, turn: Turn, calls: Sequence[ToolCall], question: Question) -> None:
        self._questions.log_expiry(question)
        if question.policy.on_timeout == "approve":
            self._edit(turn, Plan.model_validate(question.arguments), question.edited_by)
            self.approved.replace(calls)
            for call in unstarted(calls):
                # Arguments that a person has edited may be those of a stricter rule.
                own = self._questions.required_policies(call, _checkable_arguments(call))
                is_covered = all(one.policy.on_timeout == "approve" for one in own)
                is_covered = is_covered and not is_unseen(call)
                call.revise(call.prepared.covered(is_approved=is_covered))
            return
        message = "the approval of the plan expired"
        self._refuse(calls, ErrorCode.APPROVAL_TIMEOUT, message)
        if question.policy.on_timeout == "fail":
            self._state.request_end(message)

    def _refuse(self, calls: Sequence[ToolCall], code: ErrorCode, message: str) -> None:
        for call in calls:
            self._calls.refuse(call, code, message)


def _checkable_arguments(call: ToolCall) -> dict[str, Any] | None:
    return None if call.is_pending else call.arguments


def _is_refused(call: ToolCall) -> bool:
    return isinstance(call.outcome, outcomes.Refused)


def identity_keys(
    calls: Sequence[ToolCall], state: RunState, others: Keys | None = None
) -> dict[ToolCall, str | None]:
    """Add to `others` the key of each call that has not started; None if it is not known.

    A call with another effect has another key. A reference counts as its value, or, to a place that
    a remaining call will write, as that call and the value that it would extend.
    """
    keys, members = dict(others or {}), set(calls)
    order = {call: [one for one in call.dependencies.sources if one in members] for call in calls}
    for call in TopologicalSorter(order).static_order():
        waits = [keys[source] for source in call.dependencies.sources if source in keys]
        arguments = _known_arguments(call, state, keys)
        meant = {
            "tool": call.name,
            "arguments": arguments,
            "waits": waits,
            "instance": call.meta.instance,
            "writes": format_output_path(call.meta.output_path),
            "method": call.meta.output_method,
            "scopes": call.meta.scopes,
        }
        is_known = arguments is not None and None not in waits
        keys[call] = sha256(canonical_json(meant)) if is_known else None
    return keys


def _known_arguments(call: ToolCall, state: RunState, keys: Keys) -> dict[str, Any] | None:
    if not call.is_pending:
        return call.arguments
    if call.is_loop:
        return None
    awaited = [source for source in call.dependencies.sources if source in keys]
    seen, by = visible_data(call, state.data), [(source, str(keys[source])) for source in awaited]
    seen = _Seen(seen.data, seen.void, by)
    try:
        resolved = call.prepared.raw_arguments
        if not call.prepared.is_literal:
            resolved = resolve(resolved, seen, call.meta.instance)
        return resolved if awaited else fit_arguments(call.tool, resolved, state.limits)
    except (Unresolved, InvalidArguments):
        return None


@dataclass
class _Seen(VisibleData):
    """The data that a call reads; for places that calls have yet to write, their keys."""

    awaited: list[tuple[ToolCall, str]] = field(default_factory=list)

    def read(self, path: Path) -> Any | MissingValue:
        """Return the value at a path, or the calls that will write it."""
        by = [
            key
            for source, key in self.awaited
            if any(place.overlaps(path) for place in source.places)
        ]
        if not by:
            return super().read(path)
        over = self.data.read(path)
        return {"path": str(path), "by": by, "over": None if over is MISSING else over}
