"""The lifecycle of the calls of a turn: from a proposal to one outcome each.

`action` returns what a call does next, and changes nothing. The other methods are what happens to
calls: `check_and_start` all of them; `resume` or `start` one that waited for others; `apply_ruling`
and `apply_outcome`; `cancel` and `refuse`. Log entries are in source order.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, assert_never

from holdfast.schemas import log_entry
from holdfast.schemas.base import rfc3339
from holdfast.schemas.decision import Kind
from holdfast.schemas.internal.mcp_input import McpInputRequired
from holdfast.schemas.names import CHOOSE_SKILL, ErrorCode
from holdfast.workflows.engine import skills
from holdfast.workflows.engine.approvals.policy import is_within
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.approvals.rulings import (
    AnsweredByPerson,
    Approved,
    Denied,
    Expired,
    Moved,
    Ruling,
)
from holdfast.workflows.engine.call import activities, outcomes
from holdfast.workflows.engine.call.states import CallEvent, CallStage, ToolCall, Turn
from holdfast.workflows.engine.execution import dependency_graph, loops, preparation
from holdfast.workflows.engine.execution.questions import Questions
from holdfast.workflows.engine.model.latent_calls import proposed_result
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.data import VisibleData, is_same_json

# The forms of one call of an MCP server's tool.
MAX_FORMS = 20


@dataclass(frozen=True)
class AwaitCalls:
    """Wait until other calls of the turn are over; the call itself may be decided already."""

    are_over: Callable[[], bool]
    is_decided: bool


# A question waits for its ruling.
Action = AwaitCalls | Question | Literal["execute", "execute items", "publish"]


class CallLifecycle:
    """The calls of one run's turns."""

    def __init__(self, state: RunState, questions: Questions) -> None:
        self._state = state
        self._questions = questions

    def action(self, call: ToolCall) -> Action | None:
        """Return what a call does next; None if only its turn can finish it."""
        match call.stage:
            case CallStage.PROPOSED | CallStage.PENDING if call.proposed.is_item:
                return "execute"  # it starts when it has its slot
            case CallStage.PENDING:
                return AwaitCalls(lambda: call.is_decidable, is_decided=False)
            case CallStage.WAITING | CallStage.UNSURE:
                return self._questions.of(call)
            case CallStage.QUEUED:
                return AwaitCalls(lambda: not call.open_dependencies, is_decided=True)
            case CallStage.RUNNING:
                return "execute items" if call.items else "execute"
        is_needed = call.dependencies.has_dependents and not call.result_published
        return "publish" if is_needed else None

    def check_and_start(self, turn: Turn, calls: list[ToolCall]) -> activities.HookRequests[None]:
        """Refuse, postpone or start the calls of a turn, or ask people about them.

        All calls are logged first, then the questions, then the starts. A plan is checked already.
        """
        if not turn.is_plan:
            yield from self.check(turn.number, calls)
        if turn.stop_message is not None:
            for call in calls:
                if not call.has_ended:
                    self.cancel(call, "the run ended before this call")
        proposed = [call for call in calls if call.stage is CallStage.PROPOSED]
        self._ask_or_start(turn.number, proposed)

    def check(
        self, turn: int, calls: list[ToolCall], *, is_sequential: bool = False
    ) -> activities.HookRequests[None]:
        """Refuse the calls that cannot run, and log all; resolve only a sequential turn's first."""
        room = preparation.MAX_REFERENCES_IN_TURN
        for call in calls:
            yield from self._end_if_refused(call, preparation.prepare(call, self._state, room))
            room -= call.prepared.reference_count
        if len(calls) > 1:  # no call depends on itself
            dependency_graph.connect(calls, is_sequential=is_sequential)
            # A call that only writes after one in a cycle of references is not in that cycle.
            for by_references in (True, False):
                for call, cycle in dependency_graph.find_cycles(
                    calls, by_references=by_references
                ).items():
                    message = f"circular references: {cycle}; none of these calls is run"
                    self.refuse(call, ErrorCode.UNRESOLVED_REFERENCE, message)
        for index, call in enumerate(calls):
            if not call.has_ended:
                is_ready = call.is_decidable and not (is_sequential and index)
                yield from self._end_if_refused(call, self._complete(call, is_ready=is_ready))
            is_refused = isinstance(call.outcome, outcomes.Refused)
            arguments = call.proposed.proposal.arguments if is_refused else call.known_arguments
            self._state.log.append(
                log_entry.ToolCallEntry(
                    turn=turn,
                    call_id=call.id,
                    tool=call.name,
                    label=call.proposed.tool.label if call.proposed.tool is not None else None,
                    arguments=arguments,
                    reasoning=call.meta.reasoning,
                    waits_for=[other.id for other in call.open_dependencies],
                    instance=call.meta.instance,
                )
            )
        for call in calls:
            if call.is_pending and not call.is_decidable:
                why = dependency_graph.explain_unresolvable(call, self._state.data)
                if why is not None:
                    self.refuse(call, ErrorCode.UNRESOLVED_REFERENCE, why)

    def resume(self, turn: int, call: ToolCall) -> activities.HookRequests[None]:
        """Decide on a pending call, once the calls that it needs have ended."""
        yield from self._end_if_refused(call, self._complete(call, is_ready=True))
        if call.is_pending:
            self._ask_or_start(turn, [call])

    def start(self, turn: int, call: ToolCall) -> None:
        """Start a call, if the principal holds its scopes now; end it if it has its result."""
        if call.open_dependencies:
            call.move(CallEvent.ENQUEUED, call.decided)
            return
        if self.withhold(turn, call):
            return
        call.move(CallEvent.STARTED, replace(call.decided, started_at=rfc3339(self._state.clock())))
        self._state.log.append(
            log_entry.ToolStartEntry(
                turn=turn,
                call_id=call.id,
                tool=call.name,
                arguments=call.arguments if call.prepared.resolved_late else None,
                delegate=None if call.items else call.tool.delegate,
            )
        )
        for item in call.open_items:
            loops.cover(item, call.prepared)
        if call.name == CHOOSE_SKILL and not call.prepared.is_literal:  # a skill may have this name
            call.end(skills.answer(call))
        elif call.tool.latent and (answer := proposed_result(call, self._state.limits.budget())):
            call.end(answer)

    def missing_scope(self, call: ToolCall) -> outcomes.Refused | None:
        """Return the refusal of a call whose principal lacks a scope that the tool requires."""
        missing = [scope for scope in call.tool.requires if scope not in self._state.scopes()]
        if not missing:
            return None
        whose = f"the scope {', '.join(missing)}, which this run does not have"
        return outcomes.refuse(ErrorCode.TOKEN_SCOPE_INSUFFICIENT, f"`{call.name}` needs {whose}")

    def withhold(self, turn: int, call: ToolCall) -> bool:
        """Withhold a call whose principal lacks a scope, or a valid token; return if this applies.

        `start` checks this, and so does the moment of the command: a call may wait for its slot.
        """
        if call.tool.requires and (refused := self.missing_scope(call)) is not None:
            self.end_unstarted(call, refused)
            return True
        principal, now = self._state.principal, self._state.clock()
        until = None if principal is None else principal.expires_at
        if until is None or until > now or not (call.tool.side_effects or call.tool.requires):
            return False
        if self._state.asks_people:
            self._ask(turn, call, "principal_expired")
        else:
            message = "the principal's token has expired, and this run does not wait for a new one"
            self.refuse(call, ErrorCode.DENIED, message)
        return True

    def refuse_without_time(self, call: ToolCall) -> bool:
        """Refuse a call that would start after the run's time; return whether this applies."""
        has_time = not self._state.meter.out_of_time
        if has_time or call.decided.has_run or self.doubt_after_reset(call):
            return False
        self.refuse(call, ErrorCode.BLOCKED, "nothing is left of the run's `maxDuration` for it")
        return True

    def apply_ruling(self, turn: int, call: ToolCall) -> None:
        """Apply the ruling on a call's question; without one, the run ends."""
        ruling = (question := self._questions.of(call)).ruling
        if ruling is None:
            self.cancel(call, "the run ended before a decision")
            return
        self._questions.close(call)
        if isinstance(ruling, Expired):
            self._questions.log_expiry(question)
        is_approval = isinstance(ruling, Approved) and question.kind != "principal_expired"
        approver = question.approver if is_approval else call.prepared.approver
        call.revise(replace(call.prepared, approver=approver, decision=question.decision_text))
        if isinstance(ruling, Moved):
            self.edit(call, ruling.arguments, ruling.edited_by)
            if not call.is_pending:
                self._ask_or_start(turn, [call])
        elif question.form is not None and isinstance(ruling, AnsweredByPerson):
            mcp = call.decided.mcp.answered(ruling.result, may_repeat=not call.tool.once)
            call.revise(replace(call.decided, mcp=mcp))
            self.start(turn, call)
        elif question.kind == "reconcile":
            self._reconcile(turn, call, ruling)
        else:
            self._decide(turn, call, ruling, question)

    def edit(self, call: ToolCall, arguments: dict[str, Any], edited_by: str | None) -> None:
        """Set a person's arguments; a call is pending until its hooks `_before` have seen them."""
        call.edit(arguments, edited_by)
        for item, own in loops.edited_items(call):
            if own is None:
                self.refuse(item, ErrorCode.DENIED, loops.LEFT_OUT)
            else:
                self.edit(item, own, edited_by)
        has_guards = bool(activities.hook_activities(call, self._state.rules, "before"))
        has_guards |= any(item.is_pending for item in call.open_items)
        if not call.is_pending and has_guards:
            call.move(CallEvent.POSTPONED, replace(call.prepared, resolved_late=True))

    def _decide(self, turn: int, call: ToolCall, ruling: Ruling, question: Question) -> None:
        if isinstance(ruling, Expired) and question.policy.on_timeout == "approve":
            # What the question showed: fewer people than its quorum may have edited it.
            ruling = Approved(question.arguments, question.edited_by)
        match ruling:
            case Approved(arguments, edited_by):
                if edited_by is not None:
                    self.edit(call, arguments, edited_by)
                if call.is_pending:
                    call.revise(call.prepared.covered(is_approved=True))
                else:
                    self.start(turn, call)
            case Denied(reason):
                self.refuse(call, ErrorCode.DENIED, reason or "A person denied this call.")
            case AnsweredByPerson(result):
                # Of a tool that people alone answer, each answer counts.
                end = call.end if call.tool.person else partial(self.end_unstarted, call)
                end(outcomes.Answered(result))
            case Expired():
                message = f"the approval of `{call.name}` expired"
                if question.kind == "input":
                    message = f"`{call.name}` got no answer in time"
                self.refuse(call, ErrorCode.APPROVAL_TIMEOUT, message)
                if question.policy.on_timeout == "fail":
                    self._state.request_end(message)
            case _:
                assert_never(ruling)

    def _reconcile(self, turn: int, call: ToolCall, ruling: Ruling) -> None:
        message = "whether it took effect is unknown"
        match ruling:
            case Approved():
                self.start(turn, call)
            case AnsweredByPerson(result):
                budget = self._state.limits.budget()
                call.end(activities.outcome_of_result(call.tool, result, budget))
            case Denied(reason):
                message += ", and a person decided to give up" + (f": {reason}" if reason else "")
                call.end(outcomes.fail(ErrorCode.OUTCOME_UNKNOWN, message))
            case Expired():
                call.end(outcomes.fail(ErrorCode.OUTCOME_UNKNOWN, message))
            case _:
                assert_never(ruling)

    def apply_outcome(self, turn: int, call: ToolCall, outcome: outcomes.Outcome) -> None:
        """End a call that ran; ask people if its outcome is unknown, or its server requires it."""
        decided, mcp = call.decided, call.decided.mcp
        match outcome:
            case McpInputRequired() if not self._state.asks_people:
                message = f"{outcomes.WAS_RUN}`{call.name}` requires a person's input"
                message += ", and this run does not wait for it"
                call.end(outcomes.fail(ErrorCode.DENIED, message))
            case McpInputRequired() if mcp.forms >= MAX_FORMS:
                message = f"`{call.name}` requires input again after {MAX_FORMS} answers"
                call.end(outcomes.fail(ErrorCode.TOOL_ERROR, message))
            case McpInputRequired():
                mcp = replace(mcp, required=outcome, forms=mcp.forms + 1, continuation=None)
                call.revise(replace(decided, mcp=mcp))
                self._ask(turn, call, "input")
            case outcomes.Unknown(message) if self._state.asks_people:
                attempts = (*decided.unknown_attempts, decided.started_at)
                mcp = replace(mcp, continuation=None, task=None)
                lost = replace(decided, unknown_attempts=attempts, mcp=mcp)
                call.move(CallEvent.OUTCOME_LOST, lost)
                self._questions.ask_about(turn, call, "reconcile", message)
            case outcomes.Unknown(message):
                call.end(outcomes.fail(ErrorCode.OUTCOME_UNKNOWN, message))
            case outcomes.Refused():
                self.end_unstarted(call, outcome)
            case _:
                call.end(outcome)

    def doubt_after_reset(self, call: ToolCall) -> outcomes.Unknown | None:
        """Return an unknown outcome for a call that may have run before a reset, if so."""
        is_once = call.tool.once or call.tool.delegate is not None
        if not (self._state.was_reset and is_once and not call.decided.unknown_attempts):
            return None
        return outcomes.Unknown(f"`{call.tool.name}` may have run before the run was reset")

    def cancel(self, call: ToolCall, why: str) -> None:
        """End a call because its run ends; the outcome of a started call may be unknown."""
        if call.is_running and call.items:
            call.end(loops.collect(call.items))
        elif call.stage in (CallStage.RUNNING, CallStage.UNSURE):
            self._questions.withdraw(call)
            call.end(activities.outcome_of_abandoned(call.tool, why))
        else:
            self.refuse(call, ErrorCode.CANCELLED, why)

    def refuse(self, call: ToolCall, code: ErrorCode, message: str) -> None:
        """End a call that has not started with an error, and count it no more."""
        self.end_unstarted(call, outcomes.refuse(code, message))

    def end_unstarted(self, call: ToolCall, outcome: outcomes.Final) -> None:
        """End a call that has not started, and count it no more."""
        self._questions.withdraw(call)
        preparation.uncount_call(call, self._state)
        call.end(outcome)

    def _end_if_refused(
        self, call: ToolCall, requests: activities.HookRequests[None]
    ) -> activities.HookRequests[None]:
        try:
            yield from requests
        except activities.CallRefused as refusal:
            self.refuse(call, refusal.error.code, refusal.error.message)
        except activities.RunStopped as stop:
            self.end_unstarted(call, outcomes.Stopped(str(stop)))

    def _complete(self, call: ToolCall, *, is_ready: bool) -> activities.HookRequests[None]:
        state = self._state
        if not is_ready:
            preparation.count_call(call, state)
            call.move(CallEvent.POSTPONED, replace(call.prepared, resolved_late=True))
            return
        sources = call.dependencies.sources
        if call.tool.limits.after:
            succeeded = outcomes.Succeeded | outcomes.Answered
            others = {one.name for one in sources if isinstance(one.outcome, succeeded)}
            preparation.check_order(call, state, others)
        data = state.data
        seen = dependency_graph.visible_data(call, data) if sources else VisibleData(data)
        if not call.is_loop:
            yield from self._settle(call, seen)
            return
        for item in loops.unsettled_items(call, state, seen):
            yield from self._end_if_refused(item, self._settle(item, seen))
        loops.settle(call)

    def _settle(self, call: ToolCall, seen: VisibleData) -> activities.HookRequests[None]:
        """Resolve the arguments of a call from the data that it reads, and run its hooks."""
        state, repairs = self._state, call.hook_uses["repair"]
        yield from preparation.resolve_arguments(call, state, seen)
        if not call.prepared.is_counted:
            preparation.count_call(call, state)
        resolved, is_repaired = call.arguments, call.hook_uses["repair"] > repairs
        outcome = yield from preparation.run_before_hooks(call, state)
        # An approval does not cover later changes by hooks.
        if call.prepared.is_approved:
            is_changed = is_repaired or not is_same_json(call.arguments, resolved)
            known, budget = call.prepared, state.limits.budget()
            fits = not is_changed and is_within(known.arguments, known.bound, budget)
            call.revise(known.covered(is_approved=fits))
        if outcome is not None:
            self.end_unstarted(call, outcome)

    def _ask_or_start(self, turn: int, calls: list[ToolCall]) -> None:
        for call in calls:
            asks = self._questions.required_policies
            is_free = call.prepared.is_approved or not asks(call, call.arguments)
            if is_free and not call.tool.person:
                continue
            if not self._state.asks_people:
                self.refuse(call, ErrorCode.DENIED, "this run does not wait for approvals")
            elif refused := self.missing_scope(call):
                self.end_unstarted(call, refused)
            else:
                self._ask(turn, call, "input" if call.tool.person else "call")
        for call in calls:
            if call.is_undecided:
                self.start(turn, call)

    def _ask(self, turn: int, call: ToolCall, kind: Kind) -> None:
        """Ask people about a call: they see its arguments."""
        call.move(CallEvent.ASKED, call.decided)
        call.revise(replace(call.prepared, resolved_late=False))
        self._questions.ask_about(turn, call, kind)
