"""Verify and count decisions; date those by signal that a run reads after an expiry.

Temporal delivers a signal when a worker runs, which may be long after it was sent. While one
activity reads the times of all such decisions of a workflow task, no question expires; then each
counts as at its time, or is late. Decisions of later workflow tasks are late.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.base import rfc3339, sha256
    from holdfast.schemas.decision import Decision, DecisionClaims, ReceivedSignals, TokenCheck

from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.verdicts import DecisionRejected, sign_with_claims
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.run_state import TokenRejected
from holdfast.workflows.token_verification import check_token

MAX_READING = timedelta(minutes=2)
MAX_ATTEMPTS = 5
_MAX_ATTEMPT = timedelta(seconds=30)


def unverified_decision(decision: Decision) -> Decision:
    """Return the decision with its token's unverified claims, or raise `DecisionRejected`."""
    if decision.token is None:
        return decision
    try:
        claims = DecisionClaims.unchecked(decision.token)
    except ValueError as error:
        raise DecisionRejected(names.INVALID_DECISION, str(error)) from None
    return sign_with_claims(decision, claims, workflow.info().workflow_id)


async def verify_decision(
    desk: PendingApprovals,
    decision: Decision,
    at: datetime,
    limits: ValidationLimits,
    *,
    by_signal: bool = False,
) -> Decision:
    """Return the decision of this time, with the content of its verified token if it has one.

    A token that could not count is not verified; it raises `DecisionRejected`, as an invalid one.
    A signal has no validator: the activity compares its nonce, and the history has the result.
    """
    proof = decision.token or (decision.nonce if by_signal else None)
    if not proof:
        return decision
    question, _ = desk.check(unverified_decision(decision), at, limits)
    check = TokenCheck(
        token=proof,
        purpose="decision" if decision.token else "question",
        since=rfc3339(question.requested_at),
        sent_at=rfc3339(at) if at < workflow.now() else None,
        nonce=question.nonce(workflow.info().run_id),
    )
    try:
        claims = await check_token(check)
    except TokenRejected as error:
        raise DecisionRejected(names.INVALID_DECISION, str(error)) from None
    if decision.token is None:
        return decision
    return sign_with_claims(decision, DecisionClaims.read(claims), workflow.info().workflow_id)


async def count_decision(
    work: ExecutionBase, decision: Decision, at: datetime, limits: ValidationLimits
) -> None:
    """Count a decision of a signal, of this time; a rejected one is noted in the log."""
    with work.state.pending.hold():
        try:
            meant = await verify_decision(work.state.pending, decision, at, limits, by_signal=True)
            work.questions.count(meant, at, limits)
        except DecisionRejected as error:
            if work.phases.end is None:  # nothing follows the end of a log
                work.questions.log_ignored(decision, str(error))


@dataclass(frozen=True)
class LateDecision:
    """A decision that was read late, the bytes that were sent, and the number of the signal."""

    decision: Decision
    data: bytes
    number: int


class LateDecisions:
    """The late decisions of one execution."""

    def __init__(self, limits: ValidationLimits) -> None:
        self._limits = limits
        # The workflow task of the last signal, its number there, and the task of the one before.
        self._task = self._number = self._after = 0
        self._batch: list[LateDecision] = []
        self._is_reading = False

    def number_signal(self) -> int:
        """Return the number of the signal that is received now, in its workflow task, from 1."""
        task = workflow.info().get_current_history_length()
        if task != self._task:
            self._after, self._task, self._number = self._task, task, 0
        self._number += 1
        return self._number

    async def count(self, work: ExecutionBase, late: LateDecision) -> None:
        """Count a decision as at the time at which it was sent, or log that it is late."""
        if self._is_reading:
            await count_decision(work, late.decision, workflow.now(), self._limits)
            return
        self._batch.append(late)
        if len(self._batch) > 1:
            return  # the handler of the first one counts all
        with work.state.pending.hold():
            await asyncio.sleep(0)  # now the batch has every decision of this workflow task
            self._is_reading = True
            try:
                times = await self._read_times()
                for each in self._batch:
                    await self._count_as_sent(work, each, times)
            finally:
                self._batch, self._is_reading = [], False

    async def _read_times(self) -> dict[int, datetime] | None:
        """Return the times of the decisions that are found, or `None`: they cannot be read."""
        signals = ReceivedSignals(
            run_id=workflow.info().run_id,
            name=names.APPROVE,
            after=self._after,
            digests={each.number: sha256(each.data) for each in self._batch},
        )
        try:
            found = await workflow.execute_activity(
                names.FIND_SIGNALS,
                signals.to_json(),
                result_type=dict[str, str],
                start_to_close_timeout=_MAX_ATTEMPT,
                schedule_to_close_timeout=MAX_READING,
                retry_policy=RetryPolicy(maximum_attempts=MAX_ATTEMPTS),
                summary="Reads when decisions were sent that came after an expiry",
            )
        except FailureError as error:
            if workflow.cancellation_reason() is not None:
                raise asyncio.CancelledError from error
            return None
        return {int(number): datetime.fromisoformat(at) for number, at in found.items()}

    async def _count_as_sent(
        self, work: ExecutionBase, late: LateDecision, times: dict[int, datetime] | None
    ) -> None:
        question = work.state.pending.find_open(late.decision.call_id)
        at = None if times is None else times.get(late.number)
        if at is None and question is not None and late.decision.decision in ("deny", "give_up"):
            # It may have been sent in time, so nothing may run.
            is_believed = times is None or question.policy.on_timeout == "approve"
            at = question.last_moment if is_believed else None
        await count_decision(work, late.decision, at or workflow.now(), self._limits)
