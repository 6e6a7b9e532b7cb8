"""What is decided about the calls of a turn, from the model's words to the one result of each.

The shell asks and acts in this order: `open` some calls, wait for people and `rule`, carry out what
is running and `settle` it, and `close` them. What is told is told in source order.
"""

from typing import Any, assert_never

from schemas.decision import Decision, Receipt
from schemas.entry import (
    ConfirmationRequired,
    DecisionEntry,
    MessageEntry,
    NoticeEntry,
    ToolCall,
    ToolEnd,
    ToolStart,
)
from schemas.errors import CallError, ErrorCode
from schemas.reference import Path
from workflows.engine import opening
from workflows.engine.approval import (
    Approved,
    Denied,
    Expired,
    Given,
    Question,
    Ruling,
    Unacceptable,
    needs_person,
    policy_of,
)
from workflows.engine.checking import bounded
from workflows.engine.kept import Kept
from workflows.engine.outcome import (
    Answered,
    Final,
    Outcome,
    Succeeded,
    Unknown,
    failed,
    of_result,
    refused,
)
from workflows.engine.prompt import is_shown_whole, result_message
from workflows.engine.proposal import Refusal, fit_arguments, prepare
from workflows.engine.state import CannotWrite
from workflows.engine.turn import Call, Stage, error_of


