"""Notifications of approvals."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.responses import Response
from temporalio import workflow
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from holdfast.schemas.settings.notify import Listener
from holdfast.workflows.commands import publisher
from holdfast.workflows.commands.publisher import ApprovalNotifier
from holdfast.workflows.engine.approvals.question import Question
from tests.engine.asking import approve, asks, decides, open_question
from tests.engine.driver import FACTS, Play
from tests.support.backend import Launch, Run
from tests.support.eventually import eventually
from tests.support.identity.signing import Approver, write_keys
from tests.support.model_server import Answer, call
from tests.support.news_receivers import SECRET, Listening, listening

PAYS = [Answer(calls=[call("pay", amount=5)]), Answer("paid")]
TELL = "tell_people"


# More than are sent at once.
MANY = 25


@pytest.fixture
async def program(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Listening]:
    """A program that listens."""
    monkeypatch.setenv("SECRET", SECRET)
    async with listening() as found:
        yield found


def notifiers(folder: Path, **channels: Any) -> Path:
    """A worker's file of channels, by their names."""
    file = folder / "notify.json"
    file.write_text(json.dumps({"inbox": "https://inbox.x", "channels": channels}))
    return file


def hook(program: Listening, place: str = "", **more: Any) -> dict[str, Any]:
    return {"webhook": {"url": program.url + place, "secretEnv": "SECRET"}, **more}


def received(program: Listening) -> list[str]:
    """What a program received, in order."""
    return [heard.json["type"].removeprefix("approval.") for heard in program.heard]


async def began(run: Run) -> list[str]:
    """What the run's history has of telling people."""
    found = await run.history()
    return [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in found
        if event.HasField("activity_task_scheduled_event_attributes")
    ]


async def test_people_are_notified_of_the_question_each_reminder_and_the_decision(
    launch: Launch, program: Listening, tmp_path: Path
) -> None:
    file = notifiers(
        tmp_path, desk=hook(program), legal=hook(program, groups=["legal"], on=["asked"])
    )
    forward = [{"after": "100ms", "to": ["legal"]}]
    policy = {"remind": "200ms", "approvers": ["finance"], "forward": forward}
    run = await (await launch(PAYS, notifiers=file)).start(
        ["pay"], agent={"approval": policy}, principal={"id": "ada"}
    )

    async def all_were_sent() -> bool:
        return received(program).count("asked") == 2 and "reminder" in received(program)

    await eventually(all_were_sent)
    await run.decide("t1c1", "approve", by="bob", groups=["legal"])
    assert (await run.result())["output"] == "paid"
    kinds, said = received(program), [heard.json["data"] for heard in program.heard]
    assert (kinds[-1], kinds.count("decided")) == ("decided", 1)
    asked = [one for one in said if one["kind"] == "asked"]
    first, forwarded = sorted(asked, key=lambda one: "forwarded" in one)
    assert (first.get("forwarded"), forwarded["forwarded"]) == (None, ["legal"])
    last = said[-1]
    assert (first["workflowId"], first["agent"], first["principal"]) == (run.id, "tester", "ada")
    assert first["waiting"]["label"] == "Pay"
    assert first["link"] == f"https://inbox.x/waiting/{run.id}/t1c1"
    assert (last["decided"]["by"], last["decided"]["decision"]) == ("bob", "approve")
    assert last["link"] == f"https://inbox.x/run/{run.id}"
    ids = [heard.headers["webhook-id"] for heard in program.heard]
    assert len(set(ids)) == len(ids)
    assert {heard.json["data"]["about"] for heard in program.heard} == {first["about"]}


async def test_people_are_notified_once_that_a_budget_is_nearly_used_up(
    launch: Launch, program: Listening, tmp_path: Path
) -> None:
    looks = [*[Answer(calls=[call("look_up", id=1)])] * 4, Answer("done")]
    backend = await launch(looks, notifiers=notifiers(tmp_path, desk=hook(program)))
    agent = {"budget": {"maxCalls": 5}, "onThreshold": {"maxCalls": 0.4}}
    run = await backend.start(["look_up"], agent=agent)
    assert (await run.result())["output"] == "done"

    assert received(program) == ["threshold"]
    news = program.heard[0].json["data"]
    assert news["waiting"]["label"] == "maxCalls: 2 of 5 used"
    assert news["link"] == f"https://inbox.x/run/{run.id}"
    [event] = [each for each in await run.events() if each["type"] == "budget_threshold"]
    assert (event["budget"], event["used"], event["limit"]) == ("maxCalls", 2, 5)


