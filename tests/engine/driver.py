"""A run without a server: the engine, and a shell that plays a script.

What the model answers, how activities end and what people decide are given beforehand, or chosen
by a test as it goes.
"""

import json
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Self, TypeVar

from holdfast.schemas.agent import AgentSnapshot, ModelSettings, ResolvedAgent, WorkerFacts
from holdfast.schemas.base import link, sha256
from holdfast.schemas.budget import BUDGET_DEFAULTS
from holdfast.schemas.decision import Decision
from holdfast.schemas.internal.model_request import ConversationPageRequest
from holdfast.schemas.internal.solution import Solution, WrittenCall
from holdfast.schemas.message import Delivered
from holdfast.schemas.run import CallRequest, RunRequest
from holdfast.schemas.tool import ActivityBinding, RepairAgent, ResolvedTool
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.approvals.verdicts import DecisionRejected
from holdfast.workflows.engine.call.activities import (
    Hook,
    HookRequests,
    HookResult,
    advance,
    outcome_of_result,
)
from holdfast.workflows.engine.call.outcomes import Outcome, Succeeded
from holdfast.workflows.engine.call.states import ToolCall, Turn
from holdfast.workflows.engine.continue_as_new import (
    WorkflowSnapshot,
    read_start_arguments,
    snapshot_of,
    start_arguments,
)
from holdfast.workflows.engine.execution_base import ExecutionBase, SingleCall
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.phases import (
    AskModel,
    AskPeople,
    AwaitMessage,
    Fail,
    Finish,
    RunCalls,
    Step,
)
from holdfast.workflows.engine.run import AgentRun
from holdfast.workflows.engine.run_messages import Mailbox
from holdfast.workflows.engine.turn_execution import TurnExecution

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MODEL = ModelSettings(endpoint="script", name="script")
FACTS = WorkerFacts(generate_timeout=timedelta(hours=1), heartbeat_timeout=timedelta(seconds=5))
WorkT = TypeVar("WorkT", bound=ExecutionBase)


def noon() -> datetime:
    """A clock that stands still."""
    return NOON


def tool(name: str = "look", parameters: dict[str, Any] | None = None, **more: Any) -> ResolvedTool:
    """A tool as a run keeps it; by default it takes anything and changes nothing."""
    return ResolvedTool(
        name=name,
        parameters=parameters or {"type": "object"},
        activity=ActivityBinding(type=name),
        **more,
    )


def agent(*tools: ResolvedTool, **more: Any) -> ResolvedAgent:
    """An agent with these tools."""
    budget = more.pop("budget", {})
    return ResolvedAgent(
        name="tester",
        tools=list(tools),
        budget=BUDGET_DEFAULTS.model_validate({**dict(BUDGET_DEFAULTS), **budget}),
        **{"model": MODEL, **more},
    )


def runner(hook: Hook) -> str:
    """What runs a hook: an activity, or an agent."""
    runs = hook.activity
    return runs.agent if isinstance(runs, RepairAgent) else runs.type


def call(name: str, arguments: Any = None, provider_id: str | None = None) -> WrittenCall:
    """A call as a model writes it."""
    return WrittenCall(tool=name, arguments=arguments or {}, provider_id=provider_id)


class NoAnswer(Solution):
    """A request that fails; `text` is why."""


def reply(text: str = "", *calls: WrittenCall, **more: Any) -> Solution:
    """One answer of a model."""
    return Solution(text=text, calls=list(calls), **more)


def run_again(question: Question) -> dict[str, Any]:
    """The decision to run a call again: a person has looked at this attempt."""
    return {"decision": "did_not_happen", "digest": question.digest, "nonce": question.nonce("run")}


@types.coroutine
def until(condition: Callable[[], bool]) -> Generator[Callable[[], bool], None, None]:
    """Wait for a condition, in a coroutine of a play."""
    yield condition


class PlayTask:
    """A turn or a call of a play: it has run to where it waits, and continues if it is ready."""

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._coroutine = coroutine
        self.is_over = False
        self.advance()

    def advance(self) -> None:
        """Run to the next wait, or to the end."""
        try:
            self.is_ready: Callable[[], bool] = self._coroutine.send(None)
        except StopIteration:
            self.is_over, self.is_ready = True, lambda: False


