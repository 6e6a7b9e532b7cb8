"""A run is watched from outside: what happens as it happens, for as long as it lasts."""

import asyncio
import io
import json
import os
import threading
from collections.abc import Iterator

import pytest
from temporalio.client import Client

from holdfast.cli.prompts.answers import AnswerSource
from holdfast.cli.screens.follow import follow
from holdfast.cli.screens.plain import PlainScreen
from holdfast.client import run_handle as remote_run
from tests.cli.conftest import Holdfast, Start
from tests.support.eventually import eventually
from tests.support.house import OpenHouse
from tests.support.model_server import Answer, call

PAYS = [Answer("I pay.", [call("pay", amount=5), call("pay", amount=6)]), Answer("Paid.")]
PAYS_ONE = [Answer("I pay.", [call("pay", amount=5)]), Answer("Paid.")]


class Keyboard:
    """A pipe for answers, whose end stays open until it is closed."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self.answers = AnswerSource(self._reading, by="anna")

    def type(self, text: str) -> None:
        os.write(self._writing, text.encode())

    def hang_up(self) -> None:
        os.close(self._writing)
        self._writing = -1

    def close(self) -> None:
        for end in (self._reading, self._writing):
            if end >= 0:
                os.close(end)


@pytest.fixture
def keyboard() -> Iterator[Keyboard]:
    """Answers that a test gives."""
    board = Keyboard()
    yield board
    board.close()


async def test_tokens_are_told_while_the_model_answers(open_house: OpenHouse, start: Start) -> None:
    more = threading.Event()
    house = await open_house([Answer("I think, and then I say more.", hold=more)])
    run = await house.start()
    watching = start("watch", run.id, "--json")

    await watching.until('"type": "token"')
    more.set()

    assert await watching.ended() == 0
    assert '"type": "done"' in watching.seen


async def test_what_waits_is_told_with_the_command_that_decides_it(
    open_house: OpenHouse, start: Start
) -> None:
    house = await open_house(PAYS_ONE)
    run = await house.start(["pay"])
    watching = start("watch", run.id)

    told = await watching.until("approve|deny|edit|respond")
    await run.decide("t1c1", "approve", by="bea")

    assert f"waits      t1c1 Pay: holdfast decide {run.id} t1c1" in told
    assert await watching.ended() == 0
    assert "decided    t1c1 Pay: approved by bea" in watching.seen
    assert '{"paid": 5' in watching.seen


async def test_a_run_that_has_ended_is_told_from_its_beginning(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house([Answer("Done.")])
    run = await house.start()
    await run.result()

    said = await holdfast("watch", run.id)

    assert said.code == 0
    assert "user       go" in said.out
    assert "output: Done." in said.out


async def test_a_cancelled_run_ends_the_watch_with_1(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house(PAYS_ONE)
    run = await house.start(["pay"])
    await run.waiting()

    cancelled = await holdfast("cancel", run.id)
    watched = await holdfast("watch", run.id)
    as_json = await holdfast("watch", run.id, "--json")

    assert cancelled.code == 0
    assert watched.code == as_json.code == 1
    assert "cancelled: " in watched.out
    assert json.loads(as_json.out.splitlines()[-1])["type"] == "error"


async def test_a_terminated_run_ends_the_watch_though_it_could_not_say_so(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house(PAYS_ONE)
    run = await house.start(["pay"])
    await run.waiting()
    await run.handle.terminate(reason="enough")

    said = await holdfast("watch", run.id, "--json")

    last = json.loads(said.out.splitlines()[-1])
    assert said.code == 1
    assert (last["type"], last["code"], last["message"]) == ("error", "terminated", "enough")


async def test_without_a_worker_the_end_of_a_run_is_told_still(
    client: Client, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 0.2)
    handle = await client.start_workflow("AgentWorkflow", {}, id="unheard", task_queue="empty")
    await handle.terminate(reason="enough")

    said = await holdfast("watch", "unheard")

    assert said.code == 1
    assert "no worker answers queries on task queue empty; start one" in said.out
    assert "terminated: enough" in said.out


async def test_a_run_that_nobody_works_on_is_watched_all_the_same(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 0.2)
    run = await client.start_workflow("AgentWorkflow", {}, id="alone", task_queue="empty")
    out = io.StringIO()

    async def told() -> bool:
        return "no worker answers queries" in out.getvalue()

    async def end() -> None:
        await eventually(told)
        await run.terminate(reason="enough")

    code, _ = await asyncio.gather(follow(client, run.id, out=PlainScreen(out, run.id)), end())

    assert code == 1
    assert out.getvalue().count("no worker answers queries") == 1


async def test_what_is_no_run_of_an_agent_is_told_apart(client: Client, holdfast: Holdfast) -> None:
    await client.start_workflow("Other", id="other", task_queue="empty")

    nothing, other = await holdfast("watch", "nothing"), await holdfast("watch", "other")

    assert nothing.code == other.code == 4
    assert nothing.err == "holdfast: there is no run nothing; holdfast list shows the runs\n"
    assert "other is a Other, not an agent's run" in other.err


async def test_answers_from_a_pipe_decide_the_calls_in_order(
    client: Client, open_house: OpenHouse, keyboard: Keyboard
) -> None:
    house = await open_house(PAYS)
    run = await house.start(["pay"])
    out = io.StringIO()
    keyboard.type("y\nn\nonce is enough\n")

    code = await follow(client, run.id, out=PlainScreen(out, run.id), ask=keyboard.answers)

    assert code == 0
    results = await run.results()
    assert "paid" in results["t1c1"]
    assert "once is enough" in results["t1c2"]
    assert "decided    t1c1 Pay: approved by anna" in out.getvalue()


async def test_when_the_answers_end_the_run_is_left_waiting(
    client: Client, open_house: OpenHouse, keyboard: Keyboard
) -> None:
    house = await open_house(PAYS)
    run = await house.start(["pay"])
    out = io.StringIO()
    keyboard.type("y\n")
    keyboard.hang_up()

    code = await follow(
        client, run.id, out=PlainScreen(out, run.id), ask=keyboard.answers, keep_following=False
    )

    assert code == 1
    assert [waiting["callId"] for waiting in await run.waiting()] == ["t1c2"]
    told = out.getvalue().partition("The input has ended")[2]
    assert f"holdfast decide {run.id} t1c2 approve|deny|edit|respond" in told
    assert f"holdfast watch {run.id}" in told


async def test_a_question_ends_when_somebody_else_has_decided(
    client: Client, open_house: OpenHouse, keyboard: Keyboard
) -> None:
    house = await open_house(PAYS_ONE)
    run = await house.start(["pay"])
    out = io.StringIO()

    async def asked_already() -> bool:
        return "[a]pprove" in out.getvalue()

    async def decide_elsewhere() -> None:
        await eventually(asked_already)
        await run.decide("t1c1", "deny", by="bea")

    code, _ = await asyncio.gather(
        follow(client, run.id, out=PlainScreen(out, run.id), ask=keyboard.answers),
        decide_elsewhere(),
    )

    assert code == 0
    assert "Pay (t1c1) was decided elsewhere." in out.getvalue()
    assert "t1c1 Pay: denied by bea" in out.getvalue()


async def test_a_decision_that_does_not_count_is_asked_again(
    client: Client, open_house: OpenHouse, keyboard: Keyboard
) -> None:
    house = await open_house(PAYS_ONE)
    run = await house.start(["pay"])
    out = io.StringIO()
    keyboard.type('e\n{"amount": "much"}\ne\n{"amount": 4}\n')

    code = await follow(client, run.id, out=PlainScreen(out, run.id), ask=keyboard.answers)

    assert code == 0
    assert "Rejected: the edited arguments do not fit" in out.getvalue()
    assert "t1c1 Pay: approved with changes by anna" in out.getvalue()
    assert '{"paid": 4' in out.getvalue()


async def test_under_a_quorum_each_person_is_asked_once(
    client: Client, open_house: OpenHouse, keyboard: Keyboard
) -> None:
    house = await open_house(PAYS_ONE)
    run = await house.start(["pay"], agent={"approval": {"quorum": 2}})
    out = io.StringIO()
    keyboard.type("y\n")

    async def counted() -> bool:
        return "Counted: 1 more must agree." in out.getvalue()

    async def agree() -> None:
        await eventually(counted)
        await run.decide("t1c1", "approve", by="bea")

    code, _ = await asyncio.gather(
        follow(client, run.id, out=PlainScreen(out, run.id), ask=keyboard.answers),
        agree(),
    )

    assert code == 0
    assert out.getvalue().count("[a]pprove") == 1
