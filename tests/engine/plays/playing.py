"""Play a run from a text: what happens to it, and the lines that its log gains by that.

A play is a file of three parts: a sentence that states the rule, the run in YAML, and the
transcript. A line of the transcript that begins with `> ` is an input, one key and its value in
YAML; the lines after it are what the log gained.

    > model: [pay: {amount: 5}]       the model answers: a text, its calls, or {text, calls}
    > model: {fails: no connection}   the request fails
    > model: {exempt: [desk], …}      the request may exceed these shared budgets alone
    > summary: …                      the model summarizes; as `model`
    > t1c1: ok                        the activity of a call returns a value
    > t1c1: {error: TEXT}             … fails; {unknown: TEXT}: no one knows whether it happened;
                                      {stops: TEXT}: it stops the run;
                                      {form: TEXT, fields: SCHEMA}: an MCP server asks for input
    > ann: approve t1c1               a person decides; or {deny: t1c1, reason: …, groups: […]}
    > ann: {signal: approve t1c1}     … as a signal, which gets no answer
    > ann: {approve: t1c1, digest: shown}   … by the digest that is shown
    > message: …                      a person sends a message; or {content, delivery, …}
    > time: 10m                       time passes, and what is due by the clock is applied
    > renew: {id, scopes, for: 1h}    a new token of the principal arrives
    > run: cancel                     or `close`, `continue as new`, `reset`, `use up its time`
    > hook NAME: …                    what the activity of a hook returns from now on

The run is a request with its agent, as `holdfast run` takes it, or a single `call`; `hooks` is what
the activity of each hook returns, and `delegate: true` makes the run that of a delegate.
"""

import re
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any

import yaml

from holdfast.catalog.agent_reader import resolve_definition
from holdfast.catalog.registry import DefinitionRegistry
from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.base import parse_duration
from holdfast.schemas.decision import Decision
from holdfast.schemas.internal.mcp_input import McpForm, McpInputRequired
from holdfast.schemas.internal.solution import Solution, WrittenCall
from holdfast.schemas.run import CallRequest, Principal, RunRequest
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.approvals.verdicts import DecisionRejected
from holdfast.workflows.engine.call.activities import outcome_of_failure
from holdfast.workflows.engine.call.outcomes import Failure, Outcome, Stopped, Unknown
from holdfast.workflows.engine.call.states import ToolCall, Turn
from holdfast.workflows.engine.execution_base import SingleCall
from holdfast.workflows.engine.phases import (
    AskModel,
    AskPeople,
    AwaitMessage,
    Fail,
    Finish,
    RunCalls,
)
from holdfast.workflows.engine.run import AgentRun
from holdfast.workflows.engine.run_messages import Mailbox
from tests.engine.driver import NOON, NoAnswer, Play, Playing, reply, until

_CALL = re.compile(r"t\d+c\d+(\.\d+)?(-\w+)?")
_EXECUTORS = {"_activity", "_delegate", "_person", "_knowledge"}
_DECISIONS = ("approve", "deny", "edit", "respond", "happened", "did_not_happen", "give_up")