def deaf_to(program: Listening, kind: str) -> None:
    """Have a program take no news of this kind."""

    def answer(_: int) -> Response:
        return Response(status_code=503 if received(program)[-1] == kind else 204)

    program.answer = answer


async def test_a_message_during_the_last_notification_of_a_run_is_answered(
    launch: Launch, program: Listening, tmp_path: Path
) -> None:
    deaf_to(program, "decided")
    backend = await launch(
        [*PAYS, Answer("and more")], notifiers=notifiers(tmp_path, desk=hook(program))
    )
    run = await backend.start(["pay"])
    await run.waiting()
    await run.decide("t1c1", "approve")
    await eventually(lambda: waits(run))
    await run.handle.signal("message", {"content": "what else?", "delivery": "followUp"})
    assert (await run.result())["output"] == "and more"
    # Again at the end, in full, and that is that.
    assert await waits(run) == 2


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_a_message_that_arrives_after_the_end_of_a_run_is_in_its_log(
    launch: Launch, program: Listening, tmp_path: Path, decision: str
) -> None:
    deaf_to(program, "decided")
    ann = Approver("ann")
    known = {"keys": str(write_keys(tmp_path / "keys.json", ann)), "principal_tokens": True}
    backend = await launch([], notifiers=notifiers(tmp_path, desk=hook(program)), **known)
    # A run without a model ends with its last call.
    agent, principal = {"calls": [{"_tool": "pay", "amount": 5}]}, {"token": ann.principal("ann")}
    run = await backend.start(["pay"], agent=agent, principal=principal)
    await run.waiting()
    await run.decide("t1c1", decision)
    await eventually(lambda: waits(run))
    await run.handle.signal("message", "what else?")
    await run.handle.signal("message", {"content": "Look into it.", "audience": "people"})
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await run.handle.execute_update("renew", {"token": ann.principal("ann", jti=run.id)})
    assert "the run has ended" in str(refused.value.cause)
    if decision == "deny":
        assert (await run.failure()).type == "denied"
    else:
        [unread] = (await run.result())["undelivered"]
        assert unread["text"] == "what else?"
    end, remark, last = (await run.context())[-3:]
    assert end["type"] == ("done" if decision == "approve" else "error")
    assert last["message"]["content"] == "what else?"
    assert (remark["type"], remark["content"]) == ("remark", "Look into it.")


async def test_a_channel_that_cannot_be_reached_holds_up_no_other_and_is_not_flooded(
    launch: Launch, program: Listening, tmp_path: Path
) -> None:
    program.answer = lambda _: Response(status_code=503, headers={"retry-after": "60"})
    async with listening() as other:
        file = notifiers(tmp_path, lost=hook(program), desk=hook(other))
        pays = [Answer(calls=[call("pay", amount=n) for n in range(MANY)])]
        backend = await launch(pays, notifiers=file)
        run = await backend.start(["pay"], agent={"approval": {"remind": "1s"}})

        async def all_were_reminded() -> bool:
            kinds = received(other)
            return kinds.count("asked") == MANY <= kinds.count("reminder")

        await eventually(all_were_reminded)
        tried = [heard.json["data"]["kind"] for heard in program.heard]
        assert set(tried) == {"asked"}
        assert len(tried) < MANY
        await run.handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await run.result()


async def waits(run: Run) -> int:
    """How often a run has waited for its notifications."""
    timers = [e for e in await run.history() if e.HasField("timer_started_event_attributes")]
    return sum(b"Waits a moment for pending" in e.user_metadata.summary.data for e in timers)


