"""`holdfast backtest`: recorded runs again, with nothing but the model asked."""

import asyncio
import json
import re
import signal
import sys
import threading
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
import yaml
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.records import backtest as backtests
from holdfast.client.records.backtest import BacktestReport
from holdfast.client.run_lists import RUNS
from holdfast.client.shared_budgets import read_budgets
from holdfast.runtime.attachments import file_part
from holdfast.runtime.backtest.recorded_answers import take
from holdfast.runtime.backtest.run_record import QuestionRecord
from holdfast.runtime.data_converter import with_encryption, with_store
from holdfast.runtime.storage.folder import FolderStore
from holdfast.schemas.base import sha256
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.message import TextPart
from tests.activities.mcp.servers import airline, shop
from tests.encryption.keys import NEW, key_file, ring
from tests.support.backend import TOOLS, Backend, Launch, Run, ledger_has
from tests.support.command import CommandOutput, Holdfast
from tests.support.eventually import eventually
from tests.support.identity.signing import Approver, run_of, write_keys
from tests.support.model_server import Answer, call
from tests.support.tools import read, write
from tests.workflows.commands.test_child_workflows import ASK, agents, by_agent

DONE = Answer("done")
REFUSED = Answer(status=400, body={"error": {"message": "no"}})
LOOKS, PAYS = Answer(calls=[call("look_up", id=7)]), Answer(calls=[call("pay", amount=5)])
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z| UTC)?")
MCP: dict[str, Any] = {
    "command": sys.executable,
    "args": [shop.__file__],
    "envFrom": [shop.TOKEN, shop.LEDGER],
    "overrides": {"find_order": {"_sideEffects": False}},
}
AIR: dict[str, Any] = {
    "command": sys.executable,
    "args": [airline.__file__],
    "envFrom": [airline.LEDGER],
    "overrides": {"book": {"_approval": {"require": "never"}}},
}
PEEK = """
- _tool: peek
  _activity: look_up
  _sideEffects: false
  properties: {id: {type: integer}}
- _tool: peek_scoped
  _activity: look_up
  _requires: ["orders:read"]
  _sideEffects: false
  properties: {id: {type: integer}}
"""
BILL = {"_tool": "bill", "_activity": "pay", "properties": {"amount": {"type": "number"}}}
TWO = {"_sideEffects": True, "_approval": {"quorum": 2, "approvers": ["a", "b"]}}
SOON = {"_sideEffects": True, "_approval": {"timeout": "1s"}}
PERSON = {"_tool": "ask_person", "_person": True, "properties": {"question": {"type": "string"}}}
BIG = {"_tool": "big", "_activity": "big", "properties": {"size": {"type": "integer"}}}
PAY_ALL = {**BILL, "_each": True, "_sideEffects": True, "required": ["amount"]}


class RecordedRuns:
    """Runs that were recorded on one worker, and the command that tests an agent against them."""

    def __init__(self, back: Backend, holdfast: Holdfast, folder: Path, *options: str) -> None:
        self.back, self._holdfast, self._folder = back, holdfast, folder
        self._options = options

    async def start(self, name: str, tools: list[Any], **request: Any) -> Run:
        agent = {"instructions": name, **request.pop("agent", {})}
        return await self.back.start(tools, agent=agent, **request)

    async def test(self, *words: str) -> CommandOutput:
        """Run the command with the settings of the worker."""
        queue = self.back.task_queue
        endpoints = ("--endpoints", str(self._folder / f"{queue}.yaml"), "--task-queue", queue)
        return await self._holdfast("backtest", *words, *endpoints, *self._options)

    async def process(self, *words: str) -> asyncio.subprocess.Process:
        """Start the command as a process of its own."""
        queue = self.back.task_queue
        endpoints = ("--endpoints", str(self._folder / f"{queue}.yaml"), "--task-queue", queue)
        command = ("-m", "holdfast", "backtest", *words, *endpoints, *self._options)
        return await asyncio.create_subprocess_exec(sys.executable, *command)

    async def reports(self, *words: str) -> tuple[int, list[dict[str, Any]]]:
        done = await self.test("--json", *words)
        assert done.out, done.err
        return done.code, [json.loads(line) for line in done.out.splitlines()]


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    """The logs of the backtests, by recorded run: no worker answers for them afterwards."""
    found: dict[str, list[dict[str, Any]]] = {}
    report = backtests.report_backtest

    async def with_log(source: Any, run: Any, answers: Any) -> BacktestReport:
        found[source.about.run] = [entry async for entry in run.entries("context")]
        return await report(source, run, answers)

    monkeypatch.setattr(backtests, "report_backtest", with_log)
    return found


