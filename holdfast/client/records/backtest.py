"""Test an agent against recorded runs: start, decide and send what the record has, compare."""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Literal

from temporalio.client import WorkflowHandle
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.errors import (
    DecisionRejectedError,
    HoldfastError,
    read_input,
    rpc_problem,
    wrong_command,
)
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.records.record_reader import read_run_record
from holdfast.client.records.run_diff import RecordedRun, compare, read_recorded_run
from holdfast.client.run import PendingCall, Run
from holdfast.client.start import StartRequest, run_of_token
from holdfast.client.stream.run_feed import RunFeed
from holdfast.runtime.backtest.recorded_answers import RecordedAnswers, take
from holdfast.runtime.backtest.run_record import (
    BacktestFindings,
    MissingAnswer,
    RunRecord,
    call_key,
    turn_in,
)
from holdfast.runtime.text_safety import arguments_line, clean, one_line
from holdfast.schemas import names
from holdfast.schemas.decision import Decision, shown_calls
from holdfast.schemas.internal.run_comparison import ComparedCalls, RunComparison
from holdfast.schemas.run import RunRequest
from holdfast.schemas.tool import loop_arguments
from holdfast.validation.problems import FixableError

_BY: Final = "backtest"
_LINE_CHARS: Final = 500
# Of the id of the recorded run, in that of its backtest.
_ID_CHARS: Final = 200
# A worker that is there answers a query; of one that is not, the server or the SDK reports this.
_ANSWERED_WITHIN: Final = timedelta(seconds=10)
_UNANSWERED: Final = (
    RPCStatusCode.CANCELLED,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.FAILED_PRECONDITION,
)
_MAX_ABANDONED: Final = 100
_DECIDED: Final = (names.ALREADY_DECIDED, names.NO_SUCH_CALL)


@dataclass(frozen=True)
class Backtests:
    """Starts the backtests of one worker: `own` has its task queue, `recorded` that of the record.

    Without a `candidate`, it is the agent of each run; a `token` is that of the principal. The
    worker finds the `answers` by workflow id. Each backtest has the time `longest`.
    """

    recorded: HoldfastClient
    own: HoldfastClient
    answers: dict[str, RecordedAnswers]
    longest: timedelta
    candidate: str | dict[str, Any] | None = None
    token: dict[str, Any] | None = None
    may_miss: bool = False

    async def test(self, run_id: str) -> "BacktestReport":
        """Test the candidate against a recorded run; nothing of it is left running.

        Raises:
            HoldfastError: the run cannot be tested.
        """
        record = await read_run_record(self.recorded, run_id)
        async with self.ended(record) as (run, answers):
            source = await read_recorded_run(self.recorded.run(run_id))
            return await report_backtest(source, run, answers)

    @asynccontextmanager
    async def ended(self, record: RunRecord) -> AsyncIterator[tuple[Run, RecordedAnswers]]:
        """Run the candidate against a record to its end.

        Raises:
            HoldfastError: the run cannot be started.
        """
        request = dict(record.request)
        request |= {} if self.candidate is None else {"agent": self.candidate}
        request |= {} if self.token is None else {"principal": self.token}
        checked = read_input(RunRequest, request, "run", "test it with another --agent")
        started = StartRequest.of(checked, request, started_by="`holdfast backtest`")
        memo = {names.BACKTEST_OF: record.id}
        new = replace(started, workflow=names.BACKTEST_WORKFLOW, memo=memo, attributes={})
        of = record.id.replace("/", "-")[:_ID_CHARS]
        id = run_of_token(self.token) or f"backtest-{of}-{uuid.uuid4().hex[:8]}"
        answers = RecordedAnswers(record, is_same_agent=self.candidate is None)
        self.answers[id] = answers
        # Raises if there is another run with this id.
        run = await self.own.start_request(new, id, self.longest)
        try:
            await BacktestDriver(run, answers, may_miss=self.may_miss).follow()
            ending = await run.ending()
            if self.candidate is not None and ending.code == names.INVALID_REQUEST:
                reason = ending.message.removeprefix(f"{ending.code}: ")
                raise wrong_command(f"--agent: {reason}", "nothing was tested: change the agent")
            yield run, answers
        finally:
            with suppress(RPCError):  # it has ended
                handle = self.own.temporal.get_workflow_handle(id)
                await handle.terminate("the command that ran the backtest has ended")
            del self.answers[id]

    async def end_abandoned(self, warn: Callable[[str], None]) -> None:
        """End the backtests of killed commands, for which no worker answers; raise no failure."""

        async def end(handle: WorkflowHandle[Any, Any]) -> None:
            try:
                await handle.query(names.STATUS, rpc_timeout=_ANSWERED_WITHIN)
            except (FixableError, TemporalError) as error:  # any other is a worker's answer
                if isinstance(error, RPCError) and error.status in _UNANSWERED:
                    with suppress(RPCError):  # it has ended
                        await handle.terminate("the command that ran the backtest was killed")

        temporal, query = self.own.temporal, f'WorkflowType = "{names.BACKTEST_WORKFLOW}"'
        query += ' AND ExecutionStatus = "Running"'
        async with asyncio.TaskGroup() as group:
            try:
                async for each in temporal.list_workflows(query, limit=_MAX_ABANDONED):
                    if each.task_queue != self.own.task_queue:
                        handle = temporal.get_workflow_handle(each.id, run_id=each.run_id)
                        group.create_task(end(handle))
            except RPCError as error:
                warn(f"backtests of killed commands are not ended: {rpc_problem(error)}")

    async def output_of(self, request: dict[str, Any], id: str) -> Any:
        """Return the output of an agent without tools, which is run beside the backtests.

        Raises:
            HoldfastError: it has no output.
        """
        new = StartRequest(names.BACKTEST_WORKFLOW, request, "agent", "")
        run = await self.own.start_request(new, id, self.longest)
        return await run.result()