class Playing(Generic[WorkT]):
    """What is played of runs and single calls alike: calls that are executed, and their results."""

    def __init__(
        self,
        run: WorkT,
        desk: PendingApprovals,
        outcomes: dict[str, Any] | None = None,
        decisions: dict[str, list[Any]] | None = None,
        pick: Callable[[int], int] = lambda count: 0,
        hooks: dict[str, Any] | None = None,
    ) -> None:
        self.run = run
        self.hooks = hooks or {}
        self.hook_calls: list[Hook] = []
        self.desk = desk
        self.outcomes = dict(outcomes or {})
        self.decisions = decisions or {}
        self.refusals: list[str] = []
        self.pick = pick

    def next(self) -> Step:
        """The next step of the run."""
        self.run.proceed()
        return self.run.step

    def run_turn(self, turn: Turn) -> None:
        """Execute a turn; of what is ready, `pick` chooses what continues."""
        self.begin(turn)
        while ready := self.ready():
            self.advance(ready[self.pick(len(ready))])
        assert self.turn.is_over, "a call waits for ever"

    def begin(self, turn: Turn) -> None:
        """Begin a turn: it runs until all of its calls wait."""
        self.calls: list[PlayTask] = []
        self.slots = self.run.state.rules.concurrency
        self.turn = PlayTask(TurnExecution(self.run, self).execute(turn))

    def ready(self) -> list[PlayTask]:
        """The turn, or those of its calls, that can continue."""
        return [each for each in (self.turn, *self.calls) if each.is_ready()]

    def advance(self, one: PlayTask) -> None:
        """Let the turn, or a call, run to where it waits next."""
        one.advance()

    # What a turn needs of the world: a `turn_execution.Shell`.

    def publish(self) -> None:
        """Show nothing: a play has no viewers."""

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        await until(condition)

    async def wait_for_ruling(self, question: Question) -> None:
        await until(lambda: True)
        self.ask(question)

    async def run_hook(self, hook: Hook) -> HookResult:
        self.hook_calls.append(hook)
        return self.hooked(hook)

    async def execute(self, turn: Turn, one: ToolCall) -> Outcome:
        await until(lambda: True)
        return self.outcome(one)

    async def together(self, executions: Iterable[Coroutine[Any, Any, None]]) -> None:
        calls = [PlayTask(each) for each in executions]
        self.calls += calls
        await until(lambda: all(each.is_over for each in calls))

    def call_scope(self, one: ToolCall) -> nullcontext[None]:
        return nullcontext()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        while not self.slots:
            await until(lambda: self.slots > 0)
        self.slots -= 1
        try:
            yield
        finally:
            self.slots += 1

    def decision(self) -> nullcontext[None]:
        return nullcontext()

    def decided(self, deciding: HookRequests[None]) -> None:
        """Let the engine decide, and answer the hooks that it asks."""
        limits = self.run.state.limits
        hook = advance(deciding, limits)
        while hook is not None:
            self.hook_calls.append(hook)
            hook = advance(deciding, limits, self.hooked(hook))

    def hooked(self, hook: Hook) -> HookResult:
        """How a hook ends: an end, a value that it returns, or a function of its arguments."""
        said = self.hooks.get(runner(hook))
        if callable(said):
            said = said(*hook.arguments)
        return said if isinstance(said, HookResult) else Succeeded(said)

    def outcome(self, one: ToolCall) -> Outcome:
        """How a call ends."""
        key = one.id if one.id in self.outcomes else one.name
        said = self.outcomes.get(key, "ok")
        if isinstance(said, tuple):
            said, *later = said
            self.outcomes[key] = tuple(later)
        if callable(said):
            said = said(one)
        assert one.tool is not None
        if isinstance(said, Outcome):
            return said
        return outcome_of_result(one.tool, said, self.run.state.limits.budget())

    def ask(self, question: Question) -> None:
        """Let people decide, until there is a ruling."""
        said = self.decisions.get(question.call_id, [])
        while question.ruling is None and not self.run.needs_no_decision(question):
            self.decide(said.pop(0) if said else {"decision": "approve"}, question)

    def decide(self, decision: Any, question: Question) -> None:
        """One decision on a question, or a function of it; what is refused is in `refusals`."""
        if decision == "expire":
            self.desk.expire(question)
            return
        if callable(decision):
            decision = decision(question)
        if isinstance(decision, str):
            decision = {"decision": decision}
        if decision == {"decision": "did_not_happen"}:
            decision = run_again(question)
        if not isinstance(decision, Decision):
            decision = Decision.model_validate({"callId": question.call_id, **decision})
        try:
            self.run.questions.count(decision)
        except DecisionRejected as error:
            self.refusals.append(f"{error.code}: {error}")

    # The results.

    @property
    def result(self) -> Any:
        """The run's result, as JSON."""
        over = self.run.phases.end
        assert isinstance(over, Finish), over
        return over.result.to_json()

    @property
    def failure(self) -> Fail:
        """How the run failed."""
        over = self.run.phases.end
        assert isinstance(over, Fail), over
        return over

    @property
    def log(self) -> Log:
        """The run's log."""
        return self.run.state.log

    def records(self, *types: str) -> list[dict[str, Any]]:
        """The log's entries, or those of some types."""
        found = everything(self.log.records, len(self.log))
        return [record for record in found if not types or record["type"] in types]

    def events(self) -> list[dict[str, Any]]:
        """Every event."""
        return everything(self.log.events, 1_000_000)

    def event_lines(self) -> list[str]:
        """What happened, in short: `tool_call t1c1`, `turn_end`, …"""
        return [" ".join(filter(None, (e["type"], e.get("callId")))) for e in self.events()]

    def messages(self) -> list[dict[str, Any]]:
        """The messages of the conversation."""
        return [record["message"] for record in self.records("message")]

    def results(self) -> dict[str, Any]:
        """What the model reads of each call; each call exactly once."""
        found: dict[str, Any] = {}
        for message in self.messages():
            if message["role"] == "tool":
                assert message["callId"] not in found, "a call has two results"
                found[message["callId"]] = message.get("content", "")
        return found

    def errors(self) -> dict[str, str | None]:
        """The error code of each call, by call id."""
        ends = self.records("tool_end")
        return {end["callId"]: end.get("error", {}).get("code") for end in ends}