Open = Callable[..., Awaitable[RecordedRuns]]


@pytest.fixture
def record(
    launch: Launch, holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Open:
    """Return a function that starts a worker whose model answers by the agent's instructions."""
    monkeypatch.setenv(shop.LEDGER, str(tmp_path / "effects"))
    monkeypatch.setenv(shop.TOKEN, "token")
    monkeypatch.setenv(airline.LEDGER, str(tmp_path / "flights"))

    async def open_(*options: str, settings: dict[str, Any] | None = None, **answers: Any) -> Any:
        catalog = agents(tmp_path / "catalog", helper={}, broken={})
        (catalog / "tools").mkdir()
        if (tmp_path / "budgets.yaml").exists():
            (tmp_path / "budgets.yaml").rename(catalog / "budgets.yaml")
        (catalog / "tools/peek.yaml").write_text(PEEK)
        servers = tmp_path / "servers.yaml"
        both = {"shop": MCP} | ({"air": AIR} if "flies" in answers else {})
        servers.write_text(yaml.safe_dump(both))
        back = await launch(
            by_agent(helper=[Answer("helped")], broken=[REFUSED], **answers),
            **{"catalog": catalog, "servers": servers, "cached_runs": 100, **(settings or {})},
        )
        named = ("--catalog", str(catalog), "--tools", str(TOOLS), "--servers", str(servers))
        return RecordedRuns(back, holdfast, tmp_path, *named, *options)

    return open_


def comparable(log: list[dict[str, Any]]) -> list[Any]:
    """A log without times, and what a delegate used."""
    entries = []
    for entry in log:
        kept = {key: value for key, value in entry.items() if key not in ("at", "usage")}
        entries.append(json.loads(TIME.sub("", json.dumps(kept))))
    return entries


async def test_runs_of_many_kinds_are_equal_to_themselves(
    record: Open, logs: dict[str, list[dict[str, Any]]]
) -> None:
    composed = {"calls": [{"_tool": "look_up", "id": 7}], "output": None}
    here = await record(
        settings={"continue_after": 25},
        edited=[LOOKS, PAYS, DONE],
        planned=[
            Answer(calls=[call("look_up", id=1), call("pay", amount=2), call("ask", task="help")]),
            DONE,
        ],
        delegates=[Answer(calls=[call("ask", task="help")]), DONE],
        composes=[Answer(json.dumps(composed)), Answer(json.dumps({"calls": [], "output": "x"}))],
        loops=[Answer(calls=[call("bill", _each=[1, 2], amount="†item")]), DONE],
        long=[*(Answer(calls=[call("look_up", id=n)]) for n in range(1, 7)), DONE],
        talks=[LOOKS, Answer("one"), Answer("two"), Answer("three")],
        unsure=[Answer(calls=[call("unsure")]), DONE],
        serves=[Answer(calls=[call("shop_find_order", order_id="A1")]), DONE],
        fails=[Answer(calls=[call("raises"), call("never_ends"), call("quick", text="a")]), DONE],
        guarded=[Answer(calls=[call("look_up", n=3), call("look_up", id=13)]), DONE],
    )
    edited = await here.start("edited", ["look_up", "pay"])
    await edited.waiting()
    await edited.decide("t2c1", "edit", arguments={"amount": 4}, by="ann")
    planned = await here.start("planned", ["look_up", "pay", ASK], agent={"plan": "lazy"})
    await planned.waiting()
    await planned.decide("t1-plan", "approve", by="ann")
    delegates = await here.start("delegates", [ASK])
    composes = await here.start("composes", ["look_up"], agent={"calling": "composed"})
    loops = await here.start("loops", [PAY_ALL])
    await loops.waiting()
    await loops.decide("t1c1", "approve", by="ann")
    long = await here.start("long", ["look_up"])
    talks = await here.start("talks", ["look_up"], conversation=True)
    for text in ("and then?", "and then?"):
        await talks.handle.execute_update("send", {"content": text})
    await talks.handle.signal("close")
    unsure = await here.start("unsure", ["unsure"])
    await unsure.waiting()
    await unsure.decide("t1c1", "happened", result={"sure": True}, by="ann")
    serves = await here.start("serves", ["mcp:shop/find_order"])
    fails = await here.start("fails", ["raises", "never_ends", "quick"])
    hooks = {"_prepare": "tidy", "_before": "guard", "_after": "review", "_beforeModel": "mask"}
    guarded = await here.start("guarded", ["look_up"], agent=hooks)
    runs = [edited, planned, delegates, composes, loops, long, talks, unsure, serves, fails]
    runs.append(guarded)
    for run in runs:
        await run.result()
    effects = read()

    code, reports = await here.reports(*(run.id for run in runs))

    for run, report in zip(runs, reports, strict=True):
        assert comparable(logs[run.id]) == comparable(await run.context()), report
        assert report["verdict"] == "equal", report
    assert code == 0
    assert read() == effects


async def test_a_run_with_encryption_and_a_store_is_equal_to_itself(
    record: Open, client: Client, tmp_path: Path, logs: dict[str, list[dict[str, Any]]]
) -> None:
    config, store = client.config(), tmp_path / "store"
    converter = with_encryption(client.data_converter, ring(NEW))
    config["data_converter"] = with_store(converter, FolderStore(store))
    settings = {"client": Client(**config)}
    options = ("--encryption", str(key_file(tmp_path, [NEW])), "--store", str(store))
    pays = [Answer(calls=[call("big", size=400_000), call("pay", amount=5)]), DONE]
    here = await record(*options, settings=settings, pays=pays)
    agent: dict[str, Any] = {
        "name": "tester",
        "instructions": "pays",
        "tools": [{**BIG, "_show": "none"}, "pay"],
    }
    agent["model"] = {"endpoint": "fake", "name": "fake"}
    # Its file is in the store, among its own.
    bill = file_part("bill.pdf", b"%PDF-1.7" + b"\0" * 1_200_000)
    recorded = HoldfastClient(here.back.client, here.back.task_queue)
    started = await recorded.start(agent, [TextPart(text="go"), bill])
    run = Run(here.back.client.get_workflow_handle(started.id), here.back.client)
    await run.waiting()
    await run.decide("t1c2", "approve", by="ann")
    await run.result()
    assert [each.parent.name for each in (store / "runs").glob("*/*")] == [sha256(run.id.encode())]
    assert await here.reports(run.id) == (0, [ANY])
    assert comparable(logs[run.id]) == comparable(await run.context())


def test_of_equal_questions_of_one_turn_a_call_gets_its_own() -> None:
    at = "2026-11-30T00:00:00Z"
    asked = {"kind": "call", "tool": "pay", "label": "Pay", "digest": "d", "question": "?"}
    asked |= {"requestedAt": at, "expiresAt": at}
    first, second = (
        QuestionRecord("d", [], PendingApproval.read({**asked, "arguments": {}, "callId": id}))
        for id in ("t1c1", "t1c2")
    )
    left = [first, second]
    assert take(left, "t1c2", left) is second
    assert left == [first]


REFUND, STORE = call("shop_refund", order_id="A1"), call("memory_write", key="a", value="b")
# What a changed agent does, by its instructions: the calls of its first turns.
CHANGES: dict[str, list[Answer]] = {
    "prompted": [Answer(calls=[call("pay", amount=6), REFUND, STORE]), DONE],
    "reordered": [Answer(calls=[STORE]), Answer(calls=[REFUND]), PAYS, DONE],
    "dropped": [Answer(calls=[call("pay", amount=5)]), DONE],
    "renamed": [Answer(calls=[call("pay", sum=5), REFUND]), DONE],
    "bound": [Answer(calls=[call(name, amount=5) for name in ("far", "near", "ask")]), DONE],
}


def bound_elsewhere(queue: str) -> list[dict[str, Any]]:
    """Tools that would run on the workers of production, at once, or as a run of another agent."""
    free = {"_sideEffects": True, "_approval": {"require": "never"}, "_idempotent": True}
    far = {**BILL, **free, "_tool": "far", "_activity": {"type": "pay", "taskQueue": queue}}
    near = {**BILL, **free, "_tool": "near", "_activity": {"type": "pay", "local": True}}
    repaired = {**ASK, **free, "_repair": {"agent": "helper"}}
    return [far, near, repaired]


READS = {"generate", "recorded_call", "recorded_hook"}


async def commands(client: Client, run_id: str) -> set[str]:
    """The types of the activities and the delegates that a run has scheduled."""
    types = set()
    async for event in client.get_workflow_handle(run_id).fetch_history_events():
        activity = event.activity_task_scheduled_event_attributes.activity_type.name
        child = event.start_child_workflow_execution_initiated_event_attributes.workflow_type.name
        types |= {activity, child} - {""}
    return types


async def test_a_changed_agent_contacts_nothing(
    record: Open, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"shops": [Answer(calls=[call("pay", amount=5), REFUND, STORE]), DONE], **CHANGES}
    here = await record("--notify", "notify", settings={"notify": "notify"}, **answers)
    agent = {"memory": True, "_before": "guard", "_beforeModel": "mask", "name": "shopper"}
    tools = ["pay", "mcp:shop/refund"]
    run = await here.start("shops", tools, agent=agent, principal={"id": "ann"})
    for call_id in [one["callId"] for one in await run.waiting(2)]:
        await run.decide(call_id, "approve", by="ann")
    await run.result()

    query = f'WorkflowType = "MemoryWorkflow" AND TaskQueue = "{here.back.task_queue}"'

    async def contacts() -> list[Any]:
        [kept] = [one async for one in client.list_workflows(query)]
        memory = await client.get_workflow_handle(kept.id).describe()
        return [read(), shop.effects(), memory.history_length]

    async def is_listed() -> bool:
        return (await client.count_workflows(query)).count == 1

    await eventually(is_listed)
    before = await contacts()
    # A program that does not exist.
    (tmp_path / "servers.yaml").write_text(yaml.safe_dump({"shop": {**MCP, "command": "no"}}))
    for name in CHANGES:
        changed = {**agent, "instructions": name, "model": "fake:fake", "tools": tools}
        changed["tools"] = tools[1:] if name == "dropped" else tools
        if name == "bound":
            changed["tools"] = bound_elsewhere(here.back.task_queue)
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(changed))
        for missing in ("stop", "live-reads"):
            code, [report] = await here.reports(run.id, "--agent", str(file), "--missing", missing)
            assert code == 1, report
            assert report["verdict"] in ("changed", "stopped"), report
            assert await contacts() == before, (name, missing)
            assert await commands(client, report["backtest"]) <= READS


