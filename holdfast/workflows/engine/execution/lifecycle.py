"""The lifecycle of the calls of a turn: from a proposal to one result each.

`action` is the question what a call does next; the other methods are what happens to calls:
`check_and_start`; what it waited for has come, and it is `resume`d or `start`ed; `apply_ruling`;
`apply_outcome`; `publish_result`; `finish`. Log entries are in source order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_never

from holdfast.schemas import log_entry
from holdfast.schemas.base import Stored, rfc3339
from holdfast.schemas.internal.mcp_input import McpInputRequired
from holdfast.schemas.names import CHOOSE_SKILL, ErrorCode
from holdfast.workflows.engine import skills
from holdfast.workflows.engine.approvals.policy import is_within
from holdfast.workflows.engine.approvals.question import (
    AnsweredByPerson,
    Approved,
    Denied,
    Expired,
    Question,
    Ruling,
)
from holdfast.workflows.engine.call import activities
from holdfast.workflows.engine.call.outcomes import (
    Answered,
    Final,
    Outcome,
    Refused,
    Stopped,
    Succeeded,
    Unknown,
    error_of,
    fail,
    misfit,
    refuse,
)
from holdfast.workflows.engine.call.tool_call import CallStage, ResultStage, ToolCall, Turn
from holdfast.workflows.engine.conversation.initial_context import append_message
from holdfast.workflows.engine.execution import dependency_graph, preparation
from holdfast.workflows.engine.execution.questions import Questions
from holdfast.workflows.engine.model.answer import (
    as_said,
    is_shown_whole,
    is_untrusted_error,
    result_message,
    veil_of,
)
from holdfast.workflows.engine.model.latent_calls import proposed_result
from holdfast.workflows.engine.run_state import MAX_STATE_BYTES, RunState
from holdfast.workflows.engine.state.data import CannotWrite, VisibleData, is_same_json

# The forms of one call of an MCP server's tool.
MAX_FORMS = 20


@dataclass(frozen=True)
class AwaitCalls:
    """Wait until other calls of the turn are over; the call itself may be decided already."""

    are_over: Callable[[], bool]
    is_decided: bool


@dataclass(frozen=True)
class AwaitRuling:
    """Wait until people have decided on a question."""

    question: Question


@dataclass(frozen=True)
class ExecuteCall:
    """Execute the call."""


@dataclass(frozen=True)
class PublishResult:
    """Publish the result to the calls that depend on it."""


Action = AwaitCalls | AwaitRuling | ExecuteCall | PublishResult


class CallLifecycle:
    """The calls of one run's turns."""

    def __init__(self, state: RunState, questions: Questions) -> None:
        self._state = state
        self._questions = questions

    def action(self, call: ToolCall) -> Action | None:
        """Return what a call does next; None if only its turn can finish it."""
        match call.stage:
            case CallStage.PENDING:
                return AwaitCalls(lambda: call.is_decidable, is_decided=False)
            case CallStage.QUEUED:
                return AwaitCalls(lambda: not call.open_dependencies, is_decided=True)
            case CallStage.WAITING | CallStage.UNSURE:
                return AwaitRuling(self._questions.of(call))
            case CallStage.RUNNING:
                return ExecuteCall()
            case _:
                is_needed = call.dependencies.has_dependents and not call.result_published
                return PublishResult() if is_needed else None

    def check_and_start(self, turn: Turn, calls: list[ToolCall]) -> activities.HookRequests[None]:
        """Refuse, postpone or start the calls of a turn, or ask people about them.

        All calls are logged first, then the questions, then the starts. A plan is checked already.
        """
        if not turn.is_plan:
            yield from self.check(turn.number, calls)
        for call in calls:
            if turn.stop_message is not None and call.stage is not CallStage.ENDED:
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
            room -= call.reference_count
        if len(calls) > 1:  # no call depends on itself
            dependency_graph.connect(calls, is_sequential=is_sequential)
            # A call that only writes after one in a cycle of references is not in that cycle.
            for by_references in (True, False):
                for call, cycle in dependency_graph.find_cycles(
                    calls, by_references=by_references
                ).items():
                    message = f"circular references: {cycle}; none of these calls is run"
                    call.end(refuse(ErrorCode.UNRESOLVED_REFERENCE, message))
        for index, call in enumerate(calls):
            if call.stage is CallStage.PROPOSED:
                is_ready = call.is_decidable and not (is_sequential and index)
                yield from self._end_if_refused(call, self._complete(call, is_ready=is_ready))
            self._log_call(turn, call)
        for call in calls:
            is_waiting = call.stage is CallStage.PENDING and not call.is_decidable
            if (
                is_waiting
                and (why := dependency_graph.explain_unresolvable(call, self._state.data))
                is not None
            ):
                self.refuse(call, ErrorCode.UNRESOLVED_REFERENCE, why)

    def resume(self, turn: int, call: ToolCall) -> activities.HookRequests[None]:
        """Decide on a pending call, once the calls that it needs have ended."""
        yield from self._end_if_refused(call, self._complete(call, is_ready=True))
        if call.stage is CallStage.PENDING:
            self._ask_or_start(turn, [call])
        elif isinstance(call.outcome, Refused):
            preparation.uncount_call(call, self._state)

    def start(self, turn: int, call: ToolCall) -> None:
        """Start a call, if the principal holds its scopes now; end it if it has its result."""
        if call.open_dependencies:
            call.move(CallStage.QUEUED)
            return
        if (refused := preparation.missing_scope(call, self._state)) is not None:
            call.end(refused)
            return
        if self.withhold(turn, call):
            return
        call.start(rfc3339(self._state.clock()))
        self._state.log.append(
            log_entry.ToolStartEntry(
                turn=turn,
                call_id=call.id,
                tool=call.name,
                arguments=call.arguments if call.resolved_late else None,
                delegate=call.tool.delegate,
            )
        )
        if call.name == CHOOSE_SKILL and not call.is_literal:  # a skill may have this name
            call.end(skills.answer(call))
        elif (
            call.tool.latent
            and (answer := proposed_result(call, self._state.limits.budget())) is not None
        ):
            call.end(answer)

    def withhold(self, turn: int, call: ToolCall) -> bool:
        """Withhold a call whose principal's token has expired; return whether this applies.

        `start` checks this, and so does the moment of the command: a call may wait for its slot.
        """
        principal, now = self._state.principal, self._state.clock()
        until = None if principal is None else principal.expires_at
        needs_token = call.tool.side_effects or call.tool.requires
        if until is None or until > now or not needs_token:
            return False
        if self._state.asks_people:
            call.move(CallStage.WAITING)
            self._questions.ask_about(turn, call, "principal_expired")
        else:
            message = "the principal's token has expired, and this run does not wait for a new one"
            self.refuse(call, ErrorCode.DENIED, message)
        return True

    def apply_ruling(self, turn: int, call: ToolCall) -> None:
        """Apply the ruling on a call's question; without one, the run ends."""
        question = self._questions.of(call)
        ruling = question.ruling
        if ruling is None:
            self.cancel(call, "the run ended before a decision")
            return
        self._questions.close(call)
        if isinstance(ruling, Expired):
            self._questions.log_expiry(question)
        if isinstance(ruling, Approved) and question.kind != "principal_expired":
            call.set_approver(question.approver)
        if question.form is not None and isinstance(ruling, AnsweredByPerson):
            call.answer(ruling.result)
            self.start(turn, call)
        elif call.stage is CallStage.UNSURE:
            self._reconcile(turn, call, ruling)
        else:
            self._decide(turn, call, ruling, question)

    def edit(self, call: ToolCall, arguments: dict[str, Any], edited_by: str | None) -> None:
        """Set a person's arguments; a call is pending until its hooks `_before` have seen them."""
        call.edit(arguments, edited_by)
        has_guards = bool(activities.hook_activities(call, self._state.rules, "before"))
        if call.stage is not CallStage.PENDING and has_guards:
            call.move(CallStage.PENDING)

    def _decide(self, turn: int, call: ToolCall, ruling: Ruling, question: Question) -> None:
        match ruling:
            case Approved(arguments, edited_by):
                if edited_by is not None:
                    self.edit(call, arguments, edited_by)
                if call.stage is CallStage.PENDING:
                    call.cover(is_approved=True)
                else:
                    self.start(turn, call)
            case Denied(reason):
                call.end(refuse(ErrorCode.DENIED, reason or "A person denied this call."))
            case AnsweredByPerson(result):
                call.end(Answered(result))
            case Expired() if question.policy.on_timeout == "approve":
                self.start(turn, call)
            case Expired():
                message = f"the approval of `{call.name}` expired"
                if question.kind == "input":
                    message = f"`{call.name}` got no answer in time"
                call.end(refuse(ErrorCode.APPROVAL_TIMEOUT, message))
                if question.policy.on_timeout == "fail":
                    self._state.request_end(message)
            case _:
                assert_never(ruling)

    def _reconcile(self, turn: int, call: ToolCall, ruling: Ruling) -> None:
        match ruling:
            case Approved():
                self.start(turn, call)
            case AnsweredByPerson(result):
                budget = self._state.limits.budget()
                call.end(activities.outcome_of_result(call.tool, result, budget))
            case Denied(reason):
                message = "whether it took effect is unknown, and a person decided to give up"
                message += f": {reason}" if reason else ""
                call.end(fail(ErrorCode.OUTCOME_UNKNOWN, message))
            case Expired():
                call.end(fail(ErrorCode.OUTCOME_UNKNOWN, "whether it took effect is unknown"))
            case _:
                assert_never(ruling)

    def apply_outcome(self, turn: int, call: ToolCall, outcome: Outcome) -> None:
        """End a call that ran; ask people if its outcome is unknown, or its server requires it."""
        match outcome:
            case McpInputRequired():
                self._require(turn, call, outcome)
            case Unknown(message) if self._state.asks_people:
                call.move(CallStage.UNSURE)
                self._questions.ask_about(turn, call, "reconcile", message)
            case Unknown(message):
                call.end(fail(ErrorCode.OUTCOME_UNKNOWN, message))
            case _:
                call.end(outcome)

    def _require(self, turn: int, call: ToolCall, required: McpInputRequired) -> None:
        if not self._state.asks_people:
            message = f"`{call.name}` requires a person's input, and this run does not wait for it"
            call.end(fail(ErrorCode.DENIED, message))
        elif call.forms_required >= MAX_FORMS:
            message = f"`{call.name}` requires input again after {MAX_FORMS} answers"
            call.end(fail(ErrorCode.TOOL_ERROR, message))
        else:
            call.require(required)
            self._questions.ask_about(turn, call, "input")

    def doubt_after_reset(self, call: ToolCall) -> Unknown | None:
        """Return an unknown outcome for a call that may have run before a reset, if so."""
        tool = call.tool
        is_once = tool.once or tool.delegate is not None
        if not (self._state.was_reset and is_once and not call.unknown_attempts):
            return None
        return Unknown(f"`{tool.name}` may have run before the run was reset")

    def publish_result(self, call: ToolCall) -> activities.HookRequests[None]:
        """Make an ended call's result readable for the calls that depend on it, after its hooks."""
        yield from activities.run_after_hooks(call, self._state.rules, self._state.limits)
        outcome = call.ended
        if (
            error_of(outcome) is None
            and (problem := dependency_graph.write_problem(call, self._state)) is not None
        ):
            outcome = _unwritten(call, problem)
        call.advance_result(ResultStage.PUBLISHED, outcome)

    def cancel(self, call: ToolCall, why: str) -> None:
        """End a call because its run ends; the outcome of a started call may be unknown."""
        self._questions.close(call)
        self._state.pending.withdraw(call.id)
        if call.stage in (CallStage.RUNNING, CallStage.UNSURE):
            call.end(activities.outcome_of_abandoned(call.tool, why))
        else:
            self.refuse(call, ErrorCode.CANCELLED, why)

    def refuse(self, call: ToolCall, code: ErrorCode, message: str) -> None:
        call.end(refuse(code, message))
        preparation.uncount_call(call, self._state)

    def finish(self, turn: int, calls: list[ToolCall]) -> activities.HookRequests[None]:
        """Close calls that have all ended, each after its hooks."""
        for call in calls:
            yield from activities.run_after_hooks(call, self._state.rules, self._state.limits)
            self.close(turn, [call])

    def close(self, turn: int, calls: list[ToolCall]) -> None:
        """Write the results of ended calls to their places, and log their ends."""
        with self._state.limits.decision():
            for call in calls:
                outcome = _write_result(call, self._state)
                if isinstance(outcome, Succeeded | Answered):
                    self._state.succeeded[call.name] = None
                call.advance_result(ResultStage.CLOSED, outcome)
                self._log_end(turn, call, outcome)

    def _log_end(self, turn: int, call: ToolCall, outcome: Final) -> None:
        error, log = error_of(outcome), self._state.log
        paths, _ = call.writes
        place = str(paths[0]) if paths and error is None else None
        message = result_message(call, outcome, place)
        is_whole = place is not None or is_shown_whole(outcome, message)
        used = call.found_tool.knowledge if call.found_tool is not None else None
        if isinstance(outcome, Succeeded) and used is not None and used.kind is not None:
            source = used.kind
            log.append(
                log_entry.KnowledgeUsedEntry(
                    turn=turn, call_id=call.id, name=call.name, source=source
                )
            )
        log.append(
            log_entry.ToolEndEntry(
                turn=turn,
                call_id=call.id,
                tool=call.name,
                error=error,
                value=None if is_whole else getattr(outcome, "value", None),
                details=outcome.details if isinstance(outcome, Succeeded) else None,
            )
        )
        log.add_message(message)
        if isinstance(outcome, Succeeded) and outcome.message is not None:
            veil, extra = veil_of(call, None), as_said(call, outcome.message)
            append_message(self._state, extra, within=call.meta.instance, veil=veil)

    def _end_if_refused(
        self, call: ToolCall, requests: activities.HookRequests[None]
    ) -> activities.HookRequests[None]:
        try:
            yield from requests
        except activities.CallRefused as refusal:
            call.end(refuse(refusal.error.code, refusal.error.message))
        except activities.RunStopped as stop:
            call.end(Stopped(str(stop)))

    def _complete(self, call: ToolCall, *, is_ready: bool) -> activities.HookRequests[None]:
        state = self._state
        if not is_ready:
            preparation.count_call(call, state)
            call.move(CallStage.PENDING)
            return
        sources = call.dependencies.sources
        preparation.check_order(
            call, state, {one.name for one in sources if isinstance(one.outcome, Succeeded)}
        )
        seen = (
            dependency_graph.visible_data(call, state.data) if sources else VisibleData(state.data)
        )
        repairs = call.hook_uses.get("repair", 0)
        yield from preparation.resolve_arguments(call, state, seen)
        if call.stage is not CallStage.PENDING:
            preparation.count_call(call, state)
        resolved, is_repaired = call.arguments, call.hook_uses.get("repair", 0) > repairs
        outcome = yield from preparation.run_before_hooks(call, state)
        if outcome is not None:
            call.end(outcome)
        # An approval does not cover later changes by hooks.
        if call.is_approved:
            is_changed = is_repaired or not is_same_json(call.arguments, resolved)
            bound, budget = call.bound, state.limits.budget()
            call.cover(is_approved=not is_changed and is_within(call.arguments, bound, budget))

    def _ask_or_start(self, turn: int, calls: list[ToolCall]) -> None:
        for call in calls:
            is_free = call.is_approved or not self._questions.required_policy(call, call.arguments)
            if is_free and not call.tool.person:
                continue
            if not self._state.asks_people:
                message = "this run does not wait for approvals"
                call.end(refuse(ErrorCode.DENIED, message))
            elif refused := preparation.missing_scope(call, self._state):
                call.end(refused)
            else:
                call.move(CallStage.WAITING)
                self._questions.ask_about(turn, call, "input" if call.tool.person else "call")
        for call in calls:
            if call.stage in (CallStage.PROPOSED, CallStage.PENDING):
                self.start(turn, call)

    def _log_call(self, turn: int, call: ToolCall) -> None:
        arguments = call.raw_arguments if call.stage is CallStage.PENDING else call.arguments
        if isinstance(call.outcome, Refused):
            arguments = call.proposal.arguments
        self._state.log.append(
            log_entry.ToolCallEntry(
                turn=turn,
                call_id=call.id,
                tool=call.name,
                label=call.found_tool.label if call.found_tool is not None else None,
                arguments=arguments,
                reasoning=call.meta.reasoning,
                waits_for=[other.id for other in call.open_dependencies],
                instance=call.meta.instance,
            )
        )


def _unwritten(call: ToolCall, why: str) -> Final:
    value = getattr(call.ended, "value", None)
    if not call.has_run:
        return fail(ErrorCode.INVALID_OUTPUT, why, value)
    return misfit(call.tool, f"result cannot be written: {why}", value)


def _write_result(call: ToolCall, state: RunState) -> Final:
    outcome = call.ended
    paths, value = call.writes
    if not paths:
        return outcome
    try:
        if (stored := Stored.of(value)) is not None:
            most = f"{paths[0]} can take in at most {MAX_STATE_BYTES}"
            raise CannotWrite(f"it has {stored.size_bytes} bytes, and {most}")
        is_marked = error_of(outcome) is None or is_untrusted_error(call, outcome)
        veil = veil_of(call, value) if is_marked else None
        state.write(paths, value, call.meta.output_method, call.id, veil)
    except CannotWrite as problem:
        if error_of(outcome) is None:
            return _unwritten(call, str(problem))
        text = f"the error of {call.id} was not kept: {problem}"
        state.log.add_notice(text)
    return outcome
