"""A whole run as a person reads it."""

import json

import pytest
from temporalio.client import Client

from holdfast.client import run_handle as remote_run
from tests.cli.conftest import Holdfast
from tests.support.house import OpenHouse
from tests.support.model_server import Answer, call

LONG = "x" * 300


async def test_everything_that_happened_is_shown_in_full(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house(
        [
            Answer("I look and pay.", [call("look_up", id=7), call("pay", amount=5)]),
            Answer("", [call("echo", text=LONG), call("raises")]),
            Answer("All done."),
        ]
    )
    run = await house.start(["look_up", "pay", "echo", "raises"])
    await run.waiting()
    await run.decide("t1c2", "edit", arguments={"amount": 4}, by="bea", reason="five is too much")
    await run.result()

    said = await holdfast("show", run.id)

    assert (said.code, said.err) == (0, "")
    for text in (
        f"run  {run.id}",
        "user\n  go",
        "model\n  I look and pay.",
        "call t1c1 look_up  id=7",
        'writes †state.item = {"id": 7, "name": "item 7"}',
        "asks t1c2 Pay",
        "decided t1c2 Pay: approved with changes by bea\n  reason: five is too much",
        'arguments: {"amount": 4}',
        '{"paid": 4.0}',
        LONG,
        "ends t2c2 raises: tool_error\n  the stock is empty",
        "output  All done.",
        '"name": "item 7"',
        "completed  3 turns, 4 calls, 30 tokens in, 15 out",
    ):
        assert text in said.out


async def test_of_a_composed_answer_what_it_says_is_shown_and_not_its_json(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    calls = [{"_tool": "look_up", "id": 7}, {"_tool": "pay", "amount": 5}]
    first = {"calls": calls, "output": None}
    house = await open_house(
        [
            Answer(f"I look and pay. {json.dumps(first)}"),
            Answer(json.dumps({"calls": [], "output": "All done."})),
        ]
    )
    run = await house.start(["look_up", "pay"], agent={"calling": "composed"})
    await run.waiting()
    await run.decide("t1c2", "approve", by="bea")
    assert (await run.result())["output"] == "All done."

    said = await holdfast("show", run.id)

    assert "_tool" not in said.out
    for text in ("model\n  I look and pay.", "call t1c1 look_up  id=7", "output  All done."):
        assert text in said.out
    asked = house.model.requests[-1]
    assert "tools" not in asked
    assert asked["response_format"]["type"] == "json_schema"
    assert [message["role"] for message in asked["messages"]].count("tool") == 0
    assert "Result of t1c2 (pay): " in json.dumps(asked["messages"])


async def test_a_run_under_way_shows_where_it_stands(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house(
        [Answer("", [call("look_up", id=7)]), Answer("", [call("pay", amount=5)])]
    )
    run = await house.start(
        ["look_up"], agent={"skills": [{"name": "money", "tools": ["pay"]}]}, skill="money"
    )
    await run.waiting()

    said = await holdfast("show", run.id)

    assert " skill money\n" in said.out
    assert "status  awaiting_approval, skill money, turn 2, 20 tokens in, 10 out" in said.out
    assert f"waits  t2c1 Pay: holdfast decide {run.id} t2c1" in said.out
    assert '"name": "item 7"' in said.out


async def test_a_program_reads_the_context_as_it_is(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house([Answer("", [call("look_up", id=7)]), Answer("Done.")])
    run = await house.start(["look_up"])
    await run.result()

    said = await holdfast("show", run.id, "--json")

    assert json.loads(said.out) == await run.context()


async def test_what_a_model_and_a_tool_wrote_cannot_move_the_terminal(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house(
        [
            Answer("\x1b[2Jgone [red]x[/red]", [call("echo", text="\x1b]0;title\x07\u202e")]),
            Answer("\x1b[1A:smile:"),
        ]
    )
    run = await house.start(["echo"])
    await run.result()

    for words in (("show",), ("watch",), ("show", "--json"), ("watch", "--json")):
        said = await holdfast(words[0], run.id, *words[1:])
        assert not {"\x1b", "\x07", "\u202e"} & set(said.out)
        assert "gone [red]x[/red]" in said.out or "--json" in words
        assert ":smile:" in said.out


async def test_without_a_worker_it_says_that_one_is_needed(
    client: Client, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 0.2)
    await client.start_workflow("AgentWorkflow", {}, id="unshown", task_queue="empty")

    said = await holdfast("show", "unshown")

    assert (said.code, said.out) == (3, "")
    assert said.err == (
        "holdfast: no worker answers queries on task queue empty; "
        "start one: holdfast worker --task-queue empty\n"
    )
