"""What is decided about the calls of a turn, from the model's words to the one result of each.

The shell asks and acts in this order: `open` some calls; wait for people and `rule`, carry out what
is running and `settle` it, `hand_on` what others wait for, take up with `ready` what waited and
`begin` what is queued; then `finish` them. What is told is told in source order.
"""

from collections.abc import Callable
from typing import Any, assert_never

from holdfast.schemas.decision import Decision, Receipt
from holdfast.schemas.errors import ErrorCode
from holdfast.schemas.log_entry import (
    ConfirmationRequiredEntry,
    DecisionEntry,
    ToolCallEntry,
    ToolStartEntry,
)
from holdfast.validation.work_budget import bounded
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
    Final,
    Outcome,
    Refused,
    Stopped,
    Succeeded,
    Unknown,
    fail,
    outcome_of_result,
    refuse,
)
from holdfast.workflows.engine.call.tool_call import CallStage, ToolCall, error_of
from holdfast.workflows.engine.execution.completion import close_call, run_after_hooks
from holdfast.workflows.engine.execution.dependency_graph import (
    check_write,
    connect,
    explain_unresolvable,
    find_cycles,
    visible_data,
)
from holdfast.workflows.engine.execution.preconditions import (
    check_order,
    check_scopes,
    count_call,
    uncount_call,
)
from holdfast.workflows.engine.execution.preparation import (
    MAX_REFERENCES_IN_TURN,
    prepare,
    resolve_arguments,
    run_before_hooks,
)
from holdfast.workflows.engine.execution.questions import approval_question, reconciliation_question
from holdfast.workflows.engine.model.answer import given_answer
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.data import CannotWrite, same