class Play(Playing[AgentRun]):
    """One run, played to its end.

    `outcomes` is how calls end, by tool or call id: an outcome, a value that was returned, a
    function of the call, or a tuple of these, one after the other. `decisions` is what people
    decide, by call id: decisions, or `expire`. `hooks` is what hooks return, by activity. `pick`
    chooses which of several open calls advances. Where it is `chained`, the run continues as new
    after every turn.
    """

    chained = False

    def __init__(
        self,
        *tools: ResolvedTool,
        model: Sequence[Solution] = (),
        summaries: Sequence[Solution] = (),
        outcomes: dict[str, Any] | None = None,
        decisions: dict[str, list[Any]] | None = None,
        pick: Callable[[int], int] = lambda count: 0,
        desk: PendingApprovals | None = None,
        clock: Callable[[], datetime] = noon,
        hooks: dict[str, Any] | None = None,
        definition: dict[str, Any] | None = None,
        **request: Any,
    ) -> None:
        self.request = RunRequest.model_validate({"agent": "tester", "input": "go", **request})
        desk = desk or PendingApprovals()
        self.mailbox, self.clock = Mailbox(), clock
        self.definition = agent(*tools, **(definition or {}))
        run = AgentRun.start(self.request, self.definition, self.mailbox, desk, clock)
        super().__init__(run, desk, outcomes, decisions, pick, hooks)
        self.model = list(model)
        self.summaries = list(summaries)

    def to_end(self, steps: int = 500) -> Self:
        """Take every step until the run has ended, or waits for a message."""
        for _ in range(steps):
            step = self.next()
            if isinstance(step, Finish | Fail | AwaitMessage):
                return self
            self.take(step)
        raise AssertionError(f"the run does not end within {steps} steps")

    def next(self) -> Step:
        """The next step of the run."""
        if self.chained and self.run.is_between_turns:
            self.continue_as_new()
        return super().next()

    def to_rest(self) -> "Play":
        """Take steps until the run is between two turns."""
        while not self.run.is_between_turns:
            self.take(self.next())
        return self

    def snapshot(self) -> WorkflowSnapshot:
        """What the run would take along now."""
        snapshot = AgentSnapshot(worker=FACTS, agent=self.definition)
        return snapshot_of(self.run, self.request, snapshot, 0, None)

    def continue_as_new(self) -> None:
        """Leave the run between two turns, and continue with what it left to the next."""
        values = start_arguments(self.snapshot(), self.log, stored=False, forgettable=0)
        assert values is not None, "it is too large"
        carried, pages = read_start_arguments([json.loads(json.dumps(values[0])), *values[1:]])
        self.desk, self.mailbox = carried.run.kept.desk, carried.run.mailbox
        whose = carried.snapshot.agent
        self.run = AgentRun(carried.run, carried.request, whose, self.clock, pages)

    def take(self, step: Any) -> None:
        """Take one step."""
        match step:
            case Hook() as hook:
                self.hook_calls.append(hook)
                self.run.requests.hook_answered(hook, self.hooked(hook))
            case AskModel(pointer) if pointer.summary:
                said = self.summaries.pop(0)
                if isinstance(said, NoAnswer):
                    self.run.requests.failed(said.text)
                else:
                    self.run.requests.summary_answered(said)
            case AskModel():
                said = self.model.pop(0)
                if isinstance(said, NoAnswer):
                    self.run.requests.failed(said.text)
                else:
                    self.run.model_answered(said)
            case RunCalls(turn):
                self.run_turn(turn)
                self.run.closed(step)
            case AskPeople(question):
                self.ask(question)
                self.run.budget_decided(step)

    def receive(self, content: Any, **more: Any) -> int:
        """A person sends a message."""
        return self.mailbox.put(Delivered(content=content, **more))

    def engine_messages(self) -> list[str]:
        """What the engine wrote to the model, besides results."""
        users = [message for message in self.messages() if message["role"] == "user"]
        return [message["content"] for message in users[1:]]


