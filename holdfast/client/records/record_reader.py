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
from holdfast.client.records.recorded_calls import RecordedLog
from holdfast.client.result import ending_of_result
from holdfast.runtime.backtest import run_record as recorded
from holdfast.runtime.text_safety import clean
from holdfast.schemas import log_entry, names
from holdfast.schemas.agent import AgentSnapshot
from holdfast.schemas.decision import Decided, Decision, DecisionClaims
from holdfast.schemas.internal import mcp_input
from holdfast.schemas.message import ChatMessage, Delivered
from holdfast.schemas.tool import ResolvedTool

_HOOK: Final = re.compile(r"(t\d+(?:c\d+(?:\.\d+)?)?)-([A-Za-z]+)\d*")


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
    return _record(run_id, history, log)


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

    def ends_of(self, id: str, end: log_entry.ToolEndEntry | None) -> list[recorded.End]:
        """Return how the executions of a call ended; `end` is that of the call in the log."""
        error = None if end is None else end.error
        if id in self.ends or id not in self.sent or error is None:
            return self.ends.get(id, [])
        # Of a delegate that failed.
        return [ApplicationError(error.message, error.code.value, type=names.RECORDED_ERROR)]

    def take_message(self, said: ChatMessage) -> Delivered | None:
        """Take a message that people sent to the model; the run writes its own again."""
        sent = self.messages
        found = next(
            (one for one in sent if (one.role, one.content) == (said.role, said.content)), None
        )
        if found is not None:
            sent.remove(found)
        return found

    def take_result(self, id: str, decided: Decided) -> Any:
        """Take the next result that people sent a call by this decision."""
        for one in self.decisions:
            is_result = one.call_id == id and one.decision in ("respond", "happened")
            if is_result and _may_count(one, decided):
                self.decisions = [each for each in self.decisions if each != one]
                return one.result
        return None


def _may_count(sent: Decision, decided: Decided) -> bool:
    """Return whether a run can have counted a decision so; others it has ignored."""
    if sent.token is None:
        is_same = (sent.by, sent.groups, False) == (decided.by, decided.groups, decided.signed)
        return is_same and sent.digest in (None, decided.digest)
    try:
        return decided.signed and DecisionClaims.unchecked(sent.token).digest == decided.digest
    except ValueError:
        return False


def _is_task(end: recorded.End) -> bool:
    if not isinstance(end, RawValue):
        return False
    value = json.loads(end.payload.data)
    return isinstance(value, dict) and mcp_input.TASK in value


def _record(run_id: str, history: _History, log: list[dict[str, Any]]) -> recorded.RunRecord:
    """Join a log with the histories of its run."""
    assert history.request is not None  # its reader has checked both
    assert history.snapshot is not None
    request = dict(history.request)
    if "token" in (request.get("principal") or {}):
        request["principal"] = history.principal
    found, messages = RecordedLog(), list[recorded.MessageRecord]()
    # Of a fork, what is before is the other run's.
    begin = max((n for n, one in enumerate(log) if one["type"] == "forked"), default=0)
    is_answered = False
    for each in log[begin:]:
        match found.add(each).entry:
            case log_entry.MessageEntry(message=said) if said.role == "assistant":
                is_answered = bool(found.turn) and not said.calls
            case log_entry.MessageEntry(message=said) if sent := history.take_message(said):
                messages.append(recorded.MessageRecord(found.turn, sent, is_answered))
                is_answered = False
    tools = {tool.name: tool for tool in history.snapshot.agent.all_tools}
    hooks = [(id, named) for id in history.ends if (named := _HOOK.fullmatch(id))]
    return recorded.RunRecord(
        run_id,
        request,
        history.snapshot,
        log,
        [
            recorded.CallRecord(id, call.tool, known if sent is None else sent, ends)
            for call in found.calls.values()
            for id, known in call.parts().items()
            if (ends := history.ends_of(id, found.ends.get(id)))
            for sent in [_sent_arguments(tools.get(call.tool), history.sent.get(id))]
        ],
        [
            recorded.HookRecord(id, recorded.hook_key(named[2], history.sent[id]), end)
            for id, named in hooks
            for end in history.ends[id]
            if id in history.sent
        ],
        found.question_records(history.take_result),
        messages,
    )


def _sent_arguments(tool: ResolvedTool | None, sent: list[Any] | None) -> Any:
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