class Transcript(Play):
    """A run whose inputs come one by one; it rests where it needs the next one."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.now: datetime = NOON
        self.shown = 0
        # The outcomes of calls that nothing has read, and whether a turn is being executed.
        self.arrived: dict[str, Outcome | Any] = {}
        self.is_begun = False
        hooks, desk = said.pop("hooks", None), PendingApprovals()
        is_delegate = said.pop("delegate", False)
        self.mailbox, self.clock = Mailbox(), lambda: self.now
        run: Any
        if "call" in said:
            [tool] = read_agent({"tools": [said["call"].pop("tool")]}).tools
            request = CallRequest.model_validate({**said.pop("call"), **said, "tool": tool.name})
            run = SingleCall(request, tool, desk, self.clock)
        else:
            self.definition = read_agent(said.pop("agent", {}))
            self.request = RunRequest.model_validate({"agent": "tester", "input": "go", **said})
            run = AgentRun.start(self.request, self.definition, self.mailbox, desk, self.clock)
        Playing.__init__(self, run, desk, hooks=hooks)
        self.run.state.is_delegate = is_delegate
        self.model, self.summaries = [], []
        self.settle()

    def settle(self) -> None:
        """Take every step that needs no input."""
        while True:
            step = self.next()
            match step:
                case RunCalls(turn):
                    if not self.is_begun:
                        self.begin(turn)
                    while ready := self.ready():
                        for one in ready:
                            self.advance(one)
                    self.is_begun = not self.turn.is_over
                    if self.is_begun:
                        return
                    self.run.closed(step)
                case AskPeople(question) if self.is_over(question):
                    self.run.budget_decided(step)
                case AskModel() | AskPeople() | AwaitMessage() | Finish() | Fail():
                    return
                case _:
                    self.take(step)

    def is_over(self, question: Question) -> bool:
        """Whether nothing is to be decided on a question any more."""
        return question.ruling is not None or self.run.needs_no_decision(question)

    async def wait_for_ruling(self, question: Question) -> None:
        """Leave a question to the inputs."""
        await until(lambda: self.is_over(question))

    async def execute(self, turn: Turn, one: ToolCall) -> Outcome:
        """Wait for the outcome of a call among the inputs."""
        await until(lambda: one.id in self.arrived)
        return self.outcome(one)

    def outcome(self, one: ToolCall) -> Outcome:
        """Take the outcome that arrived for a call."""
        said = self.arrived.pop(one.id)
        if isinstance(said, Failure):
            return outcome_of_failure(one.tool, said)
        self.outcomes[one.id] = said
        return super().outcome(one)

    # Inputs.

    def input(self, key: str, value: Any) -> None:
        """Apply one input, and take the steps that follow from it."""
        match key:
            case "model" | "summary":
                step = self.next()
                assert isinstance(step, AskModel), f"the model is not asked: {step}"
                assert bool(step.pointer.summary) == (key == "summary"), f"it is asked for {step}"
                exempt = value.pop("exempt", None) if isinstance(value, dict) else None
                assert exempt in (None, self.run.state.budget_scopes.exempt)
                (self.summaries if step.pointer.summary else self.model).append(read_answer(value))
                self.take(step)
            case "message":
                content = value if isinstance(value, dict) else {"content": value}
                self.receive(**content)
            case "time":
                self.pass_time(parse_duration(value))
            case "renew":
                self.renew(value)
            case "run":
                self.control(value)
            case _ if key.startswith("hook "):
                self.hooks[key.removeprefix("hook ")] = read_outcome(value)
            case _ if _CALL.fullmatch(key):
                calls = self.run.phases.turn.executed_calls if self.run.phases.turn else []
                running = [one.id for one in calls if one.is_running]
                assert key in running, f"{key} does not run: {running}"
                self.arrived[key] = read_outcome(value)
            case _:
                self.decide_as(key, value)
        self.settle()

    def control(self, action: str) -> None:
        """Cancel, close, reset or continue the run, or use up its time."""
        match action:
            case "cancel":
                self.run.cancel()
            case "close":
                self.mailbox.close()
            case "reset":
                self.run.state.was_reset = True
            case "use up its time":
                self.run.state.meter.run_out_of_time()
            case "continue as new":
                self.chained = True
            case _:
                raise AssertionError(f"no action on a run: {action}")

    def continue_as_new(self) -> None:
        """Continue as new once, at the next moment between two turns."""
        super().continue_as_new()
        self.chained = False

    def decide_as(self, person: str, value: Any) -> None:
        """Count a decision of a person; a rejected one adds the line of its refusal."""
        is_signal = isinstance(value, dict) and "signal" in value
        value = value["signal"] if is_signal else value
        if isinstance(value, str):
            decision, call_id = value.split()
            value = {decision: call_id}
        [decision] = [name for name in value if name in _DECISIONS]
        sent = {"callId": value.pop(decision), "decision": decision, "by": person, **value}
        question = self.desk.find_open(sent["callId"])
        if decision == "did_not_happen" and question is not None:
            sent = {"digest": question.digest, "nonce": question.nonce("run")} | sent
        if question is not None and sent.get("digest") == "shown":
            sent["digest"] = question.digest
        decided = Decision.model_validate(sent)
        if is_signal:
            if not self.desk.add_early(decided):
                self.run.questions.count_or_log(decided)
            return
        try:
            self.run.questions.count(decided)
        except DecisionRejected as error:
            self.refusals.append(str(error))

    def renew(self, principal: dict[str, Any]) -> None:
        """Take a new token of the principal, which expires so long from now, if at all."""
        expires_at = self.now + parse_duration(principal["for"]) if "for" in principal else None
        said = {"id": principal["id"], "scopes": principal["scopes"], "expiresAt": expires_at}
        self.run.questions.renew(Principal.model_validate(said))

    def pass_time(self, how_long: timedelta) -> None:
        """Advance the clock; questions are forwarded, reminded of, or expire."""
        self.now += how_long
        for question in self.desk.list_open():
            self.run.questions.forward(question, self.now)
            if question.ruling is None:
                self.run.questions.end_or_remind(question, self.now)
        step = self.next()
        if isinstance(step, AwaitMessage) and (step.idle_timeout or how_long * 2) <= how_long:
            self.mailbox.close()

    # Lines.

    def new_lines(self) -> list[str]:
        """Return a line for each entry that the log gained, and for each refusal."""
        records = self.records()
        lines = [line(record) for record in records[self.shown :]]
        self.shown = len(records)
        lines += [f"refused: {why}" for why in self.refusals]
        self.refusals.clear()
        return lines


def read_agent(written: dict[str, Any]) -> ResolvedAgent:
    """Return the agent of a play; a tool without an executor is run by the activity of its name."""
    model = {} if "calls" in written else {"model": {"endpoint": "script", "name": "script"}}
    definition = {"name": "tester", **model, **written}
    for part in [definition, *definition.get("skills", [])]:
        if "tools" not in part:
            continue
        part["tools"] = [
            {**({} if _EXECUTORS & {*tool} else {"_activity": tool["_tool"]}), **tool}
            for tool in part["tools"]
        ]
    world = DefinitionRegistry("default", endpoints=["script"], agents=None, is_incomplete=True)
    return resolve_definition(definition, "tester", world)


def read_answer(said: Any) -> Solution:
    """Return a model's answer."""
    if isinstance(said, dict) and "fails" in said:
        return NoAnswer(text=said["fails"])
    if isinstance(said, str):
        return reply(said)
    said = {"calls": said} if isinstance(said, list) else dict(said)
    calls = [
        WrittenCall(tool=name, arguments=arguments or {})
        for one in said.pop("calls", [])
        for name, arguments in (one.items() if isinstance(one, dict) else [(one, {})])
    ]
    return reply(said.pop("text", ""), *calls, **said)