class BacktestDriver:
    """Sends one run what people sent the recorded one: their decisions and their messages."""

    def __init__(self, run: Run, answers: RecordedAnswers, *, may_miss: bool) -> None:
        self._run, self._answers, self._may_miss = run, answers, may_miss
        self._questions = [*answers.record.questions]
        # By the nonce of a question, the decisions that are still to be sent.
        self._votes: dict[str, list[Decision]] = {}
        # The questions, by nonce and digest, that the record does not have, and that are decided.
        self._decided = set[tuple[str, str]]()
        # The length of the log when the last message was sent.
        self._sent_at = -1

    async def follow(self) -> None:
        """Decide and send messages until the run has ended."""
        feed = RunFeed(self._run)
        async with aclosing(feed.moves()) as moves:
            async for look in moves:
                if look.closed:
                    return
                try:
                    while await self._decide_next():
                        pass
                    await self._send_next()
                    feed.has_read(look)
                except HoldfastError as error:
                    if (await self._run.observe()).closed:
                        return
                    feed.notice(error)

    async def _decide_next(self) -> bool:
        """Send the next decision, and return whether there may be another one."""
        for call in await self._run.approvals():
            if not self._votes.get(call.nonce):
                self._votes[call.nonce] = self._recorded_votes(call) or self._own_votes(call)
            votes = self._votes[call.nonce]
            if votes and await self._decide(call, votes.pop(0)):
                return True
            self._answers.findings.stop(_missing_decision(call))
            await self._run.cancel()
            return False
        return False

    def _recorded_votes(self, call: PendingCall) -> list[Decision]:
        equal = [each for each in self._questions if each.digest == call.digest]
        found = take(self._questions, call.call_id, equal)
        return [] if found is None else list(found.votes)

    def _own_votes(self, call: PendingCall) -> list[Decision]:
        """Return the decisions on what the record never asked; none if that ends the backtest."""
        known = all(map(self._answers.has_call, _keys_of(call))) and call.kind in ("call", "plan")
        asked = call.nonce, call.digest
        if asked in self._decided or not (self._may_miss or known):
            return []
        self._decided.add(asked)
        if not known:
            self._answers.findings.filled_in.append(_missing_decision(call))
        verdict: Literal["approve", "deny", "give_up"] = "approve"
        if call.kind in ("input", "reconcile"):
            verdict = "deny" if call.kind == "input" else "give_up"
        voters = [f"{_BY} {n}" for n in range(1, call.quorum + 1)]
        return [Decision(call_id=call.call_id, decision=verdict, by=by) for by in voters]

    async def _decide(self, call: PendingCall, vote: Decision) -> bool:
        """Send a decision; return whether it fits the question."""
        # A group that was asked later, by a forward, may decide at once here.
        entitled = not call.approvers or {*vote.groups} & {*call.approvers}
        update: dict[str, Any] = {
            "call_id": call.call_id,
            "digest": call.digest,
            "nonce": call.nonce,
            "groups": vote.groups if entitled else call.approvers,
        }
        try:
            await self._run.decide(vote.model_copy(update=update))
        except DecisionRejectedError as error:
            return error.code in _DECIDED
        return True

    async def _send_next(self) -> None:
        """Send the next message to a run that waits for one; close it if there is none left."""
        report = await self._run.status()
        if report.status != "awaiting_message" or report.log.entries == self._sent_at:
            return
        self._sent_at = report.log.entries
        message = self._answers.take_awaited()
        if message is None:
            await self._run.close()
        else:
            await self._run.post(message.message)


