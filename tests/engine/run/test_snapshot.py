"""What a run takes along: all of it is taken up again, and what an older worker left is read."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from holdfast.schemas.agent import AgentSnapshot
from holdfast.schemas.internal.continue_as_new import StepSnapshot
from holdfast.schemas.log_entry import NoticeEntry
from holdfast.schemas.run import RunRequest
from holdfast.workflows.engine.continue_as_new import WorkflowSnapshot
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.phases import AskModel
from holdfast.workflows.engine.run import AgentRun, RunSnapshot
from tests.engine.driver import FACTS, agent, noon, reply

STATE_MODULES = ("holdfast.workflows.engine", "holdfast.schemas.internal.continue_as_new")
REQUEST = RunRequest(agent="tester")
SNAPSHOT = AgentSnapshot(worker=FACTS, agent=agent())
METER = {
    "budget": {"maxTurns": 9, "maxDuration": "1h"},
    "granted": {"maxTurns": 5, "maxDuration": "30m"},
    "total": {"maxTurns": 20},
    "before": {
        "maxIterations": 1,
        "maxTurns": 1,
        "maxCalls": 1,
        "maxTokens": 1,
        "maxCost": 0.1,
        "maxDuration": "PT1S",
    },
    "iterations": 1,
    "turns": 2,
    "besides": 3,
    "calls": 4,
    "inputTokens": 5,
    "outputTokens": 6,
    "cachedTokens": 7,
    "cost": 0.25,
    "tokensUnknown": True,
    "costUnknown": True,
    "sameTool": ["look", 2],
    "outOfTime": True,
    "tooDeep": True,
    "worked": "PT90.5S",
    "reached": ["maxTurns"],
}
APPROVER = {"by": "ann", "groups": ["desk"], "at": "2026-03-01T12:00:00Z", "signed": True}
DESK = {
    "early": [{"callId": "t9c1", "decision": "approve", "by": "ann"}],
    "closed": {"t1c1": "deny by bob"},
    "remembered": ["pay"],
    "approvers": {"pay": APPROVER},
    "tokens": {"5e": "t1c1 deny"},
}
MAILBOX = {
    "line": [[3, {"content": "later", "delivery": "followUp"}]],
    "received": 3,
    "heard": 2,
    "closed": True,
    "known": {"u1": 1},
    "withdrawn": [2],
    "unread": [{"number": 1, "role": "user", "delivery": "steer", "text": "now"}],
}
STEP = {
    "id": "t1c2",
    "tool": "look",
    "given": {"at": "†state.a"},
    "covered": True,
    "held": True,
    "key": "abc",
    "error": {"code": "cancelled", "message": "a message came"},
    "approver": APPROVER,
}


VEIL = {
    "kind": "state",
    "instance": "a",
    "steps": ["k", 0],
    "tool": "look",
    "hidden": True,
    "trusted": False,
}
KEPT = {
    "meter": METER,
    "desk": DESK,
    "data": [{"kind": "state", "instance": "a", "value": {"own": {"k": {"is": [1]}}}}],
    "veils": [VEIL],
    "described": [
        {"kind": "order", "instance": "a", "schema_": {"type": "object"}, "description": "one"}
    ],
    "started": {"look": 2},
    "succeeded": ["look"],
    "skill": "refunds",
    "reset": True,
}
SUMMARIES = {
    "since": 1,
    "origin": "0123",
    "task": "go",
    "window": 8_000,
    "tokens": 900,
    "counted": 1,
}
USED = {"inputTokens": 1, "outputTokens": 1, "cachedTokens": 1, "cost": 0.1}
MODELS = {
    "model": {"endpoint": "script", "name": "second"},
    "skipped": 1,
    "composed": True,
    "used": [{"model": "script/second", "turns": 1, "usage": USED}],
}


def everything(log: Log) -> RunSnapshot:
    """A run none of whose parts is as it begins."""
    return RunSnapshot.read(
        {
            "kept": {"log": log.snapshot().model_dump(), **KEPT},
            "mailbox": MAILBOX,
            "summaries": SUMMARIES,
            "models": MODELS,
            "plan": [STEP],
            "seenIds": ["call_1"],
            "choice": {"name": "look"},
            "output": {"so": "far"},
            "said": "hm",
            "answeredUpTo": 1,
            "settledAfter": 2,
            "finalizing": 2,
            "cutTold": True,
            "isRefused": True,
            "unknownTold": True,
            "ending": "completed",
            "exceeded": "maxTurns",
            "reason": "the budget maxTurns is used up",
            "rejections": 2,
            "rejected": "invalid_output: no",
        }
    )


def a_log() -> Log:
    log = Log(noon)
    log.append(NoticeEntry(text="one"))
    log.seal()
    return log


def taken_up(run: RunSnapshot, log: Log) -> AgentRun:
    carried = WorkflowSnapshot(request=REQUEST, snapshot=SNAPSHOT, run=run)
    pages = [page.data for page in log.pages]
    return AgentRun(carried.run, carried.request, carried.snapshot.agent, noon, pages)


def test_every_part_of_a_run_is_taken_up_and_would_be_carried_on() -> None:
    log = a_log()
    given = everything(log)
    done = StepSnapshot(id="t1c1", tool="look")
    given = given.model_copy(update={"plan": [done, *given.plan]})
    run = taken_up(given, log)

    assert run.snapshot().model_dump_json(by_alias=True) == given.model_dump_json(by_alias=True)
    assert run.state.log.records(0, 10) == log.records(0, 10)


def test_no_part_is_left_out_of_the_test_before() -> None:
    assert list(at_default(everything(a_log()))) == []


def at_default(value: Any, where: str = "") -> Iterator[str]:
    """The fields of a carried object, and of those inside it, that are as they begin."""
    if isinstance(value, list):
        for each in value:
            yield from at_default(each, where)
    elif isinstance(value, BaseModel) and type(value).__module__.startswith(STATE_MODULES):
        for name, field in type(value).model_fields.items():
            if field.exclude:
                continue
            inner = getattr(value, name)
            if not field.is_required() and inner == field.get_default(call_default_factory=True):
                yield f"{where}.{name}"
            yield from at_default(inner, f"{where}.{name}")


def test_what_the_oldest_worker_left_is_read_and_gone_on_with() -> None:
    """No field may ever be required besides these; what a newer worker wrote does no harm."""
    oldest = {
        "request": {"agent": "tester", "newer": 1},
        "snapshot": SNAPSHOT.to_json() | {"newer": 1},
        "run": {
            "kept": {
                "log": {"newer": 1},
                "meter": {"budget": {"maxTurns": 3}, "granted": {"maxTurns": 3, "newer": 1}},
                "desk": {"newer": 1},
            },
            "mailbox": {"newer": [{}]},
            "newer": {},
        },
        "newer": 1,
    }
    run = taken_up(WorkflowSnapshot.read(oldest).run, Log(noon))

    assert run.state.asks_people
    run.proceed()
    assert isinstance(run.step, AskModel)
    run.model_answered(reply("done"))
    run.proceed()
    assert run.phases.end is not None
