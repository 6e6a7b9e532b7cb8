"""A decision from the command line: what it comes to, and how it is refused."""

import pytest
from temporalio.client import Client

from holdfast.client import run_handle as remote_run
from holdfast.schemas.decision import Decision
from tests.cli.conftest import Holdfast
from tests.support.house import House, OpenHouse, Run
from tests.support.model_server import Answer, call

PAYS = [Answer("I pay.", [call("pay", amount=5)]), Answer("Paid.")]


@pytest.fixture
async def paying(open_house: OpenHouse) -> House:
    """A house whose model wants to pay."""
    return await open_house(PAYS)


async def waiting(house: House, **agent: object) -> Run:
    """A run whose call waits for a decision."""
    run = await house.start(["pay"], agent=agent)
    await run.waiting()
    return run


@pytest.mark.parametrize(
    ("words", "said", "result"),
    [
        (("approve",), "approved", '{"paid": 5.0}'),
        (("deny", "--reason", "too much"), "denied", "too much"),
        (
            ("edit", "--arguments", '{"amount": 3}'),
            "approved with changes",
            '{"paid": 3.0}',
        ),
        (("respond", "--result", '{"paid": 0}'), "answered by a person", '{"paid": 0}'),
        (("respond", "--result", "by cheque"), "answered by a person", "by cheque"),
        (("respond", "--result", "null"), "answered by a person", "null"),
    ],
)
async def test_each_decision_has_its_effect(
    paying: House, holdfast: Holdfast, words: tuple[str, ...], said: str, result: str
) -> None:
    run = await waiting(paying)

    decided = await holdfast("decide", run.id, "t1c1", *words)

    assert (decided.code, decided.err) == (0, "")
    assert decided.out.startswith(f"t1c1: {said}. See holdfast watch")
    await run.result()
    assert result in (await run.results())["t1c1"]


async def test_who_decides_is_the_user_unless_said(
    paying: House, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "carl")
    run = await waiting(paying, approval={"quorum": 2, "approvers": ["finance"]})

    mine = await holdfast("decide", run.id, "t1c1", "approve", "--groups", "finance,ops")
    hers = await holdfast("decide", run.id, "t1c1", "approve", "--groups", "finance", "--by", "bea")

    assert mine.out == "t1c1: counted; 1 more must agree.\n"
    assert hers.out.startswith("t1c1: approved.")
    decisions = [entry for entry in await run.context() if entry["type"] == "decision"]
    assert [entry["decided"]["by"] for entry in decisions] == ["carl", "bea"]


async def test_an_approval_can_be_remembered_for_the_rest_of_the_run(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house(
        [Answer("", [call("pay", amount=1)]), Answer("", [call("pay", amount=2)]), Answer("Paid.")]
    )
    run = await waiting(house)

    await holdfast("decide", run.id, "t1c1", "approve", "--remember")

    assert (await run.result())["calls"] == 2


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("t9c9", "approve"), 4, "t9c9"),
        (("t1c1", "edit", "--arguments", '{"amount": "much"}'), 2, "do not fit"),
        (("t1c1", "approve", "--digest", "0000"), 2, "look at it again"),
        (("t1c1", "edit"), 2, "needs `arguments`"),
        (("t1c1", "respond"), 2, "needs `result`"),
        (("t1c1", "edit", "--arguments", "{"), 2, "no JSON"),
        (("t1c1", "wave"), 2, "`wave` does not fit"),
        (("t1c1", "happened", "--result", "1"), 2, "unknown"),
    ],
)
async def test_a_decision_that_does_not_count_says_why(
    paying: House, holdfast: Holdfast, words: tuple[str, ...], code: int, why: str
) -> None:
    run = await waiting(paying)

    said = await holdfast("decide", run.id, *words)

    assert (said.code, said.out) == (code, "")
    assert why in said.err
    assert said.err.count("\n") == 1
    assert len(await run.waiting()) == 1


async def test_a_second_decision_is_refused_and_changes_nothing(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house([Answer("", [call("pay", amount=1), call("pay", amount=2)])])
    run = await house.start(["pay"])
    await run.waiting(2)
    await holdfast("decide", run.id, "t1c1", "deny")

    said = await holdfast("decide", run.id, "t1c1", "approve")

    assert said.code == 1
    assert "nothing was changed" in said.err


async def test_a_run_that_has_ended_takes_no_decision(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house([Answer("Done.")])
    run = await house.start()
    await run.result()

    said = await holdfast("decide", run.id, "t1c1", "approve")

    assert (said.code, said.err) == (
        4,
        f"holdfast: run {run.id} has ended; see holdfast show {run.id}\n",
    )


async def test_a_decision_without_a_worker_says_that_one_is_needed(
    client: Client, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 0.2)
    await client.start_workflow("AgentWorkflow", {}, id="no-worker", task_queue="empty")

    said = await holdfast("decide", "no-worker", "t1c1", "approve")

    assert said.code == 3
    assert "start one: holdfast worker --task-queue empty" in said.err


def test_a_result_of_null_is_said_and_what_was_not_said_is_not() -> None:
    said = {"callId": "t1c1", "decision": "respond", "result": None}

    assert Decision.model_validate(said).to_json() == said


PLAN = [Answer("", [call("pay", amount=1), call("pay", amount=2), call("pay", amount=3)])]


async def test_calls_are_struck_out_of_a_plan_and_the_rest_is_approved(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    run = await waiting(await open_house([*PLAN, Answer("Paid.")]), plan="lazy")
    await run.listed()
    listed = await holdfast("approvals")
    assert "plan of 3 calls" in listed.out
    assert 't1c1="pay" t1c2="pay" t1c3="pay"' in listed.out

    struck = ("--strike", "t1c2,t1c3")
    decided = await holdfast("decide", run.id, "t1-plan", "approve", "--by", "ada", *struck)

    assert (decided.code, decided.err) == (0, "")
    assert decided.out.startswith("t1-plan: approved without t1c2, t1c3. See holdfast watch")
    await run.result()
    assert "struck this call out" in (await run.results())["t1c2"]
    assert (await run.results())["t1c1"] == '{"paid": 1.0}'
    shown = (await holdfast("show", run.id)).out
    assert "decided t1-plan plan of 3 calls: approved with changes by ada\n" in shown
    assert "  struck out: t1c2, t1c3\n" in shown
