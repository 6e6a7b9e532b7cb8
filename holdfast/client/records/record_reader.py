"""Read a recorded run: its history gives results and hooks, its log calls and decisions.

Nothing is written. A worker of the run answers for its log.
"""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from holdfast.client.errors import RUN_FAILED, HoldfastError, NoSuchRunError, explain_rpc_errors
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.result import ending_of_result
from holdfast.runtime.backtest import run_record as recorded
from holdfast.runtime.text_safety import clean
from holdfast.schemas import log_entry, names
from holdfast.schemas.agent import AgentSnapshot
from holdfast.schemas.decision import Decision
from holdfast.schemas.internal import mcp_input
from holdfast.schemas.message import Delivered
from holdfast.schemas.tool import EACH, ResolvedTool

_HOOK: Final = re.compile(r"(t\d+(?:c\d+(?:\.\d+)?)?)-([A-Za-z]+)\d*")
_EXPIRED: Final = "the approval expired"


async def read_run_record(client: HoldfastClient, run_id: str) -> recorded.RunRecord:
    """Return the record of a run that has ended.

    Raises:
        HoldfastError: it has not ended, its history is deleted, or no worker answers for its log.
    """
    run = client.run(run_id)
    description = await run.describe()
    if description.workflow_type != names.AGENT_WORKFLOW:
        raise _refused(run_id, "is no run of an agent", "name a run of `holdfast list`")
    if not (await run.observe()).closed:
        raise _refused(run_id, "has not ended", "wait for its end")
    history = _History(client.temporal, run_id)
    await history.read(description.run_id)
    log = [entry async for entry in run.entries(names.CONTEXT)]
    if any(entry["type"] == "left_out" for entry in log):
        wrong = "cannot be tested: it continued as new, and left out entries of its log"
        raise _refused(run_id, wrong, "give its workers a store: --store")
    if history.request is None or history.snapshot is None:
        raise _refused(run_id, "ended before it began", f"see holdfast show {clean(run_id)}")
    return _Reading(history, log).record(run_id)


def _refused(run_id: str, wrong: str, todo: str) -> HoldfastError:
    return HoldfastError(f"run {clean(run_id)} {wrong}", todo, RUN_FAILED)


