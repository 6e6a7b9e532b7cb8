"""Test an agent against recorded runs: start, decide and send what the record has, compare."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from difflib import SequenceMatcher
from typing import Any, Final, Literal

from temporalio.service import RPCError

from holdfast.client.errors import DecisionRejectedError, HoldfastError, read_input
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.records.record_reader import read_run_record
from holdfast.client.run import PendingCall, Run
from holdfast.client.start import StartRequest, run_of_token
from holdfast.client.stream.run_feed import RunFeed
from holdfast.runtime.backtest.recorded_answers import RecordedAnswers
from holdfast.runtime.backtest.run_record import MissingAnswer, QuestionRecord, call_key
from holdfast.runtime.text_safety import arguments_line, clean, one_line
from holdfast.schemas import names
from holdfast.schemas.base import canonical_json
from holdfast.schemas.decision import Decision, shown_calls
from holdfast.schemas.log_entry import ToolCallEntry, ToolEndEntry, ToolStartEntry, read_record
from holdfast.schemas.run import RunRequest
from holdfast.schemas.tool import loop_arguments

_BY: Final = "backtest"
_LINE_CHARS: Final = 500
# Of the id of the recorded run, in that of its backtest.
_ID_CHARS: Final = 200
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
        request = dict(record.request)
        request |= {} if self.candidate is None else {"agent": self.candidate}
        request |= {} if self.token is None else {"principal": self.token}
        checked = read_input(RunRequest, request, "run", "test it with another --agent")
        started = StartRequest.of(checked, request, started_by="`holdfast backtest`")
        memo = {names.BACKTEST_OF: run_id}
        new = replace(started, workflow=names.BACKTEST_WORKFLOW, memo=memo, attributes={})
        id = run_of_token(self.token) or f"backtest-{run_id[:_ID_CHARS]}-{uuid.uuid4().hex[:8]}"
        answers = self.answers[id] = RecordedAnswers(record)
        try:
            run = await self.own.start_request(new, id, self.longest)
            await BacktestDriver(run, answers, may_miss=self.may_miss).follow()
            return await report_backtest(self.recorded.run(run_id), run, answers)
        finally:
            with suppress(RPCError):  # it has ended
                handle = self.own.temporal.get_workflow_handle(id)
                await handle.terminate("the command that ran the backtest has ended")
            del self.answers[id]


class BacktestDriver:
    """Sends one run what people sent the recorded one: their decisions and their messages."""

    def __init__(self, run: Run, answers: RecordedAnswers, *, may_miss: bool) -> None:
        self._run, self._answers, self._may_miss = run, answers, may_miss
        self._questions = [*answers.record.questions]
        # By the nonce of a question, the decisions that are still to be sent.
        self._votes: dict[str, list[Decision]] = {}
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
            if not self._votes[call.nonce]:
                missing = MissingAnswer(
                    names.turn_of(call.call_id), f"a decision on {call.tool}", call.arguments
                )
                self._answers.findings.stop(missing)
                await self._run.cancel()
                return False
            await self._decide(call, self._votes[call.nonce].pop(0))
            return True
        return False

    def _recorded_votes(self, call: PendingCall) -> list[Decision]:
        found: QuestionRecord | None = next(
            (each for each in self._questions if each.digest == call.digest), None
        )
        if found is None:
            return []
        self._questions.remove(found)
        return list(found.votes)

    def _own_votes(self, call: PendingCall) -> list[Decision]:
        """Return the decisions on what the record never asked; none if that ends the backtest."""
        known = all(map(self._answers.has_call, _keys_of(call)))
        if not self._may_miss and not (known and call.kind in ("call", "plan")):
            return []
        if not known or call.kind not in ("call", "plan"):
            missing = MissingAnswer(
                names.turn_of(call.call_id), f"a decision on {call.tool}", call.arguments
            )
            self._answers.findings.filled_in.append(missing)
        verdict: Literal["approve", "deny", "give_up"] = "approve"
        if call.kind in ("input", "reconcile"):
            verdict = "deny" if call.kind == "input" else "give_up"
        voters = [f"{_BY} {n}" for n in range(1, call.quorum + 1)]
        return [Decision(call_id=call.call_id, decision=verdict, by=by) for by in voters]

    async def _decide(self, call: PendingCall, vote: Decision) -> None:
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
            if error.code not in _DECIDED:
                raise

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
    """The result of one backtest; `changed` and `missing` are calls of the recorded run.

    `missing` ones are made no more, `added` ones are new. The cost is that of the model.
    """

    run: str
    backtest: str
    verdict: Literal["equal", "changed", "stopped"]
    status: str
    reason: str
    equal: int
    changed: int
    missing: int
    added: int
    output_equal: bool
    cost: float
    stopped_by: MissingAnswer | None
    filled_in: Sequence[MissingAnswer]

    def to_json(self) -> dict[str, Any]:
        """Return the report as the command prints it with `--json`."""
        calls = {key: getattr(self, key) for key in ("equal", "changed", "missing", "added")}
        stopped = None if self.stopped_by is None else self.stopped_by.to_json()
        return {
            "run": self.run,
            "backtest": self.backtest,
            "verdict": self.verdict,
            "status": self.status,
            "reason": self.reason,
            "calls": calls,
            "outputEqual": self.output_equal,
            "cost": self.cost,
            "stoppedBy": stopped,
            "filledIn": [each.to_json() for each in self.filled_in],
        }

    def lines(self) -> Iterator[str]:
        """Yield the report for a terminal."""
        calls = f"{self.equal} equal, {self.changed} changed, {self.missing} missing"
        output = "equal" if self.output_equal else "changed"
        ends = f"output {output}; cost {self.cost:.4f}"
        yield f"{clean(self.run)}: {self.verdict}; calls {calls}, {self.added} new; {ends}"
        has_reason = self.reason and self.stopped_by is None
        notes = [f"{self.status}: {self.reason}"] if has_reason else []
        for one in filter(None, [self.stopped_by, *self.filled_in]):
            what = "stopped by" if one is self.stopped_by else "not recorded"
            arguments = arguments_line(one.arguments) if isinstance(one.arguments, dict) else ""
            notes.append(f"{what}: turn {one.turn}, {one.what} {arguments}".rstrip())
        yield from (f"  {one_line(note, _LINE_CHARS)}" for note in notes)


async def report_backtest(source: Run, run: Run, answers: RecordedAnswers) -> BacktestReport:
    """Compare an ended backtest with its recorded run."""
    before, after = await source.ending(), await run.ending()
    entries = [entry async for entry in run.entries(names.CONTEXT)]
    counts = _compared(_calls_in(answers.record.log), _calls_in(entries))
    outputs = [end.result and end.result.output for end in (before, after)]
    is_equal = canonical_json(outputs[0]) == canonical_json(outputs[1])
    is_equal = is_equal and before.status == after.status
    findings = answers.findings
    all_equal = is_equal and not (counts["changed"] or counts["missing"] or counts["added"])
    spent = after.result or after.spent
    cost = (spent.usage.cost if spent is not None else None) or 0.0
    verdict: Literal["equal", "changed", "stopped"] = "equal" if all_equal else "changed"
    return BacktestReport(
        source.id,
        run.id,
        "stopped" if findings.stopped_by is not None else verdict,
        after.status,
        after.message,
        **counts,
        output_equal=is_equal,
        cost=cost + findings.cost,
        stopped_by=findings.stopped_by,
        filled_in=findings.filled_in,
    )


def _calls_in(log: Iterable[dict[str, Any]]) -> list[tuple[str, bytes]]:
    """Return the tool of each call of a log, and its arguments with its error."""
    calls: dict[str, list[Any]] = {}
    for record in log:
        match read_record(record).entry:
            case ToolCallEntry(call_id=id, tool=tool, arguments=arguments):
                calls[id] = [tool, arguments, None]
            case ToolStartEntry(call_id=id, arguments=arguments) if arguments is not None:
                calls[id][1] = arguments
            case ToolEndEntry(call_id=id, error=error) if error is not None and id in calls:
                calls[id][2] = error.code
    return [(tool, canonical_json(rest)) for tool, *rest in calls.values()]


def _compared(before: list[tuple[str, bytes]], after: list[tuple[str, bytes]]) -> dict[str, int]:
    counts = dict.fromkeys(("equal", "changed", "missing", "added"), 0)
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            counts["equal"] += b - a
            continue
        ours, theirs = [tool for tool, _ in before[a:b]], [tool for tool, _ in after[c:d]]
        both = sum(min(ours.count(tool), theirs.count(tool)) for tool in {*ours})
        counts["changed"] += both
        counts["missing"] += len(ours) - both
        counts["added"] += len(theirs) - both
    return counts
