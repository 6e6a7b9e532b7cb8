"""The questions of a run to people, and the decisions that it receives, as its log shows them."""

from holdfast.schemas.decision import Decision, Kind, Receipt
from holdfast.schemas.log_entry import ConfirmationRequiredEntry, DecisionEntry
from holdfast.workflows.engine.approvals.policy import effective_policy
from holdfast.workflows.engine.approvals.question import DecisionRejected, Question
from holdfast.workflows.engine.call.tool_call import ToolCall
from holdfast.workflows.engine.execution.preparation import fit_arguments
from holdfast.workflows.engine.run_state import RunState


class Questions:
    """The questions of one run, and which of them are on calls."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._of_calls: dict[str, Question] = {}

    def of(self, call: ToolCall) -> Question:
        """Return the question on a call whose approval is pending."""
        return self._of_calls[call.id]

    def close(self, call: ToolCall) -> Question | None:
        """Forget the question on a call; return it if there was one."""
        return self._of_calls.pop(call.id, None)

    def ask_about(self, turn: int, call: ToolCall, kind: Kind, text: str) -> None:
        """Add a question on a call."""
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
        self._of_calls[call.id] = question
        self.ask(turn, question)

    def ask(self, turn: int, question: Question) -> None:
        """Add a question, and count the decisions that arrived before it."""
        early = self._state.pending.add(question)
        self._log(turn, question)
        for decision in early:
            self.count_or_log(decision)

    def remind(self, turn: int, question: Question) -> None:
        """Log a reminder of a question."""
        question.count_reminder()
        self._log(turn, question)

    def count(self, decision: Decision) -> Receipt:
        """Count a decision, or raise `DecisionRejected` with the reason."""
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
            self.count(decision)
        except DecisionRejected as error:
            self.log_ignored(decision, str(error))

    def log_ignored(self, decision: Decision, why: str) -> None:
        """Log a rejected decision."""
        self._state.log.append(DecisionEntry(call_id=decision.call_id, ignored=why))

    def log_expiry(self, question: Question) -> None:
        """Log that the timeout for a decision passed."""
        self._state.log.append(DecisionEntry(call_id=question.call_id, outcome="expired"))

    def _log(self, turn: int, question: Question) -> None:
        self._state.log.append(
            ConfirmationRequiredEntry(
                turn=turn,
                call_id=question.call_id,
                reminder=question.reminders,
                approval=question.to_pending_approval(),
            )
        )