async def test_the_last_notification_is_not_lost_when_a_run_continues_as_new(
    launch: Launch, program: Listening, tmp_path: Path
) -> None:
    def answer(_: int) -> Response:
        late = received(program).count("decided") == 1
        return Response(status_code=503 if late else 204, headers={"retry-after-ms": "200"})

    program.answer = answer
    file = notifiers(tmp_path, desk=hook(program, on=["decided"]))
    backend = await launch(PAYS, notifiers=file, continue_after=20)
    run = await backend.start(["pay"])
    await run.waiting()
    await run.decide("t1c1", "approve")
    assert (await run.result())["output"] == "paid"
    assert received(program) == ["decided", "decided"]
    assert TELL not in await began(run)  # the last of the chain: it was sent before that began


ON: Any = ["asked", "reminder", "expired", "decided"]


@dataclass
class Deaf:
    """Channels in which nothing arrives, until it `fails`; how often a run has `waited` for it."""

    told: list[tuple[str, str]] = field(default_factory=list)
    sending: list[asyncio.Task[Any]] = field(default_factory=list)
    fails: asyncio.Event = field(default_factory=asyncio.Event)
    waited: int = 0

    async def notify(self, _: str, told: dict[str, Any], **__: Any) -> None:
        self.told.append((told["channel"], told["news"]["kind"]))
        task = asyncio.current_task()
        assert task is not None
        self.sending.append(task)
        await self.fails.wait()
        raise ApplicationError("no listener", type="telling_failed")

    async def wait(self, *_: Any, **__: Any) -> None:
        self.waited += 1
        raise TimeoutError


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deaf]:
    """What replaces Temporal."""
    found = Deaf()
    info = SimpleNamespace(workflow_id="run-1", run_id="first")
    monkeypatch.setattr(workflow, "execute_activity", found.notify)
    monkeypatch.setattr(workflow, "wait_condition", found.wait)
    monkeypatch.setattr(workflow, "info", lambda: info)
    monkeypatch.setattr(workflow, "now", lambda: datetime(2026, 1, 2, tzinfo=UTC))
    yield found
    found.fails.set()


def telling(play: Play, *channels: str) -> ApprovalNotifier:
    """What notifies people of a run in these channels."""
    listeners = [Listener(name=name, on=ON) for name in channels]
    return ApprovalNotifier(play.run, FACTS.model_copy(update={"notifiers": listeners}))


async def settled() -> None:
    """Let everything begin or end that can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_that_it_waits_is_called_off_when_the_run_is_cancelled(deaf: Deaf) -> None:
    play = asks()
    open_question(play)
    told = telling(play, "desk")
    told.update()
    await settled()
    assert [each.done() for each in deaf.sending] == [False]
    play.run.cancel()
    told.update()
    await settled()
    assert [each.cancelled() for each in deaf.sending] == [True]
    assert deaf.told == [("desk", "asked")]


async def test_another_question_is_sent_all_the_same(deaf: Deaf) -> None:
    play = asks()
    first = open_question(play)
    play.desk.add(Question(**{**vars(first), "call_id": "t1c2"}))
    told = telling(play, "desk")
    told.update()
    await settled()
    play.desk.withdraw(first.call_id)
    told.update()
    await settled()
    assert [each.done() for each in deaf.sending] == [True, False]


async def test_there_is_a_moment_for_all_that_is_on_its_way_and_another_for_what_is_new(
    deaf: Deaf,
) -> None:
    play = asks()
    open_question(play)
    told = telling(play, "desk")
    told.update()
    for _ in range(2):
        await told.wait_for_delivery()
    assert deaf.waited == 1
    decides(play, approve())
    told.update()
    await told.wait_for_delivery()
    assert deaf.waited == 2


async def test_a_run_logs_once_that_notifications_were_left_out(
    deaf: Deaf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "MAX_PENDING_DELIVERIES", 2)
    play = asks(policy={"remind": "1h"})
    question = open_question(play)
    told = telling(play, "desk", "legal", "board", "press")
    told.update()
    question.reminders += 1
    told.update()
    await settled()
    assert deaf.told == [("desk", "asked"), ("legal", "asked")]
    notices = [entry["text"] for entry in play.records("notice")]
    assert len(notices) == 1
    assert notices[0].startswith("some notifications were not sent")


async def test_a_lost_notification_fails_no_run(deaf: Deaf) -> None:
    play = asks()
    open_question(play)
    telling(play, "desk", "legal").update()
    await settled()
    deaf.fails.set()
    await settled()
    assert [each.done() and each.exception() for each in deaf.sending] == [None, None]
