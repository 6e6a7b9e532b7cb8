"""The paths of which a history is stored: what is asked for, and what models and people do."""

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import WorkflowUpdateFailedError
from temporalio.service import RPCError

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.schemas import names
from holdfast.schemas.internal.absences import Absence
from holdfast.schemas.settings.budgets import SharedBudget
from tests.replay.path import (
    ClientPath,
    ForkPath,
    LatePath,
    Path,
    ServerPath,
    decides,
    decision_on,
    single,
)
from tests.replay.whole import WHOLE
from tests.support import tools
from tests.support.backend import Run, ledger_has
from tests.support.eventually import eventually
from tests.support.identity.operators import Operator, change_request
from tests.support.model_server import MANY, Answer, Small, call

AT_ONCE = timedelta(milliseconds=1)
DONE = Answer("done")
HELD = Answer("done", hold=threading.Event())
BOARD = {"after": "100ms", "to": ["board"]}


async def early(run: Run) -> None:
    """A person decides before any approval is pending."""
    await run.signal("t1c1", "approve", by="ada")


async def moves(run: Run) -> None:
    """A person edits a call to an amount that others decide on, and approves all small ones."""
    await run.waiting(2)
    more: dict[str, Any] = {"by": "eve", "groups": ["support"]}
    await run.decide("t1c2", "edit", arguments={"amount": 5000}, **more)
    [digest] = [one["digest"] for one in await run.waiting(2) if one["callId"] == "t1c2"]
    for by in ("ann", "bob"):
        await run.decide("t1c2", "approve", by=by, groups=["finance"], digest=digest)
    await run.decide("t1c3", "approve", remember=True, **more)


async def drops(run: Run) -> None:
    """A person approves with other arguments, then denies."""
    await run.waiting()
    await run.signal("t1c1", "approve", arguments={"amount": 1})
    await run.signal("t1c1", "deny")


async def cancel(run: Run) -> None:
    """A person cancels the run while a call waits and another runs."""
    await run.waiting()

    async def has_started() -> bool:
        return "started a" in tools.read()

    await eventually(has_started)
    await run.handle.cancel()


async def decides_when_posted(run: Run) -> None:
    """A person approves a call once it was posted, and a reminder too."""

    async def both_are_sent() -> bool:
        ended = "activity_task_completed_event_attributes"
        return len([each for each in await run.history() if each.HasField(ended)]) >= 3

    await eventually(both_are_sent)
    await run.decide("t1c1", "approve", by="ada")


async def cancel_waiting(run: Run) -> None:
    """A person cancels while only a person is waited for."""
    await run.waiting()
    await run.handle.cancel()


async def _idle(run: Run) -> None:
    async def is_idle() -> bool:
        return bool((await run.status())["status"] == "awaiting_message")

    await eventually(is_idle)


async def uses_up(run: Run) -> None:
    """A person talks: a message uses up its budget, the next one that of all."""
    await _idle(run)
    with suppress(WorkflowUpdateFailedError):
        await run.handle.execute_update("send", "look it up")
    await run.handle.execute_update("send", "and now?")
    with suppress(WorkflowUpdateFailedError):
        await run.handle.execute_update("send", "again")


async def changes_skill(run: Run) -> None:
    """A person changes the skill, writes to people, and takes a message back."""
    await _idle(run)

    async def has_started() -> bool:
        return "started a" in tools.read()

    await run.handle.signal("message", {"content": "Hold it.", "skill": "holds"})
    await eventually(has_started)
    await run.handle.signal("message", {"content": "On hold.", "audience": "people"})
    await run.handle.signal("message", {"content": "Drop it.", "delivery": "followUp"})
    await run.handle.execute_update("withdraw", {"message": 2})
    tools.write("open a")
    await _idle(run)
    await run.handle.signal("close")


async def converse(run: Run) -> None:
    """A person talks, and hangs up."""
    await _idle(run)
    await run.handle.execute_update("send", "and two?")
    await run.handle.signal("message", {"content": "and three?", "delivery": "followUp"})

    async def answered() -> bool:
        status = await run.status()
        return bool(status["turn"] == 3 and status["status"] == "awaiting_message")

    await eventually(answered)
    await run.handle.signal("close")