class PlayCall(Playing[SingleCall]):
    """A single call, played to its end; see `Play`."""

    def __init__(
        self,
        one: ResolvedTool,
        arguments: dict[str, Any] | None = None,
        *,
        outcome: Any = "ok",
        decisions: Sequence[Any] = (),
        **request: Any,
    ) -> None:
        given = {"tool": one.name, "arguments": arguments or {}, **request}
        desk = PendingApprovals()
        run = SingleCall(CallRequest.model_validate(given), one, desk, noon)
        super().__init__(run, desk, {one.name: outcome}, {"t1c1": list(decisions)})

    def to_end(self) -> "PlayCall":
        """Take every step until the call is over."""
        step = self.next()
        assert isinstance(step, RunCalls)
        self.run_turn(step.turn)
        self.run.closed(step)
        assert self.next() is self.run.phases.end
        return self


def everything(pages: Callable[[int, int], list[Any]], upto: int) -> list[dict[str, Any]]:
    """All entries, page by page."""
    found: list[dict[str, Any]] = []
    while len(found) < upto and (page := pages(len(found), 1000)):
        found += page
    return found


def read_again(log: Log) -> tuple[str, list[str]]:
    """The digest of a log, recomputed from the pages that a request to a model is read from, and
    the entries with messages."""
    digest, entries, started, after, offset = "", [], "", 0, 0
    while after < len(log):
        items, cut = log.page(ConversationPageRequest(after=after, upto=len(log), offset=offset))
        items = [started + items[0], *items[1:]]
        started = items.pop() if cut else ""
        offset = len(started)
        for item in items:
            entries.append(item)
            hashed = item[1:] if item.startswith("#") else sha256(item.encode())
            digest = link(digest, hashed)
        after += len(items)
    return digest, [entry for entry in entries if not entry.startswith("#")]


def ticking(seconds: float = 1) -> Callable[[], datetime]:
    """A clock that advances each time it is read."""
    now = NOON

    def clock() -> datetime:
        nonlocal now
        now += timedelta(seconds=seconds)
        return now

    return clock


def names_of(entries: Iterable[dict[str, Any]]) -> list[str]:
    """The types of entries."""
    return [entry["type"] for entry in entries]