def candidate(folder: Path, name: str, tools: list[Any]) -> tuple[str, str]:
    """Return the option for an agent with these instructions."""
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"instructions": name, "model": "fake:fake", "tools": tools}))
    return "--agent", str(file)


PEEKS = {
    "peeks": [Answer(calls=[call("peek", id=7)]), DONE],
    "further": [Answer(calls=[call("peek", id=7)]), Answer(calls=[call("peek", id=8)]), DONE],
    "unstated": [Answer(calls=[call("look_up", id=8)]), DONE],
    "pays": [PAYS, DONE],
    "scoped": [Answer(calls=[call("peek_scoped", id=8)]), DONE],
    "claims": [PAYS, DONE],
}


async def test_a_missing_call_ends_the_backtest_and_is_named(record: Open, tmp_path: Path) -> None:
    here = await record(**PEEKS)
    run = await here.start("peeks", ["peek"])
    await run.result()
    further = candidate(tmp_path, "further", ["peek"])
    done = await here.test(run.id, *further)
    assert done.code == 1
    assert done.out.splitlines() == [
        f"{run.id}: stopped; calls: 1 equal, 1 new; output changed; cost 0.0000",
        "  new: turn 2, peek id=8",
        "  stopped by: turn 2, peek id=8",
    ]


async def test_the_model_simulates_a_missing_call(record: Open, tmp_path: Path) -> None:
    simulated = [Answer('{"id": 8, "name": "a simulated item"}')]
    here = await record(**{"You simulate the tool `pay`": simulated, "You": simulated}, **PEEKS)
    run = await here.start("peeks", ["peek", "pay"])
    await run.result()
    for name, tool, arguments in (("further", "peek", {"id": 8}), ("pays", "pay", {"amount": 5})):
        changed = candidate(tmp_path, name, ["peek", "pay"])
        _, [report] = await here.reports(run.id, *changed, "--missing", "simulate")
        assert (report["verdict"], report["status"]) == ("changed", "completed")
        missing = {"turn": 2 if name == "further" else 1, "what": tool, "arguments": arguments}
        assert missing in report["filledIn"]
    assert read() == []