def read_outcome(said: Any) -> Any:
    """Return the outcome of an activity, or the value that it returned."""
    match said:
        case {"error": str(message)}:
            return Failure("other", message)
        case {"unknown": str(message)}:
            return Unknown(message)
        case {"stops": str(message)}:
            return Stopped(message)
        case {"form": str(message), "fields": fields}:
            return McpInputRequired(state="s", forms={"f": McpForm(message=message, fields=fields)})
        case _:
            return said


# Lines of the log.

# What a line does not show: places in the log, what the line of the call shows, and constants.
_UNSHOWN = {
    *("n", "at", "type", "digest", "requestedAt", "expiresAt", "question", "providerId", "turn"),
    *("callId", "tool", "label", "turns"),
}


def line(record: dict[str, Any]) -> str:
    """Return an entry of the log as a line: its type, its call, and its fields."""
    kind, call_id = record["type"], record.get("callId")
    match record:
        case {"type": "message", "message": message}:
            content = message.get("content")
            is_error = isinstance(content, str) and content.startswith('{"error": {"code"')
            text = "(its error)" if is_error else flow(content)
            shown = [message["role"], message.get("callId"), text]
            shown += [f"{each['id']} {_call(each)}" for each in message.get("calls", ())]
        case {"type": "tool_call"}:
            shown = [call_id, _call(record)]
        case {"type": "confirmation_required", "approval": approval}:
            more = {name: value for name, value in approval.items() if name != "arguments"}
            shown = [call_id, *_fields(more), *_fields(record, {"approval"})]
        case {"type": "decision", "decided": decided}:
            decision = f"{decided['decision']} by {decided.get('by', '-')}"
            more = {
                name: value for name, value in decided.items() if name not in ("decision", "by")
            }
            shown = [call_id, decision, *_fields(more), *_fields(record, {"decided"})]
        case {"turn": turn} if call_id is None:
            shown = [str(turn), *_fields(record)]
        case _:
            shown = [call_id, *_fields(record)]
    return "  ".join(filter(None, [kind, *shown]))


def _call(call: dict[str, Any]) -> str:
    return f"{call['tool']} {flow(call['arguments'])}"


def _fields(record: dict[str, Any], unshown: Collection[str] = ()) -> Iterator[str]:
    for name, value in record.items():
        if name not in _UNSHOWN and name not in unshown:
            yield f"{name}: {flow(value)}"


def flow(value: Any) -> str:
    """Return a value on one line: a text as it is, else YAML."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.replace("\n", " ⏎ ")
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True
    )
    return text.strip().removesuffix("...").strip()


def play(text: str, kind: type[Transcript] = Transcript) -> str:
    """Return the text of a play with the lines that its run gives now."""
    head, _, transcript = text.partition("\n---\n")
    _, _, run = head.partition("\n\n")
    transcribed = kind(yaml.safe_load(run) or {})
    lines = [*transcribed.new_lines()]
    for command in (one for one in transcript.splitlines() if one.startswith("> ")):
        [(key, value)] = yaml.safe_load(command[2:]).items()
        transcribed.input(str(key), value)
        lines += [command, *transcribed.new_lines()]
    assert not transcribed.chained, "the run had no moment between two turns to continue as new"
    return "\n".join([f"{head}\n---", *lines, ""])