async def budget(run: Run) -> None:
    """A person extends a budget, then ends the run."""
    await eventually(lambda: _waits(run, "t1-maxTurns"))
    await run.decide("t1-maxTurns", "approve")
    await eventually(lambda: _waits(run, "t2-maxTurns"))
    await run.decide("t2-maxTurns", "deny", reason="enough")


async def exceeds_once(run: Run) -> None:
    """People let one request exceed a budget that runs share, and not the next one."""
    await eventually(lambda: _waits(run, "t1-asks"))
    await run.decide("t1-asks", "approve", by="ann", groups=["finance"])
    await eventually(lambda: _waits(run, "t2-asks"))
    await run.decide("t2-asks", "deny", by="ann", groups=["finance"])


async def are_away(run: Run) -> None:
    """Two people are away, one of them longer than meant; then both are back early."""
    people, now = HoldfastClient(run.client, "absences"), datetime.now(UTC)
    for person, days in (("ada", 3), ("eve", 2), ("ada", 1)):
        times = {"from": now, "until": now + timedelta(days=days), "to": "bob"}
        await people.set_absence(Absence.model_validate({"person": person, "away": times}))
    for person in ("ada", "eve"):
        await people.set_absence(Absence(person=person))


async def pays_again(run: Run) -> None:
    """A person has seen that a payment was not made; the second time it goes through."""
    await run.waiting()
    tools.write("open rent")
    await run.run_again()


async def decides_claimed(run: Run) -> None:
    """One person claims a call, gives it back and claims it again; another decides it."""
    await run.waiting()
    for seconds in (900, 0, 900):
        claim = {"callId": "t1c1", "by": "ada", "seconds": seconds}
        await run.handle.execute_update("claim", claim)
    await run.decide("t1c1", "approve", by="bob")


async def decides_forwarded(run: Run) -> None:
    """A member of a group that is asked later decides."""

    async def is_forwarded() -> bool:
        [waiting] = await run.waiting()
        return "board" in waiting["approvers"]

    await eventually(is_forwarded)
    await run.decide("t1c1", "approve", by="ada", groups=["board"])


def pays_once(asked: int, request: dict[str, Any]) -> Answer:
    """The model pays, and ends once it has the result."""
    is_paid = any(message["role"] == "tool" for message in request["messages"])
    return DONE if is_paid else Answer(calls=[call("pay", amount=5)])


async def decides_around_expiry(run: Run) -> None:
    """While no worker runs, one person denies in time, and another approves late."""
    await run.signal("t1c1", "deny", by="ada", reason="too much")

    async def has_expired() -> bool:
        fired = "timer_fired_event_attributes"
        return any(each.HasField(fired) for each in await run.history())

    await eventually(has_expired)
    await run.signal("t1c1", "approve", by="bob")


async def edits_oddly(run: Run) -> None:
    """A person edits a call by a signal, as no one should, and then lets it go."""
    await run.waiting()
    await run.signal("t1c1", "edit", arguments={"text": "a", "tags": '["b", "c"'})
    with suppress(WorkflowUpdateFailedError):
        await run.decide("t1c1", "deny")


async def started_again(run: Run) -> None:
    """An operator gives a payment that is being made more attempts; it is reconciled as made."""

    async def has_started() -> bool:
        return bool(tools.read())

    await eventually(has_started)
    await Operator(run.client, run.id).retry(5, AT_ONCE, AT_ONCE * 1000)
    await run.waiting()
    await run.decide("t1c1", "happened", result="paid")


async def request_changed(run: Run) -> None:
    """An operator changes a request between two attempts: its next one is late at once."""
    await change_request(run)
    assert HELD.hold is not None
    HELD.hold.set()