async def test_live_reads_are_of_tools_that_state_no_effects(
    record: Open, client: Client, tmp_path: Path
) -> None:
    here = await record(**PEEKS)
    run = await here.start("peeks", ["peek"])
    await run.result()
    reports = {}
    for name, tools in (("further", ["peek"]), ("unstated", ["look_up"]), ("pays", ["pay"])):
        changed = candidate(tmp_path, name, tools)
        _, [reports[name]] = await here.reports(run.id, *changed, "--missing", "live-reads")
    assert reports["further"]["status"] == "completed"
    read_run = client.get_workflow_handle(f"{reports['further']['backtest']}.t2c1.read")
    assert (await read_run.result())["output"] == {"id": 8, "name": "item 8"}
    effects = {"_sideEffects": True, "_approval": {"require": "never"}}
    once = {"_tool": "peek", "_activity": "look_up", "properties": {"id": {}}, **effects}
    run = await here.start("peeks", [once])
    await run.result()
    changed = candidate(tmp_path, "further", ["peek"])
    _, [report] = await here.reports(run.id, *changed, "--missing", "live-reads")
    assert report["stoppedBy"]["what"] == "peek"
    assert [reports[name]["stoppedBy"]["what"] for name in ("unstated", "pays")] == [
        "look_up",
        "pay",
    ]
    assert read() == []