def _missing_decision(call: PendingCall) -> MissingAnswer:
    return MissingAnswer(turn_in(call.call_id), f"a decision on {call.tool}", call.arguments)


def _keys_of(call: PendingCall) -> Sequence[bytes]:
    """Return the keys of the calls that a question is on: of a plan or a loop, all of them."""
    if call.kind == "plan":
        shown = shown_calls(call.arguments)
        pairs = [(str(each.get("tool")), each.get("arguments")) for each in shown]
    else:
        pairs = [(call.tool, call.arguments)]
    return [
        call_key(tool, one)
        for tool, arguments in pairs
        for one in (loop_arguments(arguments) or [arguments])
        if one is not None
    ]


@dataclass(frozen=True)
class BacktestReport:
    """The result of one backtest, the second run of the comparison; the cost is of the models."""

    found: RunComparison
    findings: BacktestFindings
    reason: str
    cost: float

    @property
    def verdict(self) -> Literal["equal", "changed", "stopped"]:
        if self.findings.stopped_by is not None:
            return "stopped"
        return "equal" if self.found.equal else "changed"

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of calls by status; `missing` are made no more, `new` are added."""
        counts = Counter(map(_status, self.found.calls))
        return {name: counts[name] for name in ("equal", "moved", "changed", "missing", "new")}

    def to_json(self) -> dict[str, Any]:
        """Return the report as the command prints it with `--json`."""
        stopped_by = self.findings.stopped_by
        return {
            "run": self.found.first.run,
            "backtest": self.found.second.run,
            "verdict": self.verdict,
            "status": self.found.second.status,
            "reason": self.reason,
            "calls": self.counts,
            "outputEqual": self.found.output.equal,
            "cost": self.cost,
            "stoppedBy": stopped_by and stopped_by.to_json(),
            "filledIn": [each.to_json() for each in self.findings.filled_in],
            "comparison": self.found.to_json(),
        }

    def lines(self) -> Iterator[str]:
        """Yield the report for a terminal."""
        calls = ", ".join(f"{number} {name}" for name, number in self.counts.items() if number)
        output = "equal" if self.found.output.equal else "changed"
        ends = f"calls: {calls or 'none'}; output {output}; cost {self.cost:.4f}"
        yield f"{clean(self.found.first.run)}: {self.verdict}; {ends}"
        stopped_by = self.findings.stopped_by
        if stopped_by is None and self.found.second.error is not None:
            yield _note(f"{self.found.second.status}: {self.reason}")
        for each in self.found.calls:
            if (status := _status(each)) != "equal":
                call = each.second or each.either
                yield _note(f"{status}: turn {call.turn}, {call.tool}", call.arguments)
        if stopped_by is not None:
            yield _note(f"stopped by: {stopped_by}", stopped_by.arguments)
        for one in self.findings.filled_in:
            yield _note(f"not recorded: {one}", one.arguments)


def _status(calls: ComparedCalls) -> str:
    return "new" if calls.first is None else calls.status


def _note(text: str, arguments: Any = None) -> str:
    shown = arguments_line(arguments) if isinstance(arguments, dict) else ""
    return f"  {one_line(f'{text} {shown}'.rstrip(), _LINE_CHARS)}"


async def report_backtest(
    source: RecordedRun, run: Run, answers: RecordedAnswers
) -> BacktestReport:
    """Compare an ended backtest with its recorded run."""
    found = compare(source, await read_recorded_run(run))
    ending, findings = await run.ending(), answers.findings
    return BacktestReport(
        found, findings, ending.message, (found.second.usage.cost or 0.0) + findings.cost
    )