async def reset_at_start(run: Run) -> None:
    """An operator resets a payment that is being made to its first task; it was made."""
    await ledger_has(f"paid rent {run.id}/t1c1")
    again = await run.reset(0)
    tools.write("open rent")

    async def asked() -> list[dict[str, Any]]:
        with suppress(RPCError):  # it is not there yet
            return await again.waiting()
        return []

    await eventually(asked)
    await again.decide("t1c1", "happened", result="paid")
    await again.result()


async def fills_in(run: Run) -> None:
    """A person approves a call, and answers both forms of its server."""
    await run.waiting()
    await run.decide("t1c1", "approve")
    await eventually(lambda: _requires(run, "row"))
    await run.decide("t1c1", "respond", result={"row": 3}, by="ada")
    await eventually(lambda: _requires(run, "sure"))
    [form] = await run.waiting()
    answer = {"sure": {"sure": True}, "pay": None}
    await run.decide("t1c1", "respond", result=answer, digest=form["digest"])


async def eats(run: Run) -> None:
    """A person approves a call, and answers the form of its task."""
    await run.waiting()
    await run.decide("t1c1", "approve")
    await eventually(lambda: _requires(run, "meal"))
    await run.decide("t1c1", "respond", result={"meal": "soup"})


async def cancels_task(run: Run) -> None:
    """A person approves a call, and cancels the run while its task runs."""
    await run.waiting()
    await run.decide("t1c1", "approve")

    async def is_polled() -> bool:
        return "t1c1-task" in str(await run.history())

    await eventually(is_polled)
    await run.handle.cancel()


async def _requires(run: Run, field: str) -> bool:
    return [field] == [
        next(iter(each["form"]["properties"])) for each in await run.waiting() if "form" in each
    ]


async def _waits(run: Run, call_id: str) -> bool:
    return call_id in [one["callId"] for one in await run.waiting()]


async def reconciles_items(run: Run) -> None:
    """Of two lost payments of a loop, a person has seen the first, and has the other made again."""
    await run.waiting(2)
    await run.decide("t1c1.0", "happened", result="rent")
    tools.write("open gas")
    await run.run_again("t1c1.1")


PAYS = [Answer(calls=[call("pay", amount=5, _reasoningForCall="they asked")]), DONE]
TWO_PAYMENTS = [Answer(calls=[call("pay", amount=1), call("pay", amount=2)]), DONE]
LOST = [Answer(calls=[call("held_payment", name="rent")]), DONE]
LOOK = Answer(calls=[call("look_up", id=1)])
ASKS = {"budget": {"maxTurns": 1}, "onLimit": {"maxTurns": "ask"}}


def shared(name: str, **limits: Any) -> dict[str, Any]:
    """A budget that runs share, as a setting of the worker."""
    own = SharedBudget(name=name, per="team", window="month", reserve=20, **limits)
    return {"budgets": [own]}


CHECK, CHECK_LONG = (Answer(calls=[call("check", text="x" * size)]) for size in (1, 50))
CHECKED = {
    "_tool": "check",
    "_activity": "echo",
    "_limits": {"forceAtStep": 2, "maxArgumentsBytes": 20},
    "properties": {"text": {"type": "string"}},
}
ESCALATE = {
    "_tool": "escalate",
    "_person": True,
    "properties": {"reason": {"type": "string"}},
    "_output": {"type": "object", "properties": {"days": {"type": "integer"}}},
}
AMOUNT, RENT = {"amount": 5}, {"name": "rent"}
PAY_EUROS = {
    "_tool": "give",
    "_activity": "refund",
    "_sideEffects": True,
    "_idempotent": True,
    "_approval": {"when": {"properties": {"currency": {"const": "EUR"}}, "required": ["currency"]}},
    "properties": {"amount": {"type": "number"}, "currency": {"default": "EUR"}},
}
PAY_BY_AMOUNT = {
    "_tool": "give",
    "_activity": "refund",
    "_sideEffects": True,
    "_idempotent": True,
    "_approval": [
        {"when": {"properties": {"amount": {"maximum": 100}}}, "require": "never"},
        {"when": {"properties": {"amount": {"maximum": 1000}}}, "approvers": ["support"]},
        {"name": "finance, two people", "approvers": ["finance"], "quorum": 2, "timeout": "2h"},
    ],
    "properties": {"amount": {"type": "number"}},
    "required": ["amount"],
}
QUORUM = {"approval": {"approvers": ["finance"], "quorum": 2}}