async def test_live_reads_are_no_way_around_permissions_and_approvals(
    record: Open, tmp_path: Path
) -> None:
    here = await record(**PEEKS)
    scopes = {"id": "ann", "scopes": ["orders:read"]}
    run = await here.start("peeks", ["peek"], principal=scopes)
    await run.result()
    # The scopes of the recorded run's principal are not those of the person who starts it.
    changed = candidate(tmp_path, "scoped", ["peek_scoped"])
    missing = ("--missing", "live-reads", "--principal", "ann")
    _, [report] = await here.reports(run.id, *changed, *missing)
    calls = json.dumps(report["comparison"]["calls"])
    assert ("orders:read" in calls, "item 8" in calls) == (True, False)
    # Nor is a candidate's own word that a tool has no effects.
    claims = candidate(tmp_path, "claims", [{**BILL, "_tool": "pay", "_sideEffects": False}])
    _, [report] = await here.reports(run.id, *claims, *missing)
    assert report["stoppedBy"]["what"] == "pay"
    assert read() == []


async def test_a_budget_that_is_used_up_ends_a_backtest(record: Open, tmp_path: Path) -> None:
    name = f"b-{uuid.uuid4().hex[:8]}"
    (tmp_path / "budgets.yaml").write_text(
        f"[{{name: {name}, per: all, window: day, maxTokens: 30, reserve: 1, onLimit: fail}}]"
    )
    here = await record(looks=[LOOKS, DONE])
    run = await here.start("looks", ["look_up"])
    await run.result()
    _, [report] = await here.reports(run.id)
    assert (report["verdict"], report["status"]) == ("changed", "budget_exceeded")


