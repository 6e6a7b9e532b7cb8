"""The lifecycle of the calls of a turn: from a proposal to one result each.

The workflow acts and reports in this order: `check_and_start` some calls; wait for people and
`apply_ruling`, run the tools and `apply_outcome`, `publish_result` to calls that need it, `resume`
pending calls and `start` queued ones; then `finish` them. Log entries are in source order.
"""

from typing import assert_never

from holdfast.schemas.decision import Decision, Kind, Receipt
from holdfast.schemas.log_entry import (
    ConfirmationRequiredEntry,
    DecisionEntry,
    ToolCallEntry,
    ToolStartEntry,
)
from holdfast.schemas.names import ErrorCode
from holdfast.validation.arguments import InvalidArguments, fit
from holdfast.validation.work_budget import bounded
from holdfast.workflows.engine import skills
from holdfast.workflows.engine.approvals.policy import effective_policy, requires_approval
from holdfast.workflows.engine.approvals.question import (
    AnsweredByPerson,
    Approved,
    DecisionRejected,
    Denied,
    Expired,
    Question,
    Ruling,
)
from holdfast.workflows.engine.call.hooks import CallRefused, HookRequests, RunStopped
from holdfast.workflows.engine.call.outcome import (
    Answered,
    Outcome,
    Refused,
    Stopped,
    Succeeded,
    Unknown,
    fail,
    outcome_of_result,
    refuse,
)
from holdfast.workflows.engine.call.tool_call import CallStage, ToolCall, Turn
from holdfast.workflows.engine.execution.completion import (
    close_call,
    publish_result,
    run_after_hooks,
)
from holdfast.workflows.engine.execution.dependency_graph import (
    connect,
    explain_unresolvable,
    find_cycles,
    visible_data,
)
from holdfast.workflows.engine.execution.preparation import (
    MAX_REFERENCES_IN_TURN,
    check_order,
    check_scopes,
    count_call,
    fit_arguments,
    prepare,
    resolve_arguments,
    run_before_hooks,
    uncount_call,
)
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.data import MISSING, is_same_json

_RECONCILE = (
    "{message}. Did it happen? `happened` takes `result` as what it returned, `did_not_happen`"
    " carries it out again, `give_up` leaves it unknown."
)