# A tool with texts, and calls of it as no model should write them.
NOTE = {
    "_tool": "note",
    "properties": {
        "text": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "_activity": "tidy",
}
ODD = [
    '{"text": "a", "tags": "[\\"b\\", \\"c\\""}',
    '{"text": 3.10}',
    '{"text": "a", "text": "b",}',
    '{"arguments": {"text": "a"}}',
    '```json\n{"text": "\\ud83d"}\n```',
]

# A loop over what is due, and a call that refers to one of its results.
PAY_EACH = {
    "_tool": "pay",
    "_activity": "pay",
    "_sideEffects": True,
    "_each": True,
    "properties": {"amount": {"type": "number"}},
    "required": ["amount"],
    "_outputPath": "†state.paid",
}
PAYS_EACH = call("pay", _each="†state.due", amount="†item.price")
NOTES_ONE = call("echo", text="Paid †{state.paid[2].paid}.")
DUE = {"due": [{"price": 1}, {"price": 2}, {"price": 3}, {"of": "gas"}]}
ONE_LEFT_OUT = {"_each": [{"amount": 1}, None, {"amount": 4}, None]}
LOSES_EACH = {
    "_tool": "lose",
    "_activity": {"type": "held_payment", "startToCloseTimeout": "1s"},
    "_sideEffects": True,
    "_each": True,
    "_approval": {"require": "never"},
    "properties": {"name": {"type": "string"}},
}

CONSTANT_CALLS = {
    "calls": [
        {"_tool": "look_up", "id": "†input.id"},
        {"_tool": "pay", "amount": "†state.item.id", "_outputPath": "†state.paid"},
    ],
    "answer": "Paid †{state.paid.paid} for †{state.item.name}.",
}

PATHS: dict[str, Path] = {
    "text": Path([Answer("hello")]),
    "forked": ForkPath([Answer(calls=[call("look_up", id=1)]), DONE], ["look_up"]),
    "calls_together": Path(
        [Answer("let me see", calls=[call("look_up", id=1), call("echo", text="hi")]), DONE],
        ["look_up", "echo"],
    ),
    "calls_in_order": Path(
        [Answer(calls=[call("look_up", id=1), call("in_order", name="a")]), DONE],
        ["look_up", "in_order"],
    ),
    "local_call": Path([Answer(calls=[call("quick", text="x")]), DONE], ["quick"]),
    "whole_call": Path(
        [Answer(calls=[call("whole", text="x")]), DONE],
        ["whole"],
        {
            "agent": {"approval": {"require": "always"}},
            "principal": {"id": "ann", "scopes": ["orders"]},
        },
        decides(decision_on("t1c1", "approve", by="ada", groups=["desk"])),
    ),
    "references": Path(
        [LOOK, Answer(calls=[call("echo", text="†state.item.name")]), DONE], ["look_up", "echo"]
    ),
    "refused_calls": Path(
        [Answer(calls=[call("nothing"), ("look_up", '{"id": '), call("look_up")]), DONE],
        ["look_up"],
    ),
    "odd_calls": Path([Answer(calls=[("note", odd) for odd in ODD]), DONE], [NOTE]),
    "odd_edit": Path(
        [Answer(calls=[("note", '{"text": "a"}')]), DONE],
        [{**NOTE, "_sideEffects": True}],
        people=edits_oddly,
    ),
    "cut_off": Path(
        [
            Answer(calls=[("note", '{"text": "a"}'), ("note", '{"text": "b')], finish="length"),
            Answer("Once upon", finish="length"),
            DONE,
        ],
        [NOTE],
    ),
    "copied_error": Path(
        [PAYS[0], Answer('{"error": {"code": "denied", "message": "no"}}'), DONE],
        ["pay"],
        people=decides(decision_on("t1c1", "deny", reason="no")),
    ),
    "failed_calls": Path(
        [Answer(calls=[call("raises"), call("never_ends"), call("misfit")]), DONE],
        ["raises", "never_ends", "misfit"],
    ),
    "approved": Path(PAYS, ["pay"], people=decides(decision_on("t1c1", "approve", by="ada"))),
    "denied": Path(PAYS, ["pay"], people=decides(decision_on("t1c1", "deny", reason="no"))),
    "by_a_substitute": Path(
        PAYS, ["pay"], people=decides(decision_on("t1c1", "approve", by="bob", onBehalfOf=["ada"]))
    ),
    "claimed": Path(PAYS, ["pay"], people=decides_claimed),
    "loop": Path(
        [Answer(calls=[PAYS_EACH, NOTES_ONE]), DONE],
        [PAY_EACH, "echo"],
        {"state": DUE, "agent": {"concurrency": 1}},
        decides(decision_on("t1c1", "edit", arguments=ONE_LEFT_OUT, by="ada")),
    ),
    "loop_of_unknown_outcome": Path(
        [Answer(calls=[call("lose", _each=["rent", "gas"], name="†item")]), DONE],
        [LOSES_EACH],
        people=reconciles_items,
    ),
    "started_by_client": ClientPath(
        PAYS, ["pay"], people=decides(decision_on("t1c1", "approve", by="ada"))
    ),
    "edited": Path(
        PAYS, ["pay"], people=decides(decision_on("t1c1", "edit", arguments={"amount": 3}))
    ),
    "mcp_forms": ServerPath(
        [Answer(calls=[call("airline_upgrade")]), DONE], ["mcp:airline/upgrade"], people=fills_in
    ),
    "mcp_task": ServerPath(
        [Answer(calls=[call("airline_fly", flight="T1")]), DONE], ["mcp:airline/fly"], people=eats
    ),
    "mcp_task_cancelled": ServerPath(
        [Answer(calls=[call("airline_fly", flight="LONG")]), DONE],
        ["mcp:airline/fly"],
        people=cancels_task,
    ),
    "answered": Path(PAYS, ["pay"], people=decides(decision_on("t1c1", "respond", result="cash"))),
    "remembered": Path(
        [PAYS[0], PAYS[0], DONE],
        ["pay"],
        people=decides(decision_on("t1c1", "approve", remember=True)),
    ),
    "approval_rules": Path(
        [
            Answer(calls=[call("give", amount=amount) for amount in (50, "500.00", 600)]),
            Answer(calls=[call("give", amount=700)]),
            DONE,
        ],
        [PAY_BY_AMOUNT],
        people=moves,
        told=True,
    ),
    "exact_numbers": Path([Answer(calls=[call("pay", amount=9007199254740993)]), DONE], ["pay"]),
    "plain_names": Path(
        PAYS,
        ["pay"],
        {"agent": {"approval": {"quorum": 2}}, "principal": {"id": "ann\ufe0f"}},
        decides(
            decision_on("t1c1", "approve", by="bob\u3164"), decision_on("t1c1", "approve", by="eve")
        ),
    ),
    "quorum": Path(
        PAYS,
        ["pay"],
        {"agent": QUORUM},
        decides(
            decision_on("t1c1", "approve", by="ada", groups=["finance"]),
            decision_on("t1c1", "approve", by="eve", groups=["finance"]),
        ),
    ),
    "two_decided_backwards": Path(
        TWO_PAYMENTS,
        ["pay"],
        people=decides(decision_on("t1c2", "approve"), decision_on("t1c1", "deny")),
    ),
    "decided_early": Path(PAYS, ["pay"], people=early),
    "unused_fields": Path(PAYS, ["pay"], people=drops),
    "guarded_edit": Path(
        PAYS,
        ["pay"],
        {"agent": {"_before": "guard"}},
        decides(decision_on("t1c1", "edit", arguments={"amount": 3})),
    ),
    "released": Path(
        TWO_PAYMENTS, ["pay"], people=decides(decision_on("t1c1", "approve", remember=True))
    ),
    "defaults": Path(
        [Answer(calls=[call("give", amount=5)]), DONE],
        [PAY_EUROS],
        people=decides(decision_on("t1c1", "deny")),
    ),
    "nobody_decided": Path(PAYS, ["pay"], {"agent": {"approval": {"timeout": "50ms"}}}),
    "reminded": Path(
        PAYS, ["pay"], {"agent": {"approval": {"timeout": "300ms", "remind": "100ms"}}}
    ),
    "late_decisions": Path(
        pays_once,
        ["pay"],
        {"agent": {"approval": {"timeout": "3s"}}},
        outage=decides_around_expiry,
    ),
    "forwarded": Path(
        PAYS,
        ["pay"],
        {"agent": {"approval": {"approvers": ["desk"], "forward": [BOARD], "remind": "2s"}}},
        decides_forwarded,
        told=True,
    ),
    "told": Path(
        [PAYS[0], Answer(calls=[call("look_up", id=1), call("pay", amount=9)]), DONE],
        ["pay", "look_up"],
        {"agent": {"approval": {"timeout": "1500ms", "remind": "1s"}}},
        decides(decision_on("t1c1", "approve", by="ada")),
        told=True,
    ),
    "told_gone_on": Path(
        [PAYS[0], *[LOOK] * 3, *PAYS],
        ["pay", "look_up"],
        {"agent": MANY},
        decides(decision_on("t1c1", "approve", remember=True)),
        settings={"continue_after": 25},
        told=True,
    ),
    "told_cancelled": Path(
        [Answer(calls=[call("held", name="a"), call("pay", amount=1)])],
        ["held", "pay"],
        people=cancel,
        told=True,
    ),
    "posted": Path(
        PAYS, ["pay"], {"agent": {"approval": {"remind": "1s"}}}, decides_when_posted, posted=True
    ),
    "must_not_wait": Path(PAYS, ["pay"], {"approvals": "deny"}),
    "happened": Path(
        LOST, ["held_payment"], people=decides(decision_on("t1c1", "happened", result="x"))
    ),
    "did_not_happen": Path(
        LOST,
        ["held_payment"],
        people=pays_again,
    ),
    "given_up": Path(LOST, ["held_payment"], people=decides(decision_on("t1c1", "give_up"))),
    "budget_asks": Path([LOOK], ["look_up"], {"agent": ASKS}, budget),
    "shared_budget": Path(
        [LOOK, LOOK, DONE],
        ["look_up"],
        settings=shared("spent", max_tokens=40, max_calls={"look_up": 1}),
    ),
    "shared_budget_asks": Path(
        [LOOK],
        ["look_up"],
        people=exceeds_once,
        settings=shared("asks", max_tokens=30, on_limit="ask", approvers=["finance"]),
    ),
    "shared_budget_counts": Path(
        [LOOK, LOOK, DONE],
        ["look_up"],
        other=lambda _: f"holdfast-budget/counts/unassigned/{datetime.now(UTC):%Y-%m}",
        settings=shared("counts", max_tokens=40, max_runs=1, max_calls={"look_up": 1}),
    ),
    # The eleventh request and those after it are reserved of a lease.
    "shared_budget_leases": Path(
        [LOOK] * 13 + [DONE],
        ["look_up"],
        {"agent": {"budget": {"maxTurns": 14, "maxIterations": 13}}},
        other=lambda _: f"holdfast-budget/leases/unassigned/{datetime.now(UTC):%Y-%m}",
        settings=shared("leases", max_tokens=10_000),
    ),
    "absences": Path([DONE], people=are_away, other=lambda _: names.ABSENCES_ID),
    "iterations_used_up": Path([LOOK, LOOK, DONE], ["look_up"], {"budget": {"maxIterations": 2}}),
    "final_calls": Path([LOOK], ["look_up"], {"budget": {"maxIterations": 1}}),
    "turns_used_up": Path([Answer("")], [], {"budget": {"maxTurns": 2}}),
    "calls_used_up": Path(
        [Answer(calls=[call("look_up", id=n) for n in range(3)])],
        ["look_up"],
        {"budget": {"maxCalls": 2}},
    ),
    "stopped": Path([Answer(calls=[call("stops")])], ["stops"]),
    "structured_output": Path(
        [Answer("no json"), Answer('{"n": "3"}')],
        request={"agent": {"output": {"type": "object", "properties": {"n": {"type": "integer"}}}}},
    ),
    "conversation": Path(
        [Answer("one"), Answer("two"), Answer("three")],
        request={"conversation": True},
        people=converse,
    ),
    "message_budgets": Path(
        [Answer("one"), LOOK, Answer("three")],
        ["look_up"],
        {
            "conversation": True,
            "budget": {"perMessage": {"maxTurns": 1}, "total": {"maxTurns": 3}},
        },
        uses_up,
    ),
    "skill_changed": Path(
        [
            Answer("one"),
            Answer(calls=[call("held", name="a")]),
            Answer(calls=[call("choose_skill", skill="items")]),
            DONE,
        ],
        request={
            "conversation": True,
            "skill": "items",
            "agent": {
                "changeSkill": True,
                "skills": [
                    {"name": "items", "tools": ["look_up"]},
                    {"name": "holds", "tools": ["held"]},
                ],
            },
        },
        people=changes_skill,
    ),
    "cancelled": Path(
        [Answer(calls=[call("held", name="a"), call("pay", amount=1)])],
        ["held", "pay"],
        people=cancel,
    ),
    "summarised": Path(Small(3_000, echoes=6), ["look_up", "echo"], {"agent": MANY}),
    "left": Path(
        [*[LOOK] * 4, DONE],
        ["look_up"],
        {"agent": MANY},
        first=True,
        settings={"continue_after": 25},
    ),
    "gone_on": Path(
        [PAYS[0], *[LOOK] * 3, *PAYS],
        ["pay", "look_up"],
        {"agent": MANY, "state": {"kept": 1}},
        decides(decision_on("t1c1", "approve", remember=True)),
        settings={"continue_after": 25},
    ),
    "answered_by_person": Path(
        [Answer(calls=[call("escalate", reason="Why?")]), DONE],
        [ESCALATE],
        people=decides(decision_on("t1c1", "respond", result={"days": "3"}, by="ada")),
    ),
    "forced": Path(
        [LOOK, CHECK_LONG, CHECK, DONE],
        ["look_up", CHECKED],
        {"agent": {"onThreshold": {"maxCalls": 0.5}}, "budget": {"maxCalls": 5}},
        told=True,
    ),
    "model_refused": Path([Answer(status=400, body={"error": {"message": "asleep"}})]),
    "bad_request": Path([DONE], request={"agent": {"model": {"endpoint": "nowhere"}}}),
    "constant_calls": Path(
        [],
        ["look_up", "pay"],
        {"agent": CONSTANT_CALLS, "input": {"id": 7}},
        decides(decision_on("t1c2", "approve", by="ada")),
    ),
    "single": single("look_up", {"id": "7"}),
    "single_local": single("quick", {"text": "x"}),
    "single_approved": single(
        "pay", AMOUNT, decides(decision_on("t1c1", "approve", by="ada")), principal={"id": "bob"}
    ),
    "principal_expired": LatePath([], tool="pay", arguments=AMOUNT),
    "single_edited": single(
        "pay", AMOUNT, decides(decision_on("t1c1", "edit", arguments={"amount": "3"}))
    ),
    "single_denied": single("pay", AMOUNT, decides(decision_on("t1c1", "deny", reason="no"))),
    "single_happened": single(
        "held_payment", RENT, decides(decision_on("t1c1", "happened", result="x"))
    ),
    "single_did_not_happen": single("held_payment", RENT, pays_again),
    "request_again": Path([HELD], people=request_changed),
    "single_started_again": single("held_payment", RENT, started_again),
    "single_reset_at_start": single("held_payment", RENT, reset_at_start),
    "single_invalid": single("look_up", {"id": "x"}),
    "single_failed": single("raises", {}),
    "single_cancelled": single("pay", AMOUNT, cancel_waiting),
    "single_unknown_tool": single("look_ap", {}),
    **WHOLE,
}