async def test_a_backtest_is_in_no_list_of_runs(
    record: Open, client: Client, holdfast: Holdfast
) -> None:
    here = await record(pays=[PAYS, DONE])
    run = await here.start("pays", ["pay"])
    await run.waiting()
    await run.decide("t1c1", "approve", by="ann")
    await run.result()
    _, [report] = await here.reports(run.id)
    id = report["backtest"]

    async def is_visible() -> bool:
        query = f'WorkflowType = "BacktestWorkflow" AND WorkflowId = "{id}"'
        return (await client.count_workflows(query)).count == 1

    await eventually(is_visible)
    found = await client.get_workflow_handle(id).describe()
    assert await found.memo() == {"BacktestOf": run.id}
    assert found.search_attributes.keys() == {"BuildIds"}
    runs = HoldfastClient(client)
    assert id not in [one.id for one in await runs.list_runs()]
    assert await runs.count_runs(f'{RUNS} AND WorkflowId = "{id}"') == 0
    assert id not in (await holdfast("list")).out


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.usefixtures("quick_starts")
async def test_a_command_that_is_stopped_or_run_again_leaves_nothing_running(
    record: Open, client: Client, how: signal.Signals
) -> None:
    here = await record(pays=[Answer(calls=[call("look_up", id=7)]), DONE])
    run = await here.start("pays", ["look_up"])
    await run.result()
    gate = threading.Event()
    answer = here.back.model.answer
    here.back.model.answer = lambda turn, body: Answer("late", hold=gate)
    asked = len(here.back.model.requests)
    process = await here.process(run.id)

    async def has_asked() -> bool:
        return len(here.back.model.requests) > asked

    await eventually(has_asked)
    query = 'WorkflowType = "BacktestWorkflow" AND ExecutionStatus = "Running"'

    async def running() -> list[Any]:
        return [one async for one in client.list_workflows(query)]

    [open_one] = await eventually(running)
    described = await client.get_workflow_handle(open_one.id).describe()
    config = described.raw_description.execution_config
    assert config.workflow_execution_timeout.ToTimedelta() == timedelta(hours=1)
    process.send_signal(how)
    await process.wait()
    gate.set()
    if how is signal.SIGKILL:
        assert await running()
        here.back.model.answer = answer
        code, [report] = await here.reports(run.id)
        assert (code, report["verdict"]) == (0, "equal")
    described = await client.get_workflow_handle(open_one.id).describe()
    assert described.status is WorkflowExecutionStatus.TERMINATED


ODD = {
    "steered": [Answer(calls=[call("held", name="gate")]), DONE, DONE],
    "again": [Answer(calls=[call("unsure")]), DONE],
    "two": [PAYS, DONE],
    "expires": [PAYS, DONE],
    "remembers": [PAYS, Answer(calls=[call("pay", amount=6)]), DONE],
    "knows": [Answer(calls=[call("hours"), call("memory_read")]), DONE],
    "skilled": [DONE],
    "repairs": [Answer(calls=[call("look_up", id="x")]), DONE],
    "asks": [Answer(calls=[call("ask", task="help")]), DONE],
    "unhelped": [Answer(calls=[call("ask", task="help")]), DONE],
    "dies": [Answer(calls=[call("quick", text=""), call("big", size=3)]), DONE],
    "answered": [Answer(calls=[call("ask_person", question="?")]), DONE],
    "stops": [Answer(calls=[call("stops")]), DONE],
    "proofs": [Answer("Ann"), Answer("DONE")],
    "forks": [LOOKS, PAYS, DONE],
    "flies": [Answer(calls=[call("air_book", flight="LH1")]), DONE],
}