class Calls:
    """The calls of one run's turns."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._questions: dict[str, Question] = {}

    def open(self, turn: int, calls: list[Call]) -> None:
        """Decide what becomes of the calls: refused, waiting for people, or to be carried out.

        They are told first, then those that wait, then those that start: each in source order.
        """
        with bounded():
            for call in calls:
                self._propose(turn, call)
            for call in calls:
                if call.stage is Stage.PROPOSED and self._needs_person(call):
                    self._ask_about(turn, call)
        for call in calls:
            if call.stage is Stage.PROPOSED:
                self._start(turn, call)

    def question(self, call: Call) -> Question:
        """What people are asked about a call that waits."""
        return self._questions[call.id]

    def ask(self, turn: int, question: Question) -> None:
        """Put a question to people, and count what they have said already."""
        early = self._kept.desk.ask(question)
        self._confirmation(turn, question)
        for decision in early:
            self.hear(decision)

    def remind(self, turn: int, question: Question) -> None:
        """Ask people again."""
        question.reminders += 1
        self._confirmation(turn, question)

    def decide(self, decision: Decision) -> Receipt:
        """Count a decision.

        Raises:
            Unacceptable: it does not count, and why.
        """
        kept = self._kept
        receipt, decided = kept.desk.count(decision, kept.clock())
        kept.log.append(
            DecisionEntry(
                call_id=decision.call_id,
                decided=decided,
                arguments=decision.arguments,
                outcome="decided" if receipt.decided else None,
            )
        )
        return receipt

    def hear(self, decision: Decision) -> None:
        """Count a decision that cannot be refused to whoever sent it: a wrong one is noted."""
        try:
            self.decide(decision)
        except Unacceptable as error:
            self._kept.log.append(DecisionEntry(call_id=decision.call_id, ignored=str(error)))

    def rule(self, turn: int, call: Call) -> None:
        """Let a question's ruling take effect on its call."""
        question = self._questions.pop(call.id)
        ruling = question.ruling
        if ruling is None:
            self._kept.desk.withdraw(question)
            self._give_up(call, "the run ended before anybody decided")
        elif call.stage is Stage.UNSURE:
            self._reconcile(turn, call, ruling)
        else:
            self._apply(turn, call, question, ruling)

    def settle(self, turn: int, call: Call, outcome: Outcome) -> None:
        """Take in how carrying out a call ended; an unknown end is asked about."""
        match outcome:
            case Unknown(message) if self._kept.asks_people:
                call.move(Stage.UNSURE)
                call.unsure += 1
                self._ask(turn, call, "reconcile", _RECONCILE.format(message=message.rstrip(".")))
            case Unknown(message):
                call.end(failed(ErrorCode.OUTCOME_UNKNOWN, message))
            case _:
                call.end(outcome)

    def give_up(self, call: Call, why: str) -> None:
        """End a call because its run ends."""
        question = self._questions.pop(call.id, None)
        if question is not None:
            self._kept.desk.withdraw(question)
        self._give_up(call, why)

    def close(self, turn: int, calls: list[Call]) -> None:
        """Tell how the calls ended, and write down their results."""
        with bounded():
            for call in calls:
                self._close(turn, call)

    def _close(self, turn: int, call: Call) -> None:
        assert call.outcome is not None  # every call is ended before it is closed
        call.outcome = self._write(call, call.outcome)
        if isinstance(call.outcome, Succeeded | Answered):
            self._kept.succeeded[call.name] = None
        self._end(turn, call, call.outcome)
        call.closed = True

    def _propose(self, turn: int, call: Call) -> None:
        beyond = self._kept.meter.refuse_call(call.name)
        try:
            if beyond is not None:
                raise Refusal(ErrorCode.BLOCKED, beyond)
            prepare(call, self._kept.rules, self._kept.data)
            self._check_limits(call)
        except Refusal as refusal:
            self._tell(turn, call, call.asked.arguments)
            call.end(refused(refusal.error.code, refusal.error.message))
        else:
            self._kept.started[call.name] = self._kept.started.get(call.name, 0) + 1
            self._tell(turn, call, call.arguments)

    def _check_limits(self, call: Call) -> None:
        assert call.tool is not None  # prepared
        limits = call.tool.limits
        if limits.per_run is not None and self._kept.started.get(call.name, 0) >= limits.per_run:
            raise Refusal(
                ErrorCode.BLOCKED, f"`{call.name}` may be called {limits.per_run} times in a run"
            )
        missing = [name for name in limits.after if name not in self._kept.succeeded]
        if missing:
            raise Refusal(
                ErrorCode.BLOCKED, f"`{call.name}` may be called after {', '.join(missing)} only"
            )

    def _tell(self, turn: int, call: Call, arguments: dict[str, Any]) -> None:
        tool = call.tool
        self._kept.log.append(
            ToolCall(
                turn=turn,
                call_id=call.id,
                tool=call.name,
                label=tool.label if tool is not None else None,
                arguments=arguments,
                reasoning=call.reasoning,
            )
        )

    def _needs_person(self, call: Call) -> bool:
        assert call.tool is not None  # prepared
        kept = self._kept
        if call.name in kept.rules.approval.auto or kept.desk.remembers(call.name):
            return False
        return needs_person(call.tool, policy_of(call.tool, kept.rules), call.arguments)

    def _ask_about(self, turn: int, call: Call) -> None:
        if not self._kept.asks_people:
            call.end(refused(ErrorCode.DENIED, "this run does not wait for anybody's approval"))
            return
        call.move(Stage.WAITING)
        self._ask(turn, call, "call", f"Shall `{call.name}` be carried out with these arguments?")

    def _ask(self, turn: int, call: Call, kind: Any, text: str) -> None:
        assert call.tool is not None  # prepared
        tool = call.tool
        question = Question(
            call_id=call.id,
            kind=kind,
            tool=tool.name,
            label=tool.label or tool.name,
            arguments=call.arguments,
            reasoning=call.reasoning,
            text=text,
            policy=policy_of(tool, self._kept.rules),
            requested_at=self._kept.clock(),
            check_arguments=lambda arguments: fit_arguments(tool, arguments),
            principal=self._kept.principal,
            round=call.unsure,
        )
        self._questions[call.id] = question
        self.ask(turn, question)

    def _confirmation(self, turn: int, question: Question) -> None:
        self._kept.log.append(
            ConfirmationRequired(
                turn=turn,
                call_id=question.call_id,
                reminder=question.reminders,
                approval=question.waiting(),
            )
        )

    def _start(self, turn: int, call: Call) -> None:
        """Carry the call out, if its principal may: scopes are checked now, not before."""
        assert call.tool is not None  # prepared
        held = self._kept.scopes()
        missing = [scope for scope in call.tool.requires if scope not in held]
        if missing:
            message = f"`{call.name}` needs the scope {', '.join(missing)}, which is not held here"
            call.end(refused(ErrorCode.TOKEN_SCOPE_INSUFFICIENT, message))
            return
        call.move(Stage.RUNNING)
        self._kept.log.append(ToolStart(turn=turn, call_id=call.id, tool=call.name))

    def _apply(self, turn: int, call: Call, question: Question, ruling: Ruling) -> None:
        match ruling:
            case Approved(arguments, edited_by):
                call.arguments, call.edited_by = arguments, edited_by
                self._start(turn, call)
            case Denied(reason):
                call.end(refused(ErrorCode.DENIED, reason or "A person denied this call."))
            case Given(result):
                call.end(Answered(result))
            case Expired():
                self._expire(turn, call, question)
            case _:
                assert_never(ruling)

    def _expire(self, turn: int, call: Call, question: Question) -> None:
        self._kept.log.append(DecisionEntry(call_id=call.id, outcome="expired"))
        if question.policy.on_timeout == "approve":
            self._start(turn, call)
            return
        message = f"nobody decided on `{call.name}` in time"
        call.end(refused(ErrorCode.APPROVAL_TIMEOUT, message))
        if question.policy.on_timeout == "fail":
            self._kept.ended_with = message

    def _reconcile(self, turn: int, call: Call, ruling: Ruling) -> None:
        assert call.tool is not None  # it was carried out
        match ruling:
            case Approved():
                self._start(turn, call)
            case Given(result):
                self.settle(turn, call, of_result(call.tool, result))
            case Denied(reason):
                message = "whether it took effect is unknown, and it was given up"
                call.end(
                    failed(ErrorCode.OUTCOME_UNKNOWN, f"{message}: {reason}" if reason else message)
                )
            case Expired():
                self._kept.log.append(DecisionEntry(call_id=call.id, outcome="expired"))
                call.end(failed(ErrorCode.OUTCOME_UNKNOWN, "whether it took effect is unknown"))
            case _:
                assert_never(ruling)

    def _give_up(self, call: Call, why: str) -> None:
        """A call that may have taken effect is not said to have been cancelled."""
        begun = call.stage in (Stage.RUNNING, Stage.UNSURE)
        if begun and call.tool is not None and call.tool.once:
            message = f"{why}; whether the call took effect is unknown"
            call.end(failed(ErrorCode.OUTCOME_UNKNOWN, message))
        elif begun:
            call.end(failed(ErrorCode.CANCELLED, why))
        else:
            call.end(refused(ErrorCode.CANCELLED, why))

    def _write(self, call: Call, outcome: Final) -> Final:
        """Write the result where it belongs; a write that cannot be made is the call's error."""
        paths, value = _writes(call, outcome)
        try:
            self._kept.write(paths, value, call.output_method, call.id)
        except CannotWrite as error:
            if error_of(outcome) is None:
                return failed(ErrorCode.INVALID_OUTPUT, str(error), value)
            self._kept.log.append(NoticeEntry(text=f"the error of {call.id} was not kept: {error}"))
        return outcome

    def _end(self, turn: int, call: Call, outcome: Final) -> None:
        place = _place(call, outcome)
        message = result_message(call, outcome, place)
        whole = place is not None or is_shown_whole(call, outcome, message)
        error: CallError | None = error_of(outcome)
        self._kept.log.append(
            ToolEnd(
                turn=turn,
                call_id=call.id,
                tool=call.name,
                error=error,
                value=None if whole else getattr(outcome, "value", None),
                details=outcome.details if isinstance(outcome, Succeeded) else None,
            )
        )
        self._kept.log.append(MessageEntry(message=message))
        if isinstance(outcome, Succeeded) and outcome.message is not None:
            opening.add(self._kept, outcome.message)


_RECONCILE = (
    "{message}. Did it happen? `happened` takes `result` as what it returned, `did_not_happen`"
    " carries it out again, `give_up` leaves it unknown."
)


def _writes(call: Call, outcome: Final) -> tuple[tuple[Path, ...], Any]:
    if call.output_path is None:
        return (), None
    match outcome:
        case Succeeded(value, _, _, None) | Answered(value):
            return call.output_path.result, value
        case _ if (error := error_of(outcome)) is not None:
            return call.output_path.error, error.to_json()
        case _:
            return (), None


def _place(call: Call, outcome: Final) -> str | None:
    """Where the whole result can be read from, once it is written."""
    paths, _ = _writes(call, outcome)
    return str(paths[0]) if paths and error_of(outcome) is None else None