class CallLifecycle:
    """The calls of one run's turns."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._questions: dict[str, Question] = {}

    def check_and_start(self, turn: Turn, calls: list[ToolCall]) -> HookRequests[None]:
        """Decide which of a turn's calls are refused, pending, waiting for people, or running.

        All calls are logged first, then the questions, then the starts. A call that can never run
        is refused before any call starts. The calls of a plan are checked already.
        """
        if not turn.is_plan:
            yield from self.check(turn.number, calls)
        if any(isinstance(call.outcome, Stopped) for call in calls):
            for call in calls:
                if call.stage is not CallStage.ENDED:
                    self.cancel(call, "the run ended before this call")
        proposed = [call for call in calls if call.stage is CallStage.PROPOSED]
        self._ask_or_start(turn.number, proposed)

    def check(
        self, turn: int, calls: list[ToolCall], *, is_sequential: bool = False
    ) -> HookRequests[None]:
        """Refuse the calls that can never run, and log all calls.

        In a sequential turn that is checked as a whole, only the arguments of the first call are
        resolved.
        """
        room = MAX_REFERENCES_IN_TURN
        for call in calls:
            yield from self._end_if_refused(call, self._prepare(call, room))
            room -= call.reference_count
        connect(calls, is_sequential=is_sequential)
        # A call that only writes after one in a cycle of references is not in that cycle.
        for by_references in (True, False):
            for call, cycle in find_cycles(calls, by_references=by_references).items():
                message = f"circular references: {cycle}; none of these calls is run"
                call.end(refuse(ErrorCode.UNRESOLVED_REFERENCE, message))
        for index, call in enumerate(calls):
            if call.stage is CallStage.PROPOSED:
                is_ready = call.is_decidable and not (is_sequential and index)
                yield from self._end_if_refused(call, self._complete(call, is_ready=is_ready))
            self._log_call(turn, call)
        for call in calls:
            if call.stage is CallStage.PENDING and not call.is_decidable:
                why = explain_unresolvable(call, self._state.data)
                if why is not None:
                    call.end(refuse(ErrorCode.UNRESOLVED_REFERENCE, why))
                    uncount_call(call, self._state)

    def resume(self, turn: int, call: ToolCall) -> HookRequests[None]:
        """Decide on a pending call, once the calls that it needs have ended."""
        yield from self._end_if_refused(call, self._complete(call, is_ready=True))
        if call.stage is CallStage.PENDING:
            self._ask_or_start(turn, [call])
        elif isinstance(call.outcome, Refused):
            uncount_call(call, self._state)

    def start(self, turn: int, call: ToolCall) -> None:
        """Start a call, if the principal holds its scopes now.

        It is queued while an earlier call has yet to write to the same place. A call that the
        engine or the model's own result answers ends at once.
        """
        if not call.is_startable:
            call.move(CallStage.QUEUED)
            return
        try:
            check_scopes(call, self._state)
        except CallRefused as refusal:
            call.end(Refused(refusal.error))
            return
        call.move(CallStage.RUNNING)
        self._state.log.append(
            ToolStartEntry(
                turn=turn,
                call_id=call.id,
                tool=call.name,
                arguments=call.arguments if call.resolved_late else None,
                delegate=call.tool.delegate,
            )
        )
        answer = skills.answer(call) or proposed_result(call)
        if answer is not None:
            call.end(answer)

    def question_of(self, call: ToolCall) -> Question:
        """Return the question on a call that waits for people."""
        return self._questions[call.id]

    def ask_people(self, turn: int, question: Question) -> None:
        """Add a question, and count the decisions that arrived before it."""
        early = self._state.pending.add(question)
        self._log_question(turn, question)
        for decision in early:
            self.count_or_log(decision)

    def remind(self, turn: int, question: Question) -> None:
        """Log a reminder of a question."""
        question.count_reminder()
        self._log_question(turn, question)

    def count_decision(self, decision: Decision) -> Receipt:
        """Count a decision.

        Raises:
            DecisionRejected: The decision is rejected.
        """
        state = self._state
        receipt, decided = state.pending.count(decision, state.clock())
        state.log.append(
            DecisionEntry(
                call_id=decision.call_id,
                decided=decided,
                arguments=decision.arguments,
                outcome="decided" if receipt.decided else None,
            )
        )
        return receipt

    def count_or_log(self, decision: Decision) -> None:
        """Count a decision of a sender who gets no answer; log the reason if it is rejected."""
        try:
            self.count_decision(decision)
        except DecisionRejected as error:
            self.log_ignored(decision, str(error))

    def log_ignored(self, decision: Decision, why: str) -> None:
        """Log a rejected decision."""
        self._state.log.append(DecisionEntry(call_id=decision.call_id, ignored=why))

    def apply_ruling(self, turn: int, call: ToolCall) -> None:
        """Apply the ruling on a call's question; without one, the run ends."""
        question = self._questions[call.id]
        ruling = question.ruling
        if ruling is None:
            self.cancel(call, "the run ended before anybody decided")
            return
        del self._questions[call.id]
        if call.stage is CallStage.UNSURE:
            self._reconcile(turn, call, ruling)
            return
        match ruling:
            case Approved(arguments, edited_by):
                if edited_by is not None:
                    call.edit(arguments, edited_by)
                self.start(turn, call)
            case Denied(reason):
                call.end(refuse(ErrorCode.DENIED, reason or "A person denied this call."))
            case AnsweredByPerson(result):
                call.end(Answered(result))
            case Expired():
                self._expire(turn, call, question)
            case _:
                assert_never(ruling)

    def apply_outcome(self, turn: int, call: ToolCall, outcome: Outcome) -> None:
        """End a call that ran; request a decision if its outcome is unknown."""
        match outcome:
            case Unknown(message) if self._state.asks_people:
                call.move(CallStage.UNSURE)
                text = _RECONCILE.format(message=message.rstrip("."))
                self._ask_about(turn, call, "reconcile", text)
            case Unknown(message):
                call.end(fail(ErrorCode.OUTCOME_UNKNOWN, message))
            case _:
                call.end(outcome)

    def doubt_after_reset(self, call: ToolCall) -> Unknown | None:
        """Return the unknown outcome of a call that may have run before its run was reset, if so.

        A call that is idempotent by its key, or has run since, is not in doubt.
        """
        tool = call.tool
        is_once = tool.once or tool.delegate is not None
        if not (self._state.was_reset and is_once and call.unknown_outcomes == 0):
            return None
        return Unknown(f"`{tool.name}` may have been carried out before the run was reset")

    def publish_result(self, call: ToolCall) -> HookRequests[None]:
        """Make an ended call's result readable for the calls that depend on it, after its hooks."""
        return publish_result(call, self._state)

    def cancel(self, call: ToolCall, why: str) -> None:
        """End a call because its run ends.

        A call that has started and may run only once ends with an unknown outcome.
        """
        question = self._questions.pop(call.id, None)
        if question is not None:
            self._state.pending.withdraw(question)
        if call.stage not in (CallStage.RUNNING, CallStage.UNSURE):
            self.skip(call, why)
        elif call.tool.once:
            message = f"{why}; whether the call took effect is unknown"
            call.end(fail(ErrorCode.OUTCOME_UNKNOWN, message))
        else:
            call.end(fail(ErrorCode.CANCELLED, why))

    def skip(self, call: ToolCall, why: str) -> None:
        """End a call that did not run."""
        call.end(refuse(ErrorCode.CANCELLED, why))
        uncount_call(call, self._state)

    def finish(self, turn: int, calls: list[ToolCall]) -> HookRequests[None]:
        """Close calls that have all ended, each after its hooks."""
        for call in calls:
            yield from run_after_hooks(call, self._state)
            self.close(turn, [call])

    def close(self, turn: int, calls: list[ToolCall]) -> None:
        """Write the results of ended calls, and log their ends."""
        with bounded():
            for call in calls:
                close_call(turn, call, self._state)

    def _end_if_refused(self, call: ToolCall, requests: HookRequests[None]) -> HookRequests[None]:
        try:
            yield from requests
        except CallRefused as refusal:
            call.end(refuse(refusal.error.code, refusal.error.message))
        except RunStopped as stop:
            call.end(Stopped(str(stop)))

    def _prepare(self, call: ToolCall, room: int) -> HookRequests[None]:
        why = self._state.meter.refuse_call(call.name)
        if why is not None:
            raise CallRefused(ErrorCode.BLOCKED, why)
        if room < 0:
            message = f"the calls before it hold more than {MAX_REFERENCES_IN_TURN} references"
            raise CallRefused(ErrorCode.UNRESOLVED_REFERENCE, message)
        yield from prepare(call, self._state)

    def _complete(self, call: ToolCall, *, is_ready: bool) -> HookRequests[None]:
        """Resolve the arguments of a call, or leave it pending."""
        state = self._state
        if not is_ready:
            count_call(call, state)
            call.move(CallStage.PENDING)
            return
        sources = call.dependencies.sources
        check_order(call, state, [one for one in sources if isinstance(one.outcome, Succeeded)])
        yield from resolve_arguments(call, state, visible_data(call, state.data))
        if call.stage is not CallStage.PENDING:
            count_call(call, state)
        resolved = call.arguments
        outcome = yield from run_before_hooks(call, state)
        if outcome is not None:
            call.end(outcome)
        # The approval of a plan does not cover later changes by hooks.
        if call.covered_by_plan:
            is_changed = not is_same_json(call.arguments, resolved) or "repair" in call.hook_uses
            call.cover(by_plan=not is_changed)

    def _ask_or_start(self, turn: int, calls: list[ToolCall]) -> None:
        for call in calls:
            if not self._requires_approval(call):
                continue
            if self._state.asks_people:
                call.move(CallStage.WAITING)
                text = f"Shall `{call.name}` be carried out with these arguments?"
                self._ask_about(turn, call, "call", text)
            else:
                message = "this run does not wait for anybody's approval"
                call.end(refuse(ErrorCode.DENIED, message))
        for call in calls:
            if call.stage in (CallStage.PROPOSED, CallStage.PENDING):
                self.start(turn, call)

    def _requires_approval(self, call: ToolCall) -> bool:
        rules, name = self._state.rules, call.name
        if call.covered_by_plan or name in rules.approval.auto:
            return False
        if self._state.pending.is_always_approved(name):
            return False
        return requires_approval(call.tool, effective_policy(call.tool, rules), call.arguments)

    def _ask_about(self, turn: int, call: ToolCall, kind: Kind, text: str) -> None:
        state, tool = self._state, call.tool
        question = Question(
            call_id=call.id,
            kind=kind,
            tool=tool.name,
            label=call.label,
            arguments=call.arguments,
            reasoning=call.meta.reasoning,
            text=text,
            policy=effective_policy(tool, state.rules),
            requested_at=state.clock(),
            check_arguments=lambda arguments: fit_arguments(tool, arguments),
            principal=state.principal,
            instance=call.meta.instance,
            round=call.unknown_outcomes,
        )
        self._questions[call.id] = question
        self.ask_people(turn, question)

    def _expire(self, turn: int, call: ToolCall, question: Question) -> None:
        self._state.log.append(DecisionEntry(call_id=call.id, outcome="expired"))
        if question.policy.on_timeout == "approve":
            self.start(turn, call)
            return
        message = f"the approval of `{call.name}` expired"
        call.end(refuse(ErrorCode.APPROVAL_TIMEOUT, message))
        if question.policy.on_timeout == "fail":
            self._state.request_end(message)

    def _reconcile(self, turn: int, call: ToolCall, ruling: Ruling) -> None:
        match ruling:
            case Approved():
                self.start(turn, call)
            case AnsweredByPerson(result):
                self.apply_outcome(turn, call, outcome_of_result(call.tool, result))
            case Denied(reason):
                message = "it is unknown whether it took effect, and a person gave up on it"
                call.end(
                    fail(ErrorCode.OUTCOME_UNKNOWN, f"{message}: {reason}" if reason else message)
                )
            case Expired():
                self._state.log.append(DecisionEntry(call_id=call.id, outcome="expired"))
                call.end(fail(ErrorCode.OUTCOME_UNKNOWN, "whether it took effect is unknown"))
            case _:
                assert_never(ruling)

    def _log_call(self, turn: int, call: ToolCall) -> None:
        arguments = call.raw_arguments if call.stage is CallStage.PENDING else call.arguments
        if isinstance(call.outcome, Refused):
            arguments = call.proposal.arguments
        self._state.log.append(
            ToolCallEntry(
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

    def _log_question(self, turn: int, question: Question) -> None:
        self._state.log.append(
            ConfirmationRequiredEntry(
                turn=turn,
                call_id=question.call_id,
                reminder=question.reminders,
                approval=question.to_pending_approval(),
            )
        )


def proposed_result(call: ToolCall) -> Succeeded | None:
    """Return the result that the model proposed for a call that only a model answers, if it fits.

    It applies only to the exact arguments that the model wrote, without references to other calls.
    """
    if not call.tool.latent or call.model_result in (MISSING, None):
        return None
    if call.dependencies.sources or call.edited_by is not None:
        return None
    try:
        return Succeeded(
            fit(call.model_result, True if call.tool.output is None else call.tool.output)
        )
    except InvalidArguments:
        return None
