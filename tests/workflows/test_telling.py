"""§13: what one run tells people is bounded, called off, and waited for once."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from holdfast.schemas.settings.notify import Listener
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.publishing import notifier
from holdfast.workflows.publishing.notifier import ApprovalNotifier
from tests.engine.asking import approve, asks, decides, open_question
from tests.engine.driver import FACTS, Play

ON: Any = ["asked", "reminder", "expired", "decided"]


@dataclass
class Deaf:
    """Channels in which nothing arrives, until it `fails`; how often a run has `waited` for it."""

    told: list[tuple[str, str]] = field(default_factory=list)
    sending: list[asyncio.Task[Any]] = field(default_factory=list)
    fails: asyncio.Event = field(default_factory=asyncio.Event)
    waited: int = 0

    async def tell(self, _: str, told: dict[str, Any], **__: Any) -> None:
        self.told.append((told["channel"], told["news"]["kind"]))
        task = asyncio.current_task()
        assert task is not None
        self.sending.append(task)
        await self.fails.wait()
        raise ApplicationError("nobody listens", type="telling_failed")

    async def wait(self, *_: Any, **__: Any) -> None:
        self.waited += 1
        raise TimeoutError


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deaf]:
    """What stands in for Temporal."""
    found = Deaf()
    info = SimpleNamespace(workflow_id="run-1", run_id="first")
    monkeypatch.setattr(workflow, "execute_activity", found.tell)
    monkeypatch.setattr(workflow, "wait_condition", found.wait)
    monkeypatch.setattr(workflow, "info", lambda: info)
    monkeypatch.setattr(workflow, "now", lambda: datetime(2026, 1, 2, tzinfo=UTC))
    yield found
    found.fails.set()


def telling(play: Play, *channels: str) -> ApprovalNotifier:
    """What tells people of a run in these channels."""
    listeners = [Listener(name=name, on=ON) for name in channels]
    return ApprovalNotifier(play.run, FACTS.model_copy(update={"notifiers": listeners}))


async def begun() -> None:
    """Let everything begin or end that can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_that_it_waits_is_called_off_when_the_run_is_cancelled(deaf: Deaf) -> None:
    play = asks()
    open_question(play)
    told = telling(play, "desk")
    told.update()
    await begun()
    assert [each.done() for each in deaf.sending] == [False]
    play.run.cancel()
    told.update()
    await begun()
    assert [each.cancelled() for each in deaf.sending] == [True]
    assert deaf.told == [("desk", "asked")]


async def test_another_question_is_told_of_all_the_same(deaf: Deaf) -> None:
    play = asks()
    first = open_question(play)
    play.desk.add(Question(**{**vars(first), "call_id": "t1c2"}))
    told = telling(play, "desk")
    told.update()
    await begun()
    play.desk.withdraw(first)
    told.update()
    await begun()
    assert [each.done() for each in deaf.sending] == [True, False]


async def test_there_is_a_moment_for_all_that_is_on_its_way_and_another_for_what_is_new(
    deaf: Deaf,
) -> None:
    play = asks()
    open_question(play)
    told = telling(play, "desk")
    told.update()
    for _ in range(2):
        await told.wait_for_delivery(lambda: False)
    assert deaf.waited == 1
    decides(play, approve())
    told.update()
    await told.wait_for_delivery(lambda: False)
    assert deaf.waited == 2


async def test_of_too_much_the_run_says_once_that_people_were_not_told(
    deaf: Deaf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "MAX_PENDING_DELIVERIES", 2)
    play = asks(policy={"remind": "1h"})
    question = open_question(play)
    told = telling(play, "desk", "legal", "board", "press")
    told.update()
    play.run.calls.remind(1, question)
    told.update()
    await begun()
    assert deaf.told == [("desk", "asked"), ("legal", "asked")]
    notices = [entry["text"] for entry in play.records("notice")]
    assert len(notices) == 1
    assert notices[0].startswith("people were not told of everything")


async def test_what_does_not_arrive_is_an_error_of_nobody(deaf: Deaf) -> None:
    play = asks()
    open_question(play)
    telling(play, "desk", "legal").update()
    await begun()
    deaf.fails.set()
    await begun()
    assert [each.done() and each.exception() for each in deaf.sending] == [None, None]