async def odd_runs(here: RecordedRuns) -> tuple[list[Run], Run]:
    """Return ended runs of odd kinds, and one whose question has expired."""
    steered = await here.start("steered", ["held"])
    await ledger_has("started gate")
    await steered.handle.signal("message", {"content": "hurry"})
    await steered.handle.signal("message", {"content": "bye", "delivery": "followUp"})
    write("open gate")
    again = await here.start("again", ["unsure"])
    await again.waiting()
    await again.run_again(by="ann")
    [asked] = await again.waiting()
    await again.decide("t1c1", "give_up", by="ann")
    two = await here.start("two", [{**BILL, "_tool": "pay", **TWO}])
    await two.waiting()
    await two.decide("t1c1", "edit", arguments={"amount": 4}, by="ann", groups=["a"])
    [asked] = await two.waiting()
    await two.decide("t1c1", "approve", by="bob", groups=["b"], digest=asked["digest"])
    expires = await here.start("expires", [{**BILL, "_tool": "pay", **SOON}])
    remembers = await here.start("remembers", ["pay"])
    await remembers.waiting()
    await remembers.decide("t1c1", "approve", by="ann", remember=True)
    hours = [{"name": "hours", "text": "9 to 5"}]
    knows = await here.start("knows", [], agent={"knowledge": hours, "memory": True})
    work = [{"name": "work", "activity": "look_up", "sideEffects": False}]
    skilled = await here.start("skilled", [], agent={"skills": work}, input={"id": 3})
    repairs = await here.start("repairs", ["look_up"], agent={"_repair": "mend"})
    asks = await here.start("asks", [{**ASK, "_output": {"type": "integer"}}])
    unhelped = await here.start("unhelped", [{**ASK, "_delegate": "broken"}])
    dies = await here.start("dies", ["quick", "big"])
    answered = await here.start("answered", [PERSON])
    await answered.waiting()
    await answered.decide("t1c1", "respond", result={"yes": 1}, by="ann")
    stops = await here.start("stops", ["stops"])
    proofs = await here.start("proofs", [], agent={"_afterAnswer": "proofread"})
    runs = [steered, again, two, remembers, knows, skilled, repairs, asks, unhelped, dies]
    runs += [answered, stops, proofs]
    origin = await here.start("forks", ["look_up", "pay"])
    await origin.waiting()
    await origin.decide("t2c1", "deny", by="ann")
    fork = {"run": origin.id, "turn": 1}
    forked = await here.start("forks", ["look_up", "pay"], fork=fork, input="again")
    await forked.waiting()
    await forked.decide("t2c1", "approve", by="ann")
    runs.append(forked)
    flies = await here.start("flies", ["mcp:air/book"])
    [form] = await flies.waiting()
    await flies.decide("t1c1", "respond", result={"seat": "W"}, digest=form["digest"])
    runs.append(flies)
    for run in (*runs, expires, origin):
        await run.result()
    return runs, expires


async def test_odd_runs_are_equal_to_themselves(
    record: Open, logs: dict[str, list[dict[str, Any]]]
) -> None:
    here = await record(**ODD)
    runs, expires = await odd_runs(here)
    effects = read()

    code, reports = await here.reports(*(run.id for run in runs))

    for run, report in zip(runs, reports, strict=True):
        assert comparable(logs[run.id]) == comparable(await run.context()), report
        assert report["verdict"] == "equal", report
    assert code == 0
    # A question that expired is denied: its error is another one.
    _, [report] = await here.reports(expires.id)
    assert report["comparison"]["calls"][0]["differs"] == ["decisions", "result"]
    assert (read(), airline.effects().count("LH1 W")) == (effects, 1)


async def test_an_answer_that_the_run_ignored_is_not_repeated(
    record: Open, logs: dict[str, list[dict[str, Any]]]
) -> None:
    asks = {"_tool": "ask_person", "_person": True, "_approval": {"approvers": ["desk"]}}
    here = await record(answered=[Answer(calls=[call("ask_person")]), DONE])
    run = await here.start("answered", [asks])
    [asked] = await run.waiting()
    mine = {"by": "ann", "groups": ["desk"]}
    for wrong in ({**mine, "digest": "0" * 64}, {"by": "ann", "groups": ["sales"]}, {"by": "bob"}):
        await run.signal("t1c1", "respond", result="wrong", **wrong)
    await run.decide("t1c1", "respond", result="right", digest=asked["digest"], **mine)
    await run.result()
    assert len([each for each in await run.context() if each.get("ignored")]) == 3
    _, [report] = await here.reports(run.id)
    assert report["verdict"] == "equal"
    [read] = [each for each in logs[run.id] if each.get("message", {}).get("role") == "tool"]
    assert read["message"]["content"] == "right"


