"""A recorded log as a test: its agent runs again, with the answers of the recorded model.

The log is the JSON of `holdfast show RUN --json`. Tools, delegates and people answer from it, and
the model writes what it wrote: what may differ is what the agent's definition makes of that. A log
has no results of hooks, of which each lets everything pass, and no lists of MCP servers.
"""

import asyncio
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Unpack, cast

from temporalio.common import RawValue
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.records.backtest import BacktestReport, Backtests, report_backtest
from holdfast.client.records.diff_text import end_changes, turn_rows
from holdfast.client.records.recorded_calls import RecordedCall, RecordedLog
from holdfast.client.records.run_diff import read_recorded_run
from holdfast.definitions.agent import Agent
from holdfast.definitions.run_request import RequestFields, run_request
from holdfast.hosting.backtest_worker import BacktestHost
from holdfast.hosting.plugin import HoldfastPlugin, PluginSettings
from holdfast.providers.script import ScriptedAnswer, ScriptedCall
from holdfast.runtime.backtest.run_record import CallRecord, End, MessageRecord, RunRecord
from holdfast.runtime.narration.log_narration import content_text
from holdfast.runtime.narration.value_diff import Difference
from holdfast.runtime.text_safety import one_line
from holdfast.schemas import log_entry, names
from holdfast.schemas.internal.run_comparison import ComparedRun
from holdfast.schemas.message import DataPart, Delivered
from holdfast.testing.scripted_model import ScriptedModel

_LONGEST: Final = timedelta(minutes=10)
_LINE_CHARS: Final = 1_000
_PAYLOADS: Final = DataConverter.default.payload_converter


class BacktestFields(PluginSettings, RequestFields, total=False):
    """The settings of the worker, and the fields of the request that the log does not have."""


class HoldfastBacktest:
    """Runs the backtests of one test, on a server at `address`; `workers` are stopped with it."""

    def __init__(self, address: str, workers: AsyncExitStack) -> None:
        self._address, self._workers = address, workers

    async def __call__(
        self, log_file: str | Path, agent: Agent[Any] | str, **fields: Unpack[BacktestFields]
    ) -> BacktestReport:
        """Run an agent, or one of the `catalog` by its name, against a recorded log.

        Raises:
            ValueError: the file is no log, or that of a fork.
        """
        path, given = Path(log_file), dict[str, Any](fields)
        entries = json.loads(await asyncio.to_thread(path.read_text, encoding="utf-8"))
        own = {name: given.pop(name) for name in RequestFields.__annotations__ if name in given}
        if isinstance(agent, Agent):
            given["agents"] = [agent, *given.get("agents", ())]
        request = run_request(agent, None, cast(RequestFields, own))
        record, model = _read_record(path.name, entries, request)
        host = BacktestHost.load(HoldfastPlugin(**given).settings, None, "stop", provider=model)
        client = await host.connect({"target_host": self._address, "namespace": "default"})
        runs = HoldfastClient(client, names.backtest_queue(uuid.uuid4().hex[:12]))
        await self._workers.enter_async_context(host.worker(client, runs.task_queue))
        async with Backtests(runs, runs, host.backtests, _LONGEST).ended(record) as (run, answers):
            status = entries[-1].get("status", "failed")
            about = ComparedRun(run=path.name, status=status)
            # A log lacks the rest: that of the backtest is compared with itself.
            recorded = replace(await read_recorded_run(run), about=about, entries=entries)
            return await report_backtest(recorded, run, answers)


def assert_same_calls(report: BacktestReport) -> None:
    """Check that a backtest made the recorded calls, with the same arguments and decisions.

    Raises:
        AssertionError: the first call that differs, in one line.
    """
    for what, changes in _differences(report):
        stopped_by = report.findings.stopped_by
        why = f"the log has no result of {stopped_by}" if stopped_by else report.reason
        parts = [what, *(f"{one.place}: {one.before} → {one.after}" for one in changes), why]
        raise AssertionError(one_line("; ".join(filter(None, parts)), _LINE_CHARS))


def _differences(report: BacktestReport) -> Iterator[tuple[str, list[Difference]]]:
    for turn, rows in turn_rows(report.found):
        for row in rows:
            changes = [one for one in row.differences if one.place.split(" ")[0] != "result"]
            if row.words and (row.status != "equal" or changes):
                status, *call = row.words
                yield f"turn {turn}: {' '.join(call)}: {status}", changes
    changes = end_changes(report.found)
    if changes or report.verdict != "equal":
        was, ended = report.found.first.status, report.found.second.status
        yield f"its calls are the same; status: {was} → {ended}", changes


def _read_record(
    name: str, entries: Sequence[dict[str, Any]], request: dict[str, Any]
) -> tuple[RunRecord, ScriptedModel]:
    """Return what answers a backtest: the record, and the model with what it wrote."""
    log, began = RecordedLog(), dict[str, Any]()
    answers, messages = list[ScriptedAnswer](), list[MessageRecord]()
    for each in entries:
        match log.add(each).entry:
            case log_entry.ForkedEntry():
                raise ValueError(f"{name} is the log of a fork; save the log of another run")
            case log_entry.WriteEntry(path="†state", call_id=None, value=value) if not log.turn:
                began["state"] = value
            case log_entry.MessageEntry(message=message) if message.role == "user":
                match message.content:
                    case content if log.turn:
                        sent = Delivered(content=content)
                        messages.append(MessageRecord(log.turn, sent, was_awaited=True))
                    case str(text) if not message.calls:
                        began["input"] = text
                    case [DataPart(kind="input", data=value)]:
                        began["input"] = value
            case log_entry.MessageEntry(message=message) if log.turn and message.role != "tool":
                made = [
                    ScriptedCall(tool=one.tool, arguments=one.written or one.arguments)
                    for one in message.calls
                    if message.said is None  # in composed calling, they are in the text
                ]
                answers.append(ScriptedAnswer(text=content_text(message.content), calls=made))
    calls = [
        CallRecord(id, call.tool, arguments, [*_ends(log, call, id)])
        for call in log.calls.values()
        for id, arguments in call.parts().items()
        if id in log.started
    ]
    questions = log.question_records(lambda id, _: log.result_of(id))
    # In another run, they may be the run's own.
    messages = messages if request.get("conversation") else []
    whole = {**began, **request}
    record = RunRecord(name, whole, calls=calls, questions=questions, messages=messages)
    return record, ScriptedModel(answers)


def _ends(log: RecordedLog, call: RecordedCall, id: str) -> Iterator[End]:
    """Yield how the executions of a call, or of an item of a loop, ended."""
    for question in log.questions:
        if question.id == id and question.asked.kind == "reconcile":
            yield ApplicationError("its outcome is unknown", type=names.ErrorCode.OUTCOME_UNKNOWN)
    end, value = log.ends.get(id), log.result_of(call.id)
    if end is not None and end.error is not None:
        code = end.error.code.value
        yield ApplicationError(end.error.message, code, type=names.RECORDED_ERROR)
    else:
        if id != call.id and isinstance(value, list):
            value = value[int(id.rpartition(".")[2])]
        # A value, also where it has the form of an envelope.
        yield RawValue(_PAYLOADS.to_payload({"_result": {"content": value}}))