class CallLifecycle:
    """The calls of one run's turns."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        # How a call ends that the engine or the model's answer itself has carried out.
        self.answered_here: Callable[[ToolCall], Final | None] = given_answer
        self._questions: dict[str, Question] = {}

    def check_and_start(self, turn: int, calls: list[ToolCall]) -> HookRequests[None]:
        """Decide what becomes of the calls: refused, pending, waiting for people, or to be carried
        out.

        They are told first, then those that wait, then those that start: each in source order.
        What can never be carried out is refused before anything is. All that was done already
        where they stand in a plan.
        """
        if not all(call.is_planned for call in calls):
            yield from self.check(turn, calls)
        if any(isinstance(call.outcome, Stopped) for call in calls):
            for call in calls:
                if call.stage is not CallStage.ENDED:
                    self._give_up(call, "the run ended before this call")
        self._begin(turn, [call for call in calls if call.stage is CallStage.PROPOSED])

    def check(
        self, turn: int, calls: list[ToolCall], *, sequential: bool = False
    ) -> HookRequests[None]:
        """Refuse what can never be carried out, and tell of all the calls.

        Of a sequential turn that is checked as a whole, only the first call is decided on so far
        that nothing but its start is left.
        """
        room = MAX_REFERENCES_IN_TURN
        for call in calls:
            yield from self._attempt(call, self._propose(call, room))
            room -= call.reference_count
        connect(calls, sequential=sequential)
        self._refuse_circles(calls)
        for index, call in enumerate(calls):
            now = call.is_decidable and not (sequential and index)
            yield from self._decide(turn, call, now=now)
        self._refuse_hopeless(calls)

    def resume(self, turn: int, call: ToolCall) -> HookRequests[None]:
        """Decide on a pending call, now that the calls have ended that it waits for."""
        yield from self._attempt(call, self._complete(call))
        if call.stage is CallStage.PENDING:
            self._begin(turn, [call])
        elif isinstance(call.outcome, Refused):
            uncount_call(call, self._state)

    def start(self, turn: int, call: ToolCall) -> None:
        """Carry the call out, if its principal may: scopes are checked now, not before. It is
        queued while others have to write first where it does."""
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
                delegate=call.tool.delegate if call.tool is not None else None,
            )
        )
        answer = self.answered_here(call)
        if answer is not None:
            call.end(answer)

    def question_of(self, call: ToolCall) -> Question:
        """What people are asked about a call that waits."""
        return self._questions[call.id]

    def ask_people(self, turn: int, question: Question) -> None:
        """Put a question to people, and count what they have said already."""
        early = self._state.pending.add(question)
        self._confirmation(turn, question)
        for decision in early:
            self.count_or_log(decision)

    def remind(self, turn: int, question: Question) -> None:
        """Ask people again."""
        question.reminders += 1
        self._confirmation(turn, question)

    def count_decision(self, decision: Decision) -> Receipt:
        """Count a decision.

        Raises:
            Unacceptable: it does not count, and why.
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
        """Count a decision that cannot be refused to whoever sent it: a wrong one is noted."""
        try:
            self.count_decision(decision)
        except DecisionRejected as error:
            self.log_ignored(decision, str(error))

    def log_ignored(self, decision: Decision, why: str) -> None:
        """Note a decision that does not count."""
        self._state.log.append(DecisionEntry(call_id=decision.call_id, ignored=why))

    def apply_ruling(self, turn: int, call: ToolCall) -> None:
        """Let a question's ruling take effect on its call."""
        question = self._questions.pop(call.id)
        ruling = question.ruling
        if ruling is None:
            self._state.pending.withdraw(question)
            self._give_up(call, "the run ended before anybody decided")
        elif call.stage is CallStage.UNSURE:
            self._reconcile(turn, call, ruling)
        else:
            self._apply(turn, call, question, ruling)

    def apply_outcome(self, turn: int, call: ToolCall, outcome: Outcome) -> None:
        """Take in how carrying out a call ended; an unknown end is asked about."""
        match outcome:
            case Unknown(message) if self._state.asks_people:
                call.move(CallStage.UNSURE)
                call.unknown_outcomes += 1
                self._ask(turn, call, reconciliation_question(call, self._state, message))
            case Unknown(message):
                call.end(fail(ErrorCode.OUTCOME_UNKNOWN, message))
            case _:
                call.end(outcome)

    def publish_result(self, call: ToolCall) -> HookRequests[None]:
        """Make an ended call's result fit to be read by the calls that wait for it."""
        yield from run_after_hooks(call, self._state)
        try:
            check_write(call, self._state)
        except CannotWrite as error:
            assert call.outcome is not None  # it has ended
            if error_of(call.outcome) is None:
                value = getattr(call.outcome, "value", None)
                call.outcome = fail(ErrorCode.INVALID_OUTPUT, str(error), value)
        call.result_published = True

    def cancel(self, call: ToolCall, why: str) -> None:
        """End a call because its run ends."""
        question = self._questions.pop(call.id, None)
        if question is not None:
            self._state.pending.withdraw(question)
        self._give_up(call, why)

    def skip(self, call: ToolCall, why: str) -> None:
        """End a call that nothing was done of."""
        call.end(refuse(ErrorCode.CANCELLED, why))
        uncount_call(call, self._state)

    def finish(self, turn: int, calls: list[ToolCall]) -> HookRequests[None]:
        """Close calls that have all ended, each after its hooks."""
        for call in calls:
            yield from run_after_hooks(call, self._state)
            self.close(turn, [call])

    def close(self, turn: int, calls: list[ToolCall]) -> None:
        """Tell how the calls ended, and write down their results."""
        with bounded():
            for call in calls:
                close_call(turn, call, self._state)

    def _attempt(self, call: ToolCall, deciding: HookRequests[None]) -> HookRequests[None]:
        """Decide on a call, and end it where that is what was decided."""
        try:
            yield from deciding
        except CallRefused as refusal:
            call.end(refuse(refusal.error.code, refusal.error.message))
        except RunStopped as stop:
            call.end(Stopped(str(stop)))

    def _propose(self, call: ToolCall, room: int) -> HookRequests[None]:
        beyond = self._state.meter.refuse_call(call.name)
        if beyond is not None:
            raise CallRefused(ErrorCode.BLOCKED, beyond)
        if room < 0:
            message = f"the calls before it hold more than {MAX_REFERENCES_IN_TURN} references"
            raise CallRefused(ErrorCode.UNRESOLVED_REFERENCE, message)
        yield from prepare(call, self._state)

    def _decide(self, turn: int, call: ToolCall, *, now: bool) -> HookRequests[None]:
        """Decide on a call now or as far as that can be said, and tell of it."""
        if call.stage is CallStage.PROPOSED:
            yield from self._attempt(call, self._complete(call) if now else self._wait(call))
        if isinstance(call.outcome, Refused):
            self._tell(turn, call, call.proposal.arguments)
        else:
            self._tell(
                turn,
                call,
                call.raw_arguments if call.stage is CallStage.PENDING else call.arguments,
            )

    def _wait(self, call: ToolCall) -> HookRequests[None]:
        count_call(call, self._state)
        call.move(CallStage.PENDING)
        call.resolved_late = True
        yield from ()

    def _complete(self, call: ToolCall) -> HookRequests[None]:
        state = self._state
        ended = [source for source in call.sources if isinstance(source.outcome, Succeeded)]
        check_order(call, state, ended)
        yield from resolve_arguments(call, state, visible_data(call, state.data))
        if call.stage is not CallStage.PENDING:
            count_call(call, state)
        completed = call.arguments
        outcome = yield from run_before_hooks(call, state)
        if outcome is not None:
            call.end(outcome)
        # What was approved in a plan is not what hooks have made of it since.
        changed = not same(call.arguments, completed) or "repair" in call.hook_uses
        call.covered_by_plan = call.covered_by_plan and not changed

    def _refuse_circles(self, calls: list[ToolCall]) -> None:
        # One that only writes after another of a circle of references does not stand in it.
        for references in (True, False):
            for call, circle in find_cycles(calls, references=references).items():
                message = f"the references go in a circle: {circle}; nothing of it is carried out"
                call.end(refuse(ErrorCode.UNRESOLVED_REFERENCE, message))

    def _refuse_hopeless(self, calls: list[ToolCall]) -> None:
        """End the calls that wait for others in vain, before anything of them starts."""
        for call in calls:
            if call.stage is CallStage.PENDING and not call.is_decidable:
                why = explain_unresolvable(call, self._state.data)
                if why is not None:
                    call.end(refuse(ErrorCode.UNRESOLVED_REFERENCE, why))
                    uncount_call(call, self._state)

    def _begin(self, turn: int, calls: list[ToolCall]) -> None:
        """Ask people about the calls that need it, and start the others."""
        for call in calls:
            if self._needs_person(call):
                self._ask_about(turn, call)
        for call in calls:
            if call.stage in (CallStage.PROPOSED, CallStage.PENDING):
                self.start(turn, call)

    def _tell(self, turn: int, call: ToolCall, arguments: dict[str, Any]) -> None:
        tool = call.tool
        self._state.log.append(
            ToolCallEntry(
                turn=turn,
                call_id=call.id,
                tool=call.name,
                label=tool.label if tool is not None else None,
                arguments=arguments,
                reasoning=call.reasoning,
                waits_for=[other.id for other in call.open_dependencies],
                instance=call.instance,
            )
        )

    def _needs_person(self, call: ToolCall) -> bool:
        assert call.tool is not None  # prepared
        state = self._state
        if call.covered_by_plan:
            return False
        if call.name in state.rules.approval.auto or state.pending.is_always_approved(call.name):
            return False
        return requires_approval(
            call.tool, effective_policy(call.tool, state.rules), call.arguments
        )

    def _ask_about(self, turn: int, call: ToolCall) -> None:
        if not self._state.asks_people:
            call.end(refuse(ErrorCode.DENIED, "this run does not wait for anybody's approval"))
            return
        call.move(CallStage.WAITING)
        call.resolved_late = False  # what it is called with stands in the question
        self._ask(turn, call, approval_question(call, self._state))

    def _ask(self, turn: int, call: ToolCall, question: Question) -> None:
        self._questions[call.id] = question
        self.ask_people(turn, question)

    def _confirmation(self, turn: int, question: Question) -> None:
        self._state.log.append(
            ConfirmationRequiredEntry(
                turn=turn,
                call_id=question.call_id,
                reminder=question.reminders,
                approval=question.to_pending_approval(),
            )
        )

    def _apply(self, turn: int, call: ToolCall, question: Question, ruling: Ruling) -> None:
        match ruling:
            case Approved(arguments, edited_by):
                call.arguments = arguments
                if edited_by is not None:
                    call.raw_arguments, call.edited_by = arguments, edited_by
                self.start(turn, call)
            case Denied(reason):
                call.end(refuse(ErrorCode.DENIED, reason or "A person denied this call."))
            case AnsweredByPerson(result):
                call.end(Answered(result))
            case Expired():
                self._expire(turn, call, question)
            case _:
                assert_never(ruling)

    def _expire(self, turn: int, call: ToolCall, question: Question) -> None:
        self._state.log.append(DecisionEntry(call_id=call.id, outcome="expired"))
        if question.policy.on_timeout == "approve":
            self.start(turn, call)
            return
        message = f"nobody decided on `{call.name}` in time"
        call.end(refuse(ErrorCode.APPROVAL_TIMEOUT, message))
        if question.policy.on_timeout == "fail":
            self._state.end_reason = message

    def _reconcile(self, turn: int, call: ToolCall, ruling: Ruling) -> None:
        assert call.tool is not None  # it was carried out
        match ruling:
            case Approved():
                self.start(turn, call)
            case AnsweredByPerson(result):
                self.apply_outcome(turn, call, outcome_of_result(call.tool, result))
            case Denied(reason):
                message = "whether it took effect is unknown, and it was given up"
                call.end(
                    fail(ErrorCode.OUTCOME_UNKNOWN, f"{message}: {reason}" if reason else message)
                )
            case Expired():
                self._state.log.append(DecisionEntry(call_id=call.id, outcome="expired"))
                call.end(fail(ErrorCode.OUTCOME_UNKNOWN, "whether it took effect is unknown"))
            case _:
                assert_never(ruling)

    def _give_up(self, call: ToolCall, why: str) -> None:
        """A call that may have taken effect is not said to have been cancelled."""
        begun = call.stage in (CallStage.RUNNING, CallStage.UNSURE)
        if begun and call.tool is not None and call.tool.once:
            message = f"{why}; whether the call took effect is unknown"
            call.end(fail(ErrorCode.OUTCOME_UNKNOWN, message))
        elif begun:
            call.end(fail(ErrorCode.CANCELLED, why))
        else:
            self.skip(call, why)