class _History:
    """What the histories of a run's executions hold, by activity id."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client, self._run_id = client, run_id
        self.request: dict[str, Any] | None = None
        self.snapshot: AgentSnapshot | None = None
        self.principal: dict[str, Any] | None = None
        self.ends: dict[str, list[recorded.End]] = defaultdict(list)
        self.sent: dict[str, list[Any]] = {}
        # The decisions as they were sent: their results are in no log.
        self.decisions: list[Decision] = []
        self.messages: list[Delivered] = []
        # By the number of the event that scheduled it.
        self._scheduled: dict[int, str] = {}

    async def read(self, execution: str) -> None:
        """Read an execution and those that it continues, the first one first."""
        chain: list[list[HistoryEvent]] = []
        while execution:
            handle = self._client.get_workflow_handle(self._run_id, run_id=execution)
            try:
                with explain_rpc_errors(self._run_id):
                    events = [each async for each in handle.fetch_history_events()]
            except NoSuchRunError:
                wrong = "cannot be tested: Temporal has deleted a part of its history"
                todo = "choose a newer run, or raise the namespace's retention"
                raise _refused(self._run_id, wrong, todo) from None
            chain.insert(0, events)
            start = events[0].workflow_execution_started_event_attributes
            execution = start.continued_execution_run_id
        for events in chain:
            self._scheduled.clear()
            for event in events:
                await self._add(event)

    async def _add(self, event: HistoryEvent) -> None:
        name = str(event.WhichOneof("attributes"))
        attributes: Any = getattr(event, name, None)
        match name.removesuffix("_event_attributes"):
            case "workflow_execution_started" if self.request is None:
                self.request = (await self._values(attributes.input.payloads))[0]
            case "workflow_execution_signaled":
                await self._add_input(attributes.signal_name, attributes.input.payloads)
            case "workflow_execution_update_accepted":
                sent = attributes.accepted_request.input
                await self._add_input(sent.name, sent.args.payloads)
            case "marker_recorded" if "data" in attributes.details:
                await self._add_local(attributes)
            case "start_child_workflow_execution_initiated":
                id = attributes.workflow_id.removeprefix(f"{self._run_id}.")
                self._scheduled[event.event_id] = id
                [request, *_] = await self._values(attributes.input.payloads)
                self.sent[id] = [request.get("input")]
            case "child_workflow_execution_completed":
                [value] = await self._values(attributes.result.payloads)
                self._add_delegate(self._scheduled[attributes.initiated_event_id], value)
            case named if named.startswith("activity_task_"):
                await self._add_activity(event.event_id, named, attributes)

    async def _add_activity(self, number: int, name: str, attributes: Any) -> None:
        if name.endswith("scheduled"):
            if attributes.activity_type.name != names.GENERATE:
                self._scheduled[number] = attributes.activity_id
                self.sent[attributes.activity_id] = await self._values(attributes.input.payloads)
            return
        id = self._scheduled.get(attributes.scheduled_event_id)
        if id is not None and name.endswith("completed"):
            await self._add_result(id, attributes.result.payloads)
        elif id is not None and name.endswith(("failed", "timed_out")):
            await self._add_failure(id, attributes.failure)

    async def _add_local(self, marker: Any) -> None:
        """Add what a local activity returned, as the SDK records it: `data` is not encoded."""
        about = json.loads(marker.details["data"].payloads[0].data)
        kind = about.get("activity_type")
        if kind not in (names.RESOLVE_AGENT, names.CHECK_TOKEN):
            id = str(about.get("activity_id"))
            if marker.HasField("failure"):
                await self._add_failure(id, marker.failure)
            else:
                await self._add_result(id, marker.details["result"].payloads)
        elif "result" in marker.details:
            [value] = await self._values(marker.details["result"].payloads)
            if kind == names.RESOLVE_AGENT:
                self.snapshot = self.snapshot or AgentSnapshot.read(value)
            elif "scopes" in value:
                self.principal = {key: value[key] for key in ("id", "scopes") if key in value}

    async def _add_result(self, id: str, payloads: Sequence[Payload]) -> None:
        [end] = await self._client.data_converter.decode(list(payloads), [RawValue])
        self._add_end(id, end)

    async def _add_failure(self, id: str, failure: Failure) -> None:
        self._add_end(id, await self._client.data_converter.decode_failure(failure))

    def _add_end(self, id: str, end: recorded.End) -> None:
        call = names.call_of(id)
        if call and id.startswith(f"{call}-task"):
            # The result of a server's task is that of its call.
            if not self.ends[call] or not _is_task(self.ends[call][-1]):
                return
            self.ends[call].pop()
            id = call
        self.ends[id].append(end)

    def _add_delegate(self, id: str, value: Any) -> None:
        ending = ending_of_result(value)
        if ending.result is not None and ending.status != "budget_exceeded":
            # A value, also where it has the form of an envelope.
            wrapped = {"_result": {"content": ending.result.output}}
            is_hook = names.call_of(id) != id
            made = ending.result.output if is_hook else wrapped
            converter = self._client.data_converter.payload_converter
            self.ends[id].append(RawValue(converter.to_payload(made)))

    async def _add_input(self, name: str, payloads: Sequence[Payload]) -> None:
        """Add a decision or a message of people, unless the run has ignored it as invalid."""
        if name in (names.APPROVE, names.DECIDE, names.MESSAGE, names.SEND) and payloads:
            [value, *_] = await self._values(payloads)
            with suppress(ValueError):
                if name in (names.APPROVE, names.DECIDE):
                    self.decisions.append(Decision.model_validate(value))
                else:
                    written = {"content": value} if isinstance(value, str) else value
                    self.messages.append(Delivered.model_validate(written))

    async def _values(self, payloads: Sequence[Payload]) -> list[Any]:
        return await self._client.data_converter.decode(list(payloads))


def _is_task(end: recorded.End) -> bool:
    if not isinstance(end, RawValue):
        return False
    value = json.loads(end.payload.data)
    return isinstance(value, dict) and mcp_input.TASK in value


class _Reading:
    """Joins a log with the histories of its run."""

    def __init__(self, history: _History, log: list[dict[str, Any]]) -> None:
        self._history, self._log = history, log
        self._made: dict[str, tuple[str, Any]] = {}
        self._questions: list[tuple[str, str, list[Decision]]] = []
        self._messages: list[recorded.MessageRecord] = []
        self._errors: dict[str, str] = {}
        self._turn, self._is_answered = 0, False

    def record(self, run_id: str) -> recorded.RunRecord:
        # Of a fork, what is before is the other run's.
        begin = max((n for n, one in enumerate(self._log) if one["type"] == "forked"), default=0)
        for each in self._log[begin:]:
            self._read(log_entry.read_record(each).entry)
        history, request = self._history, dict(self._history.request or {})
        assert history.snapshot is not None  # its reader has checked
        if "token" in (request.get("principal") or {}):
            request["principal"] = history.principal
        tools = {tool.name: tool for tool in recorded.all_tools(history.snapshot.agent)}
        hooks = [(id, found) for id in history.ends if (found := _HOOK.fullmatch(id))]
        return recorded.RunRecord(
            run_id,
            request,
            history.snapshot,
            self._log,
            [call for id in self._made for call in self._calls(id, tools)],
            [
                recorded.HookRecord(id, recorded.hook_key(found[2], history.sent[id]), end)
                for id, found in hooks
                for end in history.ends[id]
                if id in history.sent
            ],
            [recorded.QuestionRecord(digest, votes) for _, digest, votes in self._questions],
            self._messages,
        )

    def _read(self, entry: log_entry.Entry) -> None:
        match entry:
            case log_entry.TurnStartEntry(turn=turn):
                self._turn = turn
            case log_entry.ConfirmationRequiredEntry(reminder=0, forwarded=[], approval=asked):
                self._questions.append((asked.call_id, asked.digest, []))
                if asked.call_id in self._made and asked.kind != "plan":
                    self._made[asked.call_id] = asked.tool, asked.arguments
            case log_entry.DecisionEntry(call_id=id) if entry.ignored is None:
                self._decide(id, entry)
            case _:
                self._read_call(entry)
                self._read_message(entry)

    def _read_call(self, entry: log_entry.Entry) -> None:
        match entry:
            case log_entry.ToolCallEntry(call_id=id, tool=tool, arguments=arguments):
                self._made[id] = tool, arguments
            case log_entry.ToolStartEntry(call_id=id, arguments=arguments) if arguments is not None:
                self._made[id] = self._made[id][0], arguments
            case log_entry.ToolEndEntry(call_id=id, error=error) if error is not None:
                self._errors[id] = error.message

    def _read_message(self, entry: log_entry.Entry) -> None:
        match entry:
            case log_entry.MessageEntry(message=said) if said.role == "assistant":
                self._is_answered = bool(self._turn) and not said.calls
            case log_entry.MessageEntry(message=said) if said.role != "tool":
                self._add_message(said.role, said.content)

    def _add_message(self, role: str, content: Any) -> None:
        """Add a message that people sent to the model; the run writes its own again."""
        sent = self._history.messages
        found = next((one for one in sent if (one.role, one.content) == (role, content)), None)
        if found is not None:
            sent.remove(found)
            self._messages.append(recorded.MessageRecord(self._turn, found, self._is_answered))
            self._is_answered = False

    def _decide(self, id: str, entry: log_entry.DecisionEntry) -> None:
        votes = next((votes for asked, _, votes in reversed(self._questions) if asked == id), None)
        decided = entry.decided
        if votes is None:
            return
        if decided is None:
            votes.append(Decision(call_id=id, decision="deny", reason=_EXPIRED))
            return
        fields = decided.model_dump(include={"decision", "by", "groups", "reason", "remember"})
        if decided.decision in ("respond", "happened"):
            fields["result"] = self._result_sent(id)
        if entry.arguments is not None:
            fields["arguments"] = entry.arguments
            if id in self._made and decided.decision == "edit":
                self._made[id] = self._made[id][0], entry.arguments
        votes.append(Decision(call_id=id, **fields))

    def _result_sent(self, id: str) -> Any:
        sent = self._history.decisions
        for n, each in enumerate(sent):
            if each.call_id == id and each.decision in ("respond", "happened"):
                return sent.pop(n).result
        return None

    def _calls(self, id: str, tools: dict[str, ResolvedTool]) -> list[recorded.CallRecord]:
        """Return a call that ran; of a loop, the calls of its items."""
        tool, arguments = self._made[id]
        own = arguments.get(EACH) if isinstance(arguments, dict) else None
        made = {names.item_id(id, n): one for n, one in enumerate(own or ())} or {id: arguments}
        calls = []
        for each, known in made.items():
            ends, error = list(self._history.ends.get(each, ())), self._errors.get(each)
            sent = self._history.sent.get(each)
            if not ends and sent is not None and error is not None:  # of a delegate that failed
                ends = [ApplicationError(error, type=names.ErrorCode.TOOL_ERROR)]
            if ends:
                exact = None if sent is None else _sent_arguments(tools.get(tool), sent)
                known = known if exact is None else exact
                calls.append(recorded.CallRecord(each, tool, known, ends))
        return calls


def _sent_arguments(tool: ResolvedTool | None, sent: list[Any]) -> Any:
    """Return the arguments of a call in what its activity was sent; None if it has a part only."""
    if tool is None or not sent:
        return None
    if tool.knowledge is not None and tool.knowledge.kind != "activity":
        return {}  # it is sent the source alone
    binding = tool.activity
    is_whole = tool.memory or tool.mcp or tool.delegate
    if is_whole or binding is None or binding.input == "arguments":
        return sent[0]
    return sent[0]["arguments"] if binding.input == "call" else None