async def test_its_requests_count_in_the_budgets_of_production(
    record: Open, client: Client, tmp_path: Path
) -> None:
    name = f"b-{uuid.uuid4().hex[:8]}"
    (tmp_path / "budgets.yaml").write_text(
        f"[{{name: {name}, per: all, window: day, maxTokens: 100000}}]"
    )
    here = await record(looks=[LOOKS, DONE])
    run = await here.start("looks", ["look_up"])
    await run.result()

    async def used() -> float | None:
        found = await read_budgets(HoldfastClient(client))
        own = [use for one in found if one.name == name for use in one.uses]
        return None if any(use.reserved for use in own) else sum(use.used for use in own)

    before = await eventually(used)
    code, _ = await here.reports(run.id)
    assert code == 0

    async def has_grown() -> bool:
        return (await used() or 0) > before

    await eventually(has_grown)
    query = f'WorkflowType = "BudgetWorkflow" AND WorkflowId STARTS_WITH "holdfast-budget/{name}/"'
    [counts] = [one async for one in client.list_workflows(query)]
    assert counts.task_queue == here.back.task_queue


async def test_what_cannot_be_tested_is_refused_with_the_reason(
    record: Open, client: Client, tmp_path: Path
) -> None:
    long = [*(Answer(calls=[call("look_up", id=n)]) for n in range(1, 5)), DONE]
    answers = {"long": long, "pays": [PAYS, DONE], "serves": [DONE]}
    here = await record(settings={"continue_after": 25}, **answers)
    pending = await here.start("pays", ["pay"])
    await pending.waiting()
    single = await here.back.call("look_up", {"id": 1})
    await single.result()
    chain = await here.start("long", ["look_up"])
    await chain.result()
    done = await here.test(pending.id, single.id, chain.id)
    assert (done.code, done.err.splitlines()[:2]) == (
        1,
        [
            f"holdfast: run {pending.id} has not ended; wait for its end",
            f"holdfast: run {single.id} is no run of an agent; name a run of `holdfast list`",
        ],
    )
    assert done.out.startswith(f"{chain.id}: equal; calls: 4 equal")
    others = candidate(tmp_path, "serves", ["mcp:shop/refund"])
    done = await here.test(chain.id, *others)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("holdfast: --agent: ")
    assert "what the recorded run had of MCP servers: not `shop`" in done.err
    assert done.err.endswith("; nothing was tested: change the agent\n")
    done = await here.test(chain.id, "--agent", "nobody")
    assert (done.code, done.err.partition(";")[0]) == (
        2,
        "holdfast: --agent: there is no agent `nobody`",
    )
    done = await here.test(chain.id, "--model", "other:x")
    assert (done.code, done.err) == (
        2,
        "holdfast: --model: there is no endpoint other; name one of --endpoints\n",
    )
    _, [report] = await here.reports(chain.id, "--model", "fake:newer")
    assert report["verdict"] == "equal"
    assert here.back.model.requests[-1]["model"] == "newer"
    first = (await chain.handle.describe()).raw_description.workflow_execution_info.first_run_id
    await client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=chain.id, run_id=first),
        )
    )

    async def is_deleted() -> bool:
        return "has deleted a part of its history" in (await here.test(chain.id)).err

    await eventually(is_deleted)


async def test_workers_that_require_tokens_have_one_of_who_starts_it(
    record: Open, client: Client, tmp_path: Path
) -> None:
    ann = Approver()
    keys = str(write_keys(tmp_path / "keys.json", ann))
    settings = {"keys": keys, "principal_tokens": True}
    here = await record(
        "--keys",
        keys,
        "--principal-tokens",
        settings=settings,
        looks=[LOOKS, DONE],
        pays=[PAYS, DONE],
    )
    run = await here.start("looks", ["look_up"], principal={"token": ann.principal("ann")})
    await run.result()
    done = await here.test(run.id)
    assert (done.code, done.out) == (2, "")
    assert "this worker requires a token" in done.err
    token = ann.principal("bob")
    _, [report] = await here.reports(run.id, "--principal-token", token)
    assert report["verdict"] == "equal"
    assert report["backtest"] == run_of({"token": token})
    history = client.get_workflow_handle(report["backtest"])
    assert (await history.describe()).search_attributes.keys() == {"BuildIds"}
    # A token of another run starts no backtest, and ends nothing.
    theirs = ann.principal("ann")
    other = await here.start("pays", ["pay"], principal={"token": theirs})
    await other.waiting()
    done = await here.test(run.id, "--principal-token", theirs)
    assert (done.code, f"there is a run with the id {other.id}" in done.err) == (1, True)
    assert len(await other.waiting()) == 1
